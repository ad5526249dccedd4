//! A thread's name: given once, in the background, after the first answer, and never over the user's own.

use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use crate::support::{Names, RUNS, THREADS, good, patch, refused, repeating, say, say_in, status_of, thread};

/// The titles told on a thread's channel so far.
async fn told(app: &TestApp, thread: &str) -> Vec<Value> {
    app.service.idle().await;
    let last = good(app.get(&format!("/v1/threads/{thread}")).await)["lastSeq"].as_u64().unwrap();
    let mut channel = app.follow(&format!("/v1/threads/{thread}/events"), None).await;
    let mut titles = Vec::new();
    let mut seen = 0;
    while seen < last {
        let frame = channel.next().await.expect("a channel does not end");
        seen = frame.id;
        titles.extend((frame.event == "thread:named").then(|| frame.data["title"].clone()));
    }
    titles
}

async fn title(app: &TestApp, thread: &str) -> Value {
    good(app.get(&format!("/v1/threads/{thread}")).await)["title"].clone()
}

async fn jobs(app: &TestApp) -> Vec<Value> {
    let page = good(app.get("/v1/admin/jobs").await);
    assert_eq!(page["next"], Value::Null);
    page["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_thread_is_named_once_after_its_first_answer() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let names = say(&app, "\n  What is a tide?\nPlease.").await;
    say_in(&app, &names.thread, "And a wave?").await;
    assert_eq!(told(&app, &names.thread).await, ["What is a tide?"]);
    assert_eq!(title(&app, &names.thread).await, "What is a tide?");
    assert_eq!(app.upstream.requests().len(), 2, "no model is asked for a name unless the app says how");

    let jobs = jobs(&app).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let job = &jobs[0];
    for (field, value) in [
        ("kind", json!("name_thread")),
        ("status", json!("done")),
        ("attempts", json!(1)),
        ("appId", json!("test")),
        ("userId", json!("local")),
        ("threadId", json!(names.thread)),
        ("error", Value::Null),
    ] {
        assert_eq!(job[field], value, "{job}");
    }
}

/// The name comes on the channel, after the end of the run and in no run's own stream.
#[tokio::test]
async fn a_name_is_told_after_the_end_of_the_run() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let thread = thread(&app).await;
    let mut channel = app.follow(&format!("/v1/threads/{thread}/events"), None).await;
    let stream = app.stream(RUNS, &json!({ "message": "Hi", "threadId": thread })).await;
    let run = stream.all().await;
    assert_eq!(status_of(&run), "completed");
    let heard = channel.read_until("thread:named").await;
    assert_eq!(heard[..run.len()], run[..]);
    assert_eq!(heard.len(), run.len() + 1);
}

/// An app with `title.md` has its model name threads, by what was said first and nothing else.
#[tokio::test]
async fn a_model_names_the_thread_if_the_app_says_how() {
    let app = TestApp::with(Setup { title: Some("Name this.".into()), ..Setup::default() }).await;
    app.upstream.program(|request| match request["messages"][0]["content"].as_str() {
        Some(system) if system.contains("Name this.") => Reply::says("\"Tides\"\nor so"),
        _ => repeating(request),
    });
    let names = say(&app, "What is a tide?").await;
    say_in(&app, &names.thread, "And a wave?").await;
    assert_eq!(told(&app, &names.thread).await, ["Tides"]);
    let requests = app.upstream.requests();
    assert_eq!(requests.len(), 3);
    let shown = requests[1].body["messages"].as_array().unwrap();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!(shown[1]["content"], "What is a tide?");
    assert_eq!(requests[1].body.get("tools"), None);
}

#[tokio::test]
async fn a_thread_whose_first_run_failed_has_a_name_and_keeps_it() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "no")]);
    app.upstream.program(repeating);
    let stream = app.stream(RUNS, &json!({ "message": "First words" })).await;
    let names = Names::of(&stream);
    assert_eq!(status_of(&stream.all().await), "failed");
    assert_eq!(told(&app, &names.thread).await, ["First words"]);
    assert_eq!(title(&app, &names.thread).await, "First words");
    say_in(&app, &names.thread, "Second words").await;
    assert_eq!(told(&app, &names.thread).await, ["First words"]);
}

#[tokio::test]
async fn a_name_the_user_gave_stays() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let mine = good(app.post(THREADS, &json!({ "title": "Mine" })).await)["id"].as_str().unwrap().to_owned();
    say_in(&app, &mine, "Hi").await;
    assert_eq!(told(&app, &mine).await, [] as [Value; 0]);
    assert_eq!(title(&app, &mine).await, "Mine");

    // Given before the first answer, or after it: the user's word is the last.
    let early = thread(&app).await;
    good(patch(&app, &format!("/v1/threads/{early}"), &json!({ "title": "Early" })).await);
    say_in(&app, &early, "Hi").await;
    assert_eq!(told(&app, &early).await, ["Early"]);
    let late = say(&app, "Hi").await;
    good(patch(&app, &late.thread_path(), &json!({ "title": "Late" })).await);
    say_in(&app, &late.thread, "Again").await;
    assert_eq!(told(&app, &late.thread).await, ["Hi", "Late"]);
}

#[tokio::test]
async fn jobs_are_paged_newest_first() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    for message in ["A", "B", "C"] {
        say(&app, message).await;
    }
    let whole = jobs(&app).await;
    assert_eq!(whole.len(), 3);
    let mut paged = Vec::new();
    let mut path = "/v1/admin/jobs?limit=1".to_owned();
    loop {
        let page = good(app.get(&path).await);
        paged.extend(page["data"].as_array().unwrap().clone());
        let Some(cursor) = page["next"].as_str() else { break };
        path = format!("/v1/admin/jobs?limit=1&cursor={cursor}");
    }
    assert_eq!(paged, whole);
    refused(app.get("/v1/admin/jobs?cursor=x").await, 422, "invalid_request");
}
