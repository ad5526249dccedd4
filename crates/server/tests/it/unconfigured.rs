//! A server without a model: it says what to set, and everything but answering works.

use serde_json::{Value, json};
use testkit::{Setup, TestApp, script};

use crate::support::{Names, RUNS, THREADS, delete, good, patch, problem, status_of};

async fn without_model() -> TestApp {
    TestApp::with(Setup { model: false, ..Setup::default() }).await
}

#[tokio::test]
async fn a_run_without_a_model_says_what_to_set() {
    let app = without_model().await;
    let frames = app.say("Hi").await;
    assert_eq!(status_of(&frames), "failed");
    insta::assert_snapshot!("the_log_of_a_run_without_a_model", script(&frames));
    let result = good(app.post(RUNS, &json!({ "message": "Hi", "stream": false })).await);
    insta::assert_json_snapshot!("the_result_of_a_run_without_a_model", result);
}

#[tokio::test]
async fn the_chat_contract_says_so_too() {
    let app = without_model().await;
    let frames = app.stream("/test/stream", &json!({ "message": "Hi" })).await.all().await;
    assert_eq!(frames.last().unwrap().data["error"]["code"], "model_not_configured");
}

#[tokio::test]
async fn everything_else_works_without_a_model() {
    let app = without_model().await;
    assert_eq!(app.get("/healthz").await.status, 200);
    assert_eq!(app.get("/readyz").await.status, 200);
    assert_eq!(good(app.get("/v1/apps").await)["data"][0]["model"], Value::Null);

    let stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let frames = stream.all().await;
    assert_eq!(app.follow(&names.events_path(), None).await.all().await, frames);
    let run = good(app.get(&names.run_path()).await);
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("model_not_configured")));
    let messages = good(app.get(&names.messages_path()).await);
    assert_eq!(messages["data"].as_array().map(Vec::len), Some(1), "{messages}");
    assert_eq!(messages["data"][0]["text"], "Hi");

    let renamed = good(patch(&app, &names.thread_path(), &json!({ "title": "Later" })).await);
    assert_eq!((&renamed["title"], &renamed["activeRunId"]), (&json!("Later"), &Value::Null));
    assert_eq!(good(app.get(THREADS).await)["data"][0], renamed);
    assert_eq!(problem(app.post(RUNS, &json!({})).await)["code"], "invalid_request");
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
}
