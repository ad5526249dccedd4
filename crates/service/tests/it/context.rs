//! The prompt of the model, from the outside: personas, the user and the date, pins, history, summaries, sections,
//! uploads.

mod documents;
mod domain;
mod history;
mod personas;
mod prompt;
mod summaries;

use serde_json::{Value, json};
use testkit::upstream::{Received, Reply};
use testkit::{Answer, Frame, Method, Setup, TestApp};

async fn start(app: &str, files: &[(&str, &str)]) -> TestApp {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let app = TestApp::with(Setup { files, ..Setup::app(app) }).await;
    app.upstream.program(|_| Reply::says("Fine."));
    app
}

/// Role and text of each message that a model was sent.
fn said(request: &Received) -> Vec<(String, String)> {
    let messages = request.body["messages"].as_array().unwrap();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

fn system(request: &Received) -> String {
    said(request)[0].1.clone()
}

fn event<'f>(frames: &'f [Frame], name: &str) -> &'f Value {
    &frames.iter().find(|frame| frame.event == name).expect(name).data
}

async fn run(app: &TestApp, body: Value) -> Vec<Frame> {
    app.stream("/v1/apps/test/runs", &body).await.all().await
}

fn thread_of(frames: &[Frame]) -> String {
    event(frames, "run:start")["threadId"].as_str().unwrap().to_owned()
}

async fn say_in(app: &TestApp, thread: &str, message: &str) -> Vec<Frame> {
    run(app, json!({ "message": message, "threadId": thread })).await
}

async fn patch(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(app.request(Method::PATCH, path).json(body)).await
}

#[tokio::test]
async fn the_user_and_their_date_are_in_the_prompt() {
    let app = start("", &[]).await;
    let profile =
        json!({ "name": "Ana", "timezone": "Pacific/Kiritimati", "fields": { "pronouns": "she/her" } });
    assert_eq!(patch(&app, "/v1/me", &profile).await.status, 200);
    let log = run(&app, json!({ "message": "Hi" })).await;
    let shown = system(&app.upstream.requests()[0]);
    assert!(shown.contains("- Name: \"Ana\"") && shown.contains("- \"pronouns\": \"she/her\""), "{shown}");
    let date = event(&log, "context:loaded")["date"].as_str().unwrap();
    assert!(date.ends_with("(Pacific/Kiritimati)"), "{date}");
    assert!(shown.contains(&format!("Today is {date}.")), "{shown}");
    let marks: Vec<&str> = shown.lines().filter(|line| line.starts_with("<data-")).collect();
    assert_eq!(marks.len(), 1, "what the user wrote is data: {shown}");
}

#[tokio::test]
async fn the_app_orders_what_is_in_the_prompt() {
    let order = "[context]\norder = [\"custom\", \"date\", \"focus\", \"instructions\", \"history\"]";
    let app = start(order, &[]).await;
    run(&app, json!({ "message": "Hi", "systemPrompt": "Be brief." })).await;
    let shown = system(&app.upstream.requests()[0]);
    let places: Vec<usize> = ["Be brief.", "Today is", "CRITICAL INSTRUCTION", "You are"]
        .iter()
        .map(|part| shown.find(part).unwrap_or_else(|| panic!("{part} is not in {shown}")))
        .collect();
    assert!(places.is_sorted(), "{shown}");
}
