//! Branches of a thread as a front end shows them: siblings, the tree, and the choice of the branch that is shown.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp, audit};

use crate::support::{Names, RUNS, good, keyed, prompt, refused, repeating, say, say_in, told};

async fn start() -> TestApp {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    app
}

async fn messages(app: &TestApp, names: &Names) -> Vec<Value> {
    good(app.get(&names.messages_path()).await)["data"].as_array().unwrap().clone()
}

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["text"].as_str().unwrap()).collect()
}

fn head_path(names: &Names) -> String {
    format!("{}/head", names.thread_path())
}

async fn choose(app: &TestApp, names: &Names, message: &Value) -> Answer {
    let body = json!({ "messageId": message["id"] });
    app.send(app.request(Method::PUT, &head_path(names)).json(&body)).await
}

/// A, then B and C as its branches; the branch of C is shown.
async fn branched(app: &TestApp) -> (Names, Vec<Value>, Vec<Value>) {
    let names = say(app, "A").await;
    say_in(app, &names.thread, "B").await;
    let first = messages(app, &names).await;
    told(app, json!({ "message": "C", "threadId": names.thread, "parentId": first[1]["id"] })).await;
    let second = messages(app, &names).await;
    (names, first, second)
}

#[tokio::test]
async fn siblings_are_shown_where_there_are_some() {
    let app = start().await;
    let (names, first, second) = branched(&app).await;
    assert!(first.iter().all(|message| message.get("siblings").is_none()), "{first:?}");
    let siblings = json!({ "ids": [first[2]["id"], second[2]["id"]], "index": 1 });
    assert_eq!(second[2]["siblings"], siblings);
    for other in [0, 1, 3] {
        assert_eq!(second[other].get("siblings"), None);
    }
    // The first message of a thread has siblings, too, and so have answers.
    told(&app, json!({ "regenerate": true, "threadId": names.thread })).await;
    let third = messages(&app, &names).await;
    assert_eq!(third[3]["siblings"], json!({ "ids": [second[3]["id"], third[3]["id"]], "index": 1 }));
    assert_eq!(third[2]["siblings"], siblings);
}

#[tokio::test]
async fn an_answer_says_how_it_was_made() {
    let app = TestApp::with(Setup::app("tools = [\"echo\"]")).await;
    app.upstream.script([
        Reply::stream()
            .reasoning("I call echo.")
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
            .usage(5, 2),
        Reply::stream().reasoning("Now I know.").text("Done.").usage(7, 3),
        Reply::says("Plain."),
    ]);
    let names = say(&app, "Use your tool").await;
    say_in(&app, &names.thread, "And now without").await;
    let path = messages(&app, &names).await;
    let answer = &path[1];
    assert_eq!(answer["reasoning"], "I call echo.\n\nNow I know.");
    assert_eq!((&answer["usage"]["inputTokens"], &answer["usage"]["outputTokens"]), (&json!(12), &json!(5)));
    assert_eq!(answer["durationMs"], 0, "the clock stands");
    assert_eq!(answer.get("status"), None, "a completed answer says nothing of its run");
    let result = &answer["toolResults"][0];
    assert_eq!((&result["status"], &result["success"]), (&json!("complete"), &json!(true)));
    assert!(result["durationMs"].is_u64(), "{result}");
    for plain in [&path[0], &path[2]] {
        for field in ["reasoning", "usage", "durationMs", "status", "sources", "siblings"] {
            assert_eq!(plain.get(field), None, "{field}");
        }
    }
    assert_eq!(path[3].get("reasoning"), None);
    assert_eq!(path[3].get("sources"), None);
}

#[tokio::test]
async fn an_answer_that_was_cut_short_says_so() {
    let app = start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let names = Names::of(&stream);
    good(app.send(app.request(Method::POST, &format!("{}/cancel", names.run_path()))).await);
    stream.read_until("run:end").await;
    let path = messages(&app, &names).await;
    assert_eq!((&path[1]["text"], &path[1]["status"]), (&json!("Hel"), &json!("cancelled")));
    assert_eq!(path[0].get("status"), None);
}

#[tokio::test]
async fn a_message_without_an_answer_says_how_its_run_ended() {
    let app = start().await;
    app.upstream.script([Reply::status(401)]);
    let failed = good(app.post(RUNS, &json!({ "message": "Hi", "stream": false })).await);
    let thread = failed["threadId"].as_str().unwrap();
    app.upstream.script([Reply::stream().text("Yes.")]);
    good(app.post(RUNS, &json!({ "message": "And now?", "threadId": thread, "stream": false })).await);
    let path = format!("/v1/threads/{thread}/messages");
    let list = good(app.get(&path).await);
    let [first, second, answer] = list["data"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&first["status"], &first["error"]["code"]), (&json!("failed"), &json!("provider_auth")));
    assert!(first["error"]["message"].is_string() && first["runId"] == failed["runId"]);
    for complete in [second, answer] {
        assert_eq!((complete.get("status"), complete.get("error")), (None, None), "{complete}");
    }
    let export = app.request(Method::GET, &format!("/v1/threads/{thread}/export?format=markdown"));
    let text = export.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\n*There is no answer: the run is failed (provider_auth).*\n"), "{text}");
}

#[tokio::test]
async fn the_tree_has_all_branches() {
    let app = start().await;
    let (names, first, second) = branched(&app).await;
    say_in(&app, &names.thread, &"long ".repeat(100)).await;
    let path = format!("{}/tree", names.thread_path());
    let tree = good(app.get(&path).await);
    let data = tree["data"].as_array().unwrap();
    assert_eq!(texts(&data[..6]), ["A", "Re: A", "B", "Re: B", "C", "Re: C"]);
    let long = data[6]["text"].as_str().unwrap();
    assert!(long.ends_with('…') && long.chars().count() == 201, "{long}");
    assert_eq!((&tree["headId"], &tree["next"]), (&data[7]["id"], &Value::Null));
    let id = |message: &Value| message["id"].clone();
    assert_eq!(
        data.iter().map(id).collect::<Vec<_>>()[2..6],
        [id(&first[2]), id(&first[3]), id(&second[2]), id(&second[3])]
    );
    for (node, parent) in [(0, Value::Null), (1, id(&data[0])), (2, id(&data[1])), (4, id(&data[1]))] {
        assert_eq!(data[node]["parentId"], parent);
    }
    assert_eq!((&data[0]["role"], &data[1]["role"]), (&json!("user"), &json!("assistant")));
    assert!(data[1]["runId"].is_string() && data[1]["createdAt"].is_string());
    for limit in [1, 3, 8] {
        let (mut paged, mut next) = (Vec::new(), String::new());
        for _ in 0..9 {
            let page = good(app.get(&format!("{path}?limit={limit}{next}")).await);
            paged.extend(page["data"].as_array().unwrap().clone());
            let Some(cursor) = page["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        assert_eq!(&paged, data, "pages of {limit}");
    }
}

#[tokio::test]
async fn a_chosen_branch_is_shown_and_gone_on_with() {
    let app = start().await;
    let (names, first, second) = branched(&app).await;
    let before = good(app.get(&names.thread_path()).await);
    let last = before["lastSeq"].as_u64().unwrap();
    let mut channel = app.follow(&names.channel_path(), Some(last)).await;
    // Any message of the branch stands for its newest one.
    let after = good(choose(&app, &names, &first[2]).await);
    let told = channel.next().await.unwrap();
    assert_eq!((told.id, told.event.as_str()), (last + 1, "thread:head"));
    assert_eq!(told.data, json!({ "headId": first[3]["id"] }));
    let mut expected = before;
    expected["headId"] = first[3]["id"].clone();
    expected["lastSeq"] = json!(last + 1);
    assert_eq!(after, expected);
    assert_eq!(good(app.get(&names.thread_path()).await), expected);
    let shown = messages(&app, &names).await;
    assert_eq!(texts(&shown), ["A", "Re: A", "B", "Re: B"]);
    assert_eq!(shown[2]["siblings"], json!({ "ids": [first[2]["id"], second[2]["id"]], "index": 0 }));

    // It is the same after a restart, and the same choice again is no event.
    let app = app.restart().await;
    app.upstream.program(repeating);
    assert_eq!(good(app.get(&names.thread_path()).await)["headId"], first[3]["id"]);
    assert_eq!(good(choose(&app, &names, &first[3]).await)["lastSeq"], json!(last + 1));
    say_in(&app, &names.thread, "D").await;
    let newest = app.upstream.requests().len() - 1;
    assert_eq!(
        prompt(&app, newest),
        ["user: A", "assistant: Re: A", "user: B", "assistant: Re: B", "user: D"]
    );
    // The first message has two branches below it; the newest message is on the one that was gone on with.
    good(choose(&app, &names, &second[3]).await);
    assert_eq!(texts(&messages(&app, &names).await), ["A", "Re: A", "C", "Re: C"]);
    good(choose(&app, &names, &first[0]).await);
    assert_eq!(texts(&messages(&app, &names).await), ["A", "Re: A", "B", "Re: B", "D", "Re: D"]);
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn a_branch_is_not_chosen_while_the_thread_answers() {
    let app = start().await;
    let (names, first, _) = branched(&app).await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "E", "threadId": names.thread })).await;
    stream.read_until("text:delta").await;
    let head = good(app.get(&names.thread_path()).await)["headId"].clone();
    refused(choose(&app, &names, &first[3]).await, 409, "thread_busy");
    assert_eq!(good(app.get(&names.thread_path()).await)["headId"], head);
    gate.open();
    stream.read_until("run:end").await;
    app.service.idle().await;
    good(choose(&app, &names, &first[3]).await);
}

#[tokio::test]
async fn a_choice_that_means_nothing_is_refused() {
    let app = start().await;
    let (names, first, _) = branched(&app).await;
    let other = say(&app, "Elsewhere").await;
    let foreign = messages(&app, &other).await;
    let missing = json!({ "id": "msg_ffffffffffffffffffffffffffffffff" });
    for message in [&foreign[0], &missing] {
        let detail = refused(choose(&app, &names, message).await, 404, "not_found");
        assert_eq!(detail, "there is no such message, or it is not yours");
    }
    let nowhere = Names { thread: "thr_ffffffffffffffffffffffffffffffff".into(), ..other.clone() };
    refused(choose(&app, &nowhere, &first[0]).await, 404, "not_found");
    let put = async |body: Value| app.send(app.request(Method::PUT, &head_path(&names)).json(&body)).await;
    for body in [json!({}), json!({ "messageId": "x" }), json!({ "messageId": first[0]["id"], "more": 1 })] {
        refused(put(body).await, 422, "invalid_request");
    }
    // Under a key, the choice is made once.
    let path = head_path(&names);
    let body = json!({ "messageId": first[3]["id"] });
    let chosen = good(keyed(&app, Some("k"), Method::PUT, (&path, &body)).await);
    say_in(&app, &names.thread, "F").await;
    let again = good(keyed(&app, Some("k"), Method::PUT, (&path, &body)).await);
    assert_ne!(again["headId"], chosen["headId"], "the second request changes nothing");
    let reused = json!({ "messageId": first[0]["id"] });
    refused(keyed(&app, Some("k"), Method::PUT, (&path, &reused)).await, 422, "idempotency_key_reused");
}
