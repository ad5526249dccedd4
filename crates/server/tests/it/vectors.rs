//! The vectors that clients test their fold with (`clients/vectors`): each is the log of a real thread, and the messages
//! that the API shows of it. A changed log is a changed contract.

use std::path::{Path, PathBuf};

use axum::http::Method;
use serde_json::{Map, Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

use crate::support::{Names, RUNS, good};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/vectors");

/// Fields that say more about the server than about the conversation.
const LEFT_OUT: [&str; 6] = ["appRevision", "prompt", "parts", "history", "durationMs", "providerId"];

/// Fields of messages that a fold knows.
const SHOWN: [&str; 8] =
    ["id", "role", "text", "parentId", "toolCalls", "toolResults", "memoriesReferenced", "siblings"];

/// Sends a message and reads the run to its end; what it causes in the background is done, too.
async fn told(app: &TestApp, body: Value) -> Names {
    let stream = app.stream(RUNS, &body).await;
    let names = Names::of(&stream);
    stream.all().await;
    app.service.idle().await;
    names
}

/// Compares the thread with the vector of that name. If they differ, the new one is written beside it.
async fn check(app: &TestApp, names: &Names, (name, about): (&str, &str)) {
    app.service.idle().await;
    let vector = json!({
        "about": about,
        "thread": names.thread,
        "log": log(app, names).await.iter().map(written).collect::<Vec<_>>(),
        "messages": messages(app, names).await,
    });
    let path = Path::new(FOLDER).join(format!("{name}.json"));
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".into());
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let is_same = shape(&kept) == shape(&vector);
    let new = if is_same { path } else { write_beside(&path, &vector) };
    assert!(is_same, "the thread is not the one in {name}.json: rename {} if it is good", new.display());
}

fn write_beside(path: &Path, vector: &Value) -> PathBuf {
    let new = path.with_extension("json.new");
    let text = serde_json::to_string_pretty(vector).unwrap();
    std::fs::create_dir_all(FOLDER).and_then(|()| std::fs::write(&new, text + "\n")).unwrap();
    new
}

/// The thread's channel from its first event.
async fn log(app: &TestApp, names: &Names) -> Vec<Frame> {
    let last = good(app.get(&names.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let mut frames = app.follow(&names.channel_path(), Some(0)).await;
    let mut log: Vec<Frame> = Vec::new();
    while log.last().is_none_or(|frame| frame.id < last) {
        log.push(frames.next().await.expect("the channel stays open"));
    }
    log
}

async fn messages(app: &TestApp, names: &Names) -> Vec<Value> {
    let page = good(app.get(&names.messages_path()).await);
    let shown = |message: &Value| -> Value {
        let fields = message.as_object().unwrap().iter();
        let mut kept: Map<String, Value> = fields
            .filter(|(field, _)| SHOWN.contains(&field.as_str()))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        for result in kept["toolResults"].as_array_mut().unwrap() {
            result.as_object_mut().unwrap().remove("durationMs");
        }
        Value::Object(kept)
    };
    page["data"].as_array().unwrap().iter().map(shown).collect()
}

fn written(frame: &Frame) -> Value {
    let mut data = frame.data.clone();
    let fields = data.as_object_mut().unwrap();
    fields.retain(|field, _| !LEFT_OUT.contains(&field.as_str()));
    for call in fields.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
        call.as_object_mut().unwrap().retain(|field, _| !LEFT_OUT.contains(&field.as_str()));
    }
    json!({ "seq": frame.id, "type": frame.event, "data": data })
}

/// A vector without what depends on the load: how many deltas there are, and so the numbers of events.
fn shape(vector: &Value) -> Value {
    let mut log: Vec<Value> = Vec::new();
    for event in vector["log"].as_array().into_iter().flatten() {
        let next = json!({ "type": event["type"], "data": event["data"] });
        match log.last_mut() {
            Some(last) if joins(last, &next) => {
                let text = |event: &Value| event["data"]["delta"].as_str().unwrap().to_owned();
                last["data"]["delta"] = json!(text(last) + &text(&next));
            }
            _ => log.push(next),
        }
    }
    json!({ "about": vector["about"], "thread": vector["thread"], "log": log, "messages": vector["messages"] })
}

fn joins(last: &Value, next: &Value) -> bool {
    let is_same = |field: &str| last["data"][field] == next["data"][field];
    last["type"] == next["type"] && next["data"]["delta"].is_string() && is_same("step") && is_same("callId")
}

#[tokio::test]
async fn a_run_with_tools_that_begins_again() {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"refuse\"]")).await;
    app.upstream.script([
        Reply::stream().text("Never ").text("mind").without_end(),
        Reply::stream()
            .reasoning("They want ")
            .reasoning("an echo.")
            .text("Let me ")
            .text("see.")
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#).fragments(4))
            .call(ScriptedCall::new("refuse", "{}")),
        Reply::stream().text("It ").text("is ").text("a."),
    ]);
    let names = told(&app, json!({ "message": "  What is it?\n" })).await;
    check(
        &app,
        &names,
        ("tools", "A step is reset, two tools are called, one of them fails, and the answer follows."),
    )
    .await;
}

#[tokio::test]
async fn a_run_that_waits_for_approval() {
    let app = TestApp::with(Setup::app("tools = [\"risky\", \"echo\"]")).await;
    let risky = |n: u32| ScriptedCall::new("risky", &json!({ "n": n }).to_string());
    let step = Reply::stream().text("May I?").call(risky(1)).call(risky(2));
    app.upstream
        .script([step.call(ScriptedCall::new("echo", r#"{"text":"b"}"#)), Reply::says("Half of it.")]);
    let result = good(app.post(RUNS, &json!({ "message": "Do it", "stream": false })).await);
    let names = Names { run: text(&result, "runId"), thread: text(&result, "threadId") };
    for (proposal, word) in [(0, "confirm"), (1, "reject")] {
        let id = text(&result["proposals"][proposal], "id");
        good(app.post(&format!("/v1/proposals/{id}/{word}"), &json!({})).await);
    }
    check(&app, &names, ("approval", "Two calls wait for approval: one is confirmed, and one is rejected."))
        .await;
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn runs_that_do_not_complete() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream().text("Hel").text("lo").stall(),
        Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), "no"),
    ]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut said = String::new();
    while said != "Hello" {
        let frame = stream.next().await.unwrap();
        said.push_str(frame.data["delta"].as_str().unwrap_or_default());
    }
    // A second message waits, and is cancelled before its turn.
    let queued = app.stream(RUNS, &json!({ "message": "Later", "threadId": names.thread })).await;
    let queued = Names::of(&queued);
    for run in [&queued, &names] {
        let cancelled = app.send(app.request(Method::POST, &format!("{}/cancel", run.run_path()))).await;
        assert_eq!(cancelled.status, 202);
    }
    stream.all().await;
    app.service.idle().await; // the title comes before the next message
    told(&app, json!({ "message": "Again", "threadId": names.thread })).await;
    let about = "A run is cancelled while it speaks, a queued one before it begins, and a third one fails.";
    check(&app, &names, ("ends", about)).await;
}

#[tokio::test]
async fn a_thread_with_branches() {
    let app = TestApp::start().await;
    app.upstream.program(|body| {
        let asked =
            body["messages"].as_array().and_then(|all| all.last()).map(|last| last["content"].clone());
        Reply::stream().text("You said: ").text(asked.as_ref().and_then(Value::as_str).unwrap_or("nothing"))
    });
    let names = told(&app, json!({ "message": "One" })).await;
    told(&app, json!({ "message": "Two", "threadId": names.thread })).await;
    let before = messages(&app, &names).await;
    told(&app, json!({ "regenerate": true, "threadId": names.thread })).await;
    let edited =
        json!({ "message": "Two and a half", "threadId": names.thread, "parentId": before[1]["id"] });
    told(&app, edited).await;
    told(&app, json!({ "message": "Three", "threadId": names.thread })).await;
    let about = "A message is answered, another one is answered twice, edited, and followed by a third one.";
    check(&app, &names, ("branches", about)).await;
}

#[tokio::test]
async fn an_answer_that_no_model_wrote() {
    let app = TestApp::with(Setup::app("[loop]\nfailure_reply = \"Please try again later.\"")).await;
    let gate = Gate::new();
    gate.open();
    app.upstream.script([
        Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), "no"),
        Reply::stream().wait(&gate).text("Here."),
    ]);
    let names = told(&app, json!({ "message": "Hi" })).await;
    told(&app, json!({ "message": "Are you there?", "threadId": names.thread })).await;
    check(
        &app,
        &names,
        ("prepared", "The model fails, the app's own reply is the answer, and the next run works."),
    )
    .await;
}
