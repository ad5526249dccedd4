//! Messages as a tree: answers with their tool calls, branches, and answers given again.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use crate::support::{Names, RUNS, good, prompt, refused, rows, say, say_in, timeless, told};

async fn messages(app: &TestApp, names: &Names) -> Vec<Value> {
    good(app.get(&names.messages_path()).await)["data"].as_array().unwrap().clone()
}

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["text"].as_str().unwrap()).collect()
}

fn id(message: &Value) -> String {
    message["id"].as_str().unwrap().to_owned()
}

/// A model whose answers are numbered.
async fn numbering() -> TestApp {
    let app = TestApp::start().await;
    let count = std::sync::atomic::AtomicU32::new(0);
    app.upstream.program(move |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Reply::says(&format!("answer {number}"))
    });
    app
}

#[tokio::test]
async fn an_answer_carries_its_tool_calls_and_their_results() {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"refuse\"]")).await;
    app.upstream.script([
        Reply::stream()
            .text("Two at once.")
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
            .call(ScriptedCall::new("echo", "{\"text\":")),
        Reply::stream().call(ScriptedCall::new("refuse", "{}")),
        Reply::says("Done."),
    ]);
    let names = say(&app, "Use your tools").await;
    let mut messages = good(app.get(&names.messages_path()).await);
    // The two of the first step run side by side.
    messages["data"][1]["toolResults"]
        .as_array_mut()
        .unwrap()
        .sort_by_key(|result| result["callId"].to_string());
    insta::assert_json_snapshot!(timeless(messages));
}

#[tokio::test]
async fn messages_follow_one_another() {
    let app = numbering().await;
    let names = say(&app, "A").await;
    say_in(&app, &names.thread, "B").await;
    let path = messages(&app, &names).await;
    assert_eq!(texts(&path), ["A", "answer 1", "B", "answer 2"]);
    assert_eq!(path[0]["parentId"], Value::Null);
    for pair in path.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
    assert_eq!(prompt(&app, 1), ["user: A", "assistant: answer 1", "user: B"]);
    let thread = good(app.get(&names.thread_path()).await);
    assert_eq!((&thread["headId"], &thread["messageCount"]), (&path[3]["id"], &json!(4)));
}

#[tokio::test]
async fn naming_an_older_parent_begins_a_branch() {
    let app = numbering().await;
    let names = say(&app, "A").await;
    say_in(&app, &names.thread, "B").await;
    let first = messages(&app, &names).await;
    told(&app, json!({ "message": "C", "threadId": names.thread, "parentId": id(&first[1]) })).await;
    assert_eq!(prompt(&app, 2), ["user: A", "assistant: answer 1", "user: C"]);
    let second = messages(&app, &names).await;
    assert_eq!(texts(&second), ["A", "answer 1", "C", "answer 3"]);
    assert_eq!(second[2]["parentId"], first[2]["parentId"], "B and C are siblings");

    // The other branch is still there: going on from its end shows it again.
    told(&app, json!({ "message": "D", "threadId": names.thread, "parentId": id(&first[3]) })).await;
    let expected = ["user: A", "assistant: answer 1", "user: B", "assistant: answer 2", "user: D"];
    assert_eq!(prompt(&app, 3), expected);
    let third = messages(&app, &names).await;
    assert_eq!(third[..4].iter().map(id).collect::<Vec<_>>(), first.iter().map(id).collect::<Vec<_>>());
    assert_eq!(good(app.get(&names.thread_path()).await)["messageCount"], 8);
}

#[tokio::test]
async fn an_answer_can_be_given_again_in_three_ways() {
    let app = numbering().await;
    let names = say(&app, "A").await;
    say_in(&app, &names.thread, "B").await;
    let first = messages(&app, &names).await;
    let (question, answer) = (id(&first[2]), id(&first[3]));
    let again = [
        json!({ "regenerate": true }),
        json!({ "regenerate": question }),
        json!({ "regenerate": answer }),
        json!({ "regenerate": true, "parentId": answer }),
        json!({ "regenerate": true, "parentId": question }),
    ];
    for (index, mut body) in again.into_iter().enumerate() {
        body["threadId"] = json!(names.thread);
        told(&app, body.clone()).await;
        assert_eq!(prompt(&app, index + 2), ["user: A", "assistant: answer 1", "user: B"], "{body}");
        let path = messages(&app, &names).await;
        assert_eq!(path[..3], first[..3], "{body}");
        assert_eq!(path[3]["text"], format!("answer {}", index + 3), "{body}");
        assert_eq!(path[3]["parentId"], question.as_str(), "{body}: answers are siblings");
    }
    let siblings = "SELECT count(*) FROM messages WHERE role = 'assistant' AND parent = (
        SELECT id FROM messages WHERE role = 'user' ORDER BY seq LIMIT 1 OFFSET 1)";
    assert_eq!(app.count(siblings), 6);
    assert_eq!(app.count("SELECT count(*) FROM messages WHERE role = 'user'"), 2);
}

#[tokio::test]
async fn an_old_message_can_be_answered_again() {
    let app = numbering().await;
    let names = say(&app, "A").await;
    say_in(&app, &names.thread, "B").await;
    let first = messages(&app, &names).await;
    told(&app, json!({ "threadId": names.thread, "regenerate": id(&first[0]) })).await;
    assert_eq!(prompt(&app, 2), ["user: A"]);
    assert_eq!(texts(&messages(&app, &names).await), ["A", "answer 3"]);
    say_in(&app, &names.thread, "C").await;
    assert_eq!(prompt(&app, 3), ["user: A", "assistant: answer 3", "user: C"]);
}

#[tokio::test]
async fn a_run_that_answers_again_stores_no_message_of_the_user() {
    let app = numbering().await;
    let names = say(&app, "A").await;
    let body = json!({ "threadId": names.thread, "regenerate": true });
    let frames = app.stream(RUNS, &body).await.all().await;
    let events: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    let expected =
        ["run:start", "context:loaded", "step:start", "text:delta", "step:end", "stream:complete", "run:end"];
    assert_eq!(events, expected);
}

/// Only messages of the thread itself can be its parents.
#[tokio::test]
async fn a_message_of_another_thread_is_no_parent() {
    let app = numbering().await;
    let (here, there) = (say(&app, "A").await, say(&app, "B").await);
    let foreign = id(&messages(&app, &there).await[1]);
    let before = rows(&app);
    for body in [
        json!({ "message": "C", "threadId": here.thread, "parentId": foreign }),
        json!({ "regenerate": foreign, "threadId": here.thread }),
        json!({ "regenerate": true, "parentId": foreign, "threadId": here.thread }),
        json!({ "message": "C", "threadId": here.thread, "parentId": "msg_ffffffffffffffffffffffffffffffff" }),
    ] {
        let detail = refused(app.post(RUNS, &body).await, 404, "not_found");
        assert_eq!(detail, "there is no such message, or it is not yours", "{body}");
    }
    assert_eq!(rows(&app), before);
}
