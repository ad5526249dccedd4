//! Threads of clients that send everything that was said: only what a thread does not have is new.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::{Gate, Reply};

use super::{CHAT, assistant, body, completed, completed_in, error, user, with};
use crate::support::{THREADS, good, prompt, repeating, said, send_as, thread, token};

/// Says each text in turn in a thread, with the whole history, as a client does. Gives back the thread and the history.
async fn talked(app: &TestApp, name: &str, texts: &[&str]) -> (String, Vec<Value>) {
    let mut history = Vec::new();
    let mut thread = String::new();
    for text in texts {
        history.push(user(text));
        let answer = completed_in(app, Some(name), &body(&history)).await;
        history.push(answer.message());
        thread = answer.thread;
    }
    (thread, history)
}

#[tokio::test]
async fn a_named_thread_grows_by_what_is_new() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (thread, history) = talked(&app, "mine", &["a", "b", "c"]).await;
    let expected =
        ["user: a", "assistant: Re: a", "user: b", "assistant: Re: b", "user: c", "assistant: Re: c"];
    assert_eq!(said(&app, &thread).await, expected);
    assert_eq!(prompt(&app, 2), ["user: a", "assistant: Re: a", "user: b", "assistant: Re: b", "user: c"]);
    // One thread is found by its id, by the metadata, and by a client that sends the new message alone.
    let by_id = completed_in(&app, Some(&thread), &body(&[user("d")])).await;
    let metadata = json!({ "metadata": { "thread_id": "mine", "other": "x" } });
    let by_metadata = completed(&app, &with(body(&[user("e")]), &metadata)).await;
    assert_eq!((&by_id.thread, &by_metadata.thread), (&thread, &thread));
    assert_eq!(said(&app, &thread).await.len(), 10);
    // A client that has only the end of its history.
    let end = [user("e"), assistant("Re: e"), user("f")];
    completed_in(&app, Some("mine"), &body(&end)).await;
    assert_eq!(said(&app, &thread).await.len(), 12);
    // One that has shortened its history, and still has the newest answer.
    let short = [user("what was before"), assistant("a summary"), user("f"), assistant("Re: f"), user("g")];
    completed_in(&app, Some("mine"), &body(&short)).await;
    assert_eq!(said(&app, &thread).await.len(), 14);
    assert_eq!(app.count("SELECT count(*) FROM threads"), 1);
    assert_eq!(history.len(), 6);
}

#[tokio::test]
async fn an_edited_message_makes_a_branch() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (thread, mut history) = talked(&app, "mine", &["a", "b", "c"]).await;
    // Edited, and sent at once.
    history.truncate(2);
    history.push(user("B"));
    let answer = completed_in(&app, Some("mine"), &body(&history)).await;
    assert_eq!(answer.thread, thread);
    let branch = ["user: a", "assistant: Re: a", "user: B", "assistant: Re: B"];
    assert_eq!(said(&app, &thread).await, branch);
    // Back to the first branch, whose messages are all there.
    let first = [user("a"), assistant("Re: a"), user("b"), assistant("Re: b"), user("c"), assistant("Re: c")];
    let messages: Vec<Value> = first.iter().cloned().chain([user("d")]).collect();
    completed_in(&app, Some("mine"), &body(&messages)).await;
    let shown = said(&app, &thread).await;
    assert_eq!((shown.len(), shown.last().unwrap().as_str()), (8, "assistant: Re: d"));
    assert_eq!(app.count("SELECT count(*) FROM messages"), 10);
    // Edited in the middle, with what followed it: the turns in between are stored on the new branch.
    let mut edited = first.to_vec();
    edited[2] = user("other b");
    edited.push(user("e"));
    completed_in(&app, Some("mine"), &body(&edited)).await;
    let expected = [
        "user: a",
        "assistant: Re: a",
        "user: other b",
        "assistant: Re: b",
        "user: c",
        "assistant: Re: c",
        "user: e",
        "assistant: Re: e",
    ];
    assert_eq!(said(&app, &thread).await, expected);
}

#[tokio::test]
async fn a_long_history_is_taken_in_once() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let mut history: Vec<Value> =
        (0..500).flat_map(|n| [user(&format!("q{n}")), assistant(&format!("a{n}"))]).collect();
    history.push(user("last"));
    let first = completed_in(&app, Some("long"), &body(&history)).await;
    assert_eq!(first.text(), "Re: last");
    assert_eq!(app.count("SELECT count(*) FROM messages"), 1_002);
    history.extend([assistant("Re: last"), user("more")]);
    completed_in(&app, Some("long"), &body(&history)).await;
    assert_eq!(app.count("SELECT count(*) FROM messages"), 1_004);
    // Edited at the beginning: a branch with 500 turns again, and the new one.
    history[2] = user("q1, edited");
    completed_in(&app, Some("long"), &body(&history)).await;
    assert_eq!(app.count("SELECT count(*) FROM messages"), 1_004 + 1_002);
    // More turns than a request may bring.
    let many: Vec<Value> =
        (0..2_001).flat_map(|n| [user(&format!("x{n}")), assistant("y")]).chain([user("z")]).collect();
    error(app.post(CHAT, &body(&many)).await, 400, "invalid_request");
}

#[tokio::test]
async fn a_thread_of_the_native_api_can_be_continued() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let named = thread(&app).await;
    crate::support::say_in(&app, &named, "Hi").await;
    let messages =
        [json!({ "role": "system", "content": "Be kind." }), user("Hi"), assistant("Re: Hi"), user("Go on")];
    let answer = completed_in(&app, Some(&named), &body(&messages)).await;
    assert_eq!((answer.thread.as_str(), answer.text()), (named.as_str(), "Re: Go on"));
    assert_eq!(said(&app, &named).await.len(), 4);
    // Nothing in common: all of it follows.
    let other = [user("Else"), assistant("Something"), user("Go on")];
    completed_in(&app, Some(&named), &body(&other)).await;
    assert_eq!(said(&app, &named).await.len(), 8);
}

#[tokio::test]
async fn threads_belong_to_their_user_and_app() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let hers = good(send_as(&app, &ann, Method::POST, (THREADS, &json!({}))).await)["id"].clone();
    let request = app.request(Method::POST, CHAT).bearer_auth(&bob);
    let stolen = request.header("x-thread-id", hers.as_str().unwrap()).json(&body(&[user("Hi")]));
    error(app.send(stolen).await, 404, "not_found");
    for token in [&ann, &bob] {
        let request = app.request(Method::POST, CHAT).bearer_auth(token).header("x-thread-id", "same");
        assert_eq!(app.send(request.json(&body(&[user("Hi")]))).await.status, 200);
    }
    assert_eq!(app.count("SELECT count(*) FROM threads"), 3);
    assert_eq!(app.count("SELECT count(*) FROM messages"), 4);
    for name in ["x".repeat(256), "thr_00000000000000000000000000000000".into()] {
        let request = app.request(Method::POST, CHAT).bearer_auth(&ann).header("x-thread-id", name);
        let answer = app.send(request.json(&body(&[user("Hi")]))).await;
        assert!([400, 404].contains(&answer.status), "{answer:?}");
    }
}

#[tokio::test]
async fn a_conversation_without_a_thread_is_archived_and_asks_no_model_for_a_title() {
    let setup = testkit::Setup { title: Some("Name it.".into()), ..testkit::Setup::default() };
    let app = TestApp::with(setup).await;
    app.upstream.program(repeating);
    let answer = completed(&app, &body(&[user("a"), assistant("b"), user("How are you?\nFine?")])).await;
    app.service.idle().await;
    assert_eq!(app.upstream.requests().len(), 1);
    assert_eq!(good(app.get(THREADS).await)["data"], json!([]));
    let archived = good(app.get(&format!("{THREADS}?archived=true")).await);
    assert_eq!(archived["data"][0]["id"], answer.thread);
    assert_eq!(archived["data"][0]["title"], "How are you?");
}

#[tokio::test]
async fn a_message_before_the_end_of_an_answer_follows_that_answer() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("On").wait(&gate).text("e."), Reply::says("Two.")]);
    let (first, second) = (body(&[user("1")]), body(&[user("1"), assistant("On"), user("2")]));
    let (first, second) = tokio::join!(completed_in(&app, Some("t"), &first), async {
        gate.reached().await;
        let second = completed_in(&app, Some("t"), &second);
        let queued = async {
            while app.count("SELECT count(*) FROM runs WHERE status = 'queued'") == 0 {
                tokio::task::yield_now().await;
            }
            gate.open();
        };
        tokio::join!(second, queued).0
    });
    assert_eq!(second.text(), "Two.");
    assert_eq!(said(&app, &first.thread).await, ["user: 1", "assistant: One.", "user: 2", "assistant: Two."]);
}

#[tokio::test]
async fn messages_to_a_busy_thread_wait_for_their_turn() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().wait(&gate).text("One."), Reply::says("Two.")]);
    let (first, second) = (body(&[user("1")]), body(&[user("2")]));
    let both = async {
        tokio::join!(completed_in(&app, Some("t"), &first), async {
            gate.reached().await;
            let second = completed_in(&app, Some("t"), &second);
            let opened = async { gate.open() };
            tokio::join!(second, opened).0
        })
    };
    let (first, second) = both.await;
    assert_eq!((first.text(), second.text()), ("One.", "Two."));
    assert_eq!(said(&app, &first.thread).await.len(), 4);
}

#[tokio::test]
async fn a_key_makes_a_repeated_request_one_message() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let send = async |text: &str, thread: &str| {
        let request = app.request(Method::POST, CHAT).header("idempotency-key", "once");
        app.send(request.header("x-thread-id", thread).json(&body(&[user(text)]))).await
    };
    let (first, second) = (send("Hi", "t").await, send("Hi", "t").await);
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
    error(send("Other", "t").await, 400, "idempotency_key_reused");
}
