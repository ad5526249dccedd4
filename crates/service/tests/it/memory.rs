//! Memory from the outside: asked for, recalled, extracted, forgotten.

mod extraction;
mod forgetting;
mod recall;
mod requests;
mod snapshot;

use serde_json::{Value, json};
use testkit::upstream::{Received, Reply, ScriptedCall};
use testkit::{Frame, Method, Setup, TestApp, WordVectors};

const TOP: &str = "[memory]\ninject = \"top\"\nhistory = true\n";
const EXTRACTING: &str = "[memory]\ninject = \"all\"\nextract = true\nextract_delay_seconds = 0\nkeep = 3\n";

async fn start(app: &str) -> TestApp {
    TestApp::with(Setup::app(app)).await
}

async fn with_vectors(app: &str) -> TestApp {
    TestApp::with(Setup { embedder: Some(std::sync::Arc::new(WordVectors("words"))), ..Setup::app(app) })
        .await
}

/// The text of each message that a model was sent.
fn texts(request: &Received) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn last(request: &Received) -> String {
    texts(request).pop().unwrap()
}

fn thread_of(frames: &[Frame]) -> String {
    frames[1].data["threadId"].as_str().unwrap().to_owned()
}

fn answer(frames: &[Frame]) -> &str {
    frames.iter().find(|frame| frame.event == "stream:complete").unwrap().data["text"].as_str().unwrap()
}

async fn say_in(app: &TestApp, thread: &str, message: &str) -> Vec<Frame> {
    let body = json!({ "message": message, "threadId": thread });
    app.stream("/v1/apps/test/runs", &body).await.all().await
}

async fn add(app: &TestApp, text: &str) -> String {
    let added = app.post("/v1/apps/test/memories", &json!({ "text": text })).await;
    assert_eq!(added.status, 201, "{added:?}");
    added.body["id"].as_str().unwrap().to_owned()
}

async fn memories(app: &TestApp) -> Vec<Value> {
    app.get("/v1/apps/test/memories?limit=100").await.body["data"].as_array().unwrap().clone()
}

async fn known(app: &TestApp) -> Vec<String> {
    memories(app).await.iter().map(|memory| memory["text"].as_str().unwrap().to_owned()).collect()
}

async fn forget(app: &TestApp, id: &str) {
    let forgotten = app.send(app.request(Method::DELETE, &format!("/v1/memories/{id}"))).await;
    assert_eq!(forgotten.status, 204, "{forgotten:?}");
}

/// Whether a request is the memory model's.
fn is_extraction(request: &Value) -> bool {
    request["response_format"]["json_schema"]["name"] == "memories"
}

/// A memory model that finds the same every time, and another that talks.
fn extracts(app: &TestApp, changes: &'static str) {
    app.upstream.program(move |request| {
        if is_extraction(request) {
            Reply::says(&format!(r#"{{"changes": {changes}}}"#))
        } else {
            Reply::says("Fine.")
        }
    });
}
