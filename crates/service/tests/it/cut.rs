//! A run cut after any event ends the same, and what was sent never changes.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

/// A model that decides by what it is shown alone, so that asking it again gives the same.
fn tools_then_words(request: &Value) -> Reply {
    let turns = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    match turns {
        0 => Reply::stream()
            .reasoning("Two things.")
            .text("Looking. ")
            .call(ScriptedCall::new("echo", r#"{"text":"one"}"#).fragments(4))
            .call(ScriptedCall::new("echo", r#"{"text":"two"}"#)),
        1 => Reply::stream().call(ScriptedCall::new("refuse", "{}")).call(ScriptedCall::new("nothing", "{")),
        _ => Reply::stream().text("One, ").text("two, ").text("and no."),
    }
}

fn words(_: &Value) -> Reply {
    Reply::stream().text("Just ").text("words.")
}

fn forced(request: &Value) -> Reply {
    if request.get("tools").is_none() {
        return Reply::says("Enough.");
    }
    Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"again"}"#))
}

/// Returns the rest of a run once it is over: what it said, called and got.
fn folded(messages: &Value) -> Value {
    let mut messages = messages["data"].clone();
    for message in messages.as_array_mut().unwrap() {
        let calls = message["toolCalls"].as_array_mut().unwrap();
        let ids: Vec<Value> = calls.iter().map(|call| call["id"].clone()).collect();
        for call in calls {
            call["id"] = Value::Null;
        }
        let results = message["toolResults"].as_array_mut().unwrap();
        results.sort_by_key(|result| ids.iter().position(|id| *id == result["callId"]));
        for result in results {
            result["callId"] = Value::Null;
            result["durationMs"] = Value::Null;
        }
        for field in ["id", "parentId", "runId", "usage", "durationMs"] {
            message[field] = Value::Null;
        }
    }
    messages
}

async fn start(program: fn(&Value) -> Reply) -> TestApp {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"refuse\"]")).await;
    app.upstream.program(program);
    app
}

async fn said(app: &TestApp, frames: &[Frame]) -> Value {
    let thread = frames[1].data["threadId"].as_str().unwrap();
    folded(&app.get(&format!("/v1/threads/{thread}/messages")).await.body)
}

/// Runs the script once whole, then once for every event it has, restarting after that event.
async fn cut_everywhere(program: fn(&Value) -> Reply) {
    let app = start(program).await;
    let whole = app.say("Go").await;
    let expected = said(&app, &whole).await;
    for cut in 1..whole.len() {
        let app = start(program).await;
        let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
        let mut before = Vec::new();
        while before.len() < cut {
            let Some(frame) = stream.next().await else { break };
            before.push(frame);
        }
        let run = stream.header("x-run-id");
        let app = app.restart().await;
        let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
        assert_eq!(frames[..before.len()], before, "what was sent before the cut at {cut} has changed");
        assert_eq!(said(&app, &frames).await, expected, "cut at {cut}: {frames:#?}");
        assert_eq!(frames.last().unwrap().data["status"], "completed");
        assert_eq!(frames.iter().filter(|frame| frame.event == "run:end").count(), 1);
    }
}

#[tokio::test]
async fn plain_words_cut_at_any_event_end_the_same() {
    cut_everywhere(words).await;
}

#[tokio::test]
async fn tools_cut_at_any_event_end_the_same() {
    cut_everywhere(tools_then_words).await;
}

#[tokio::test]
async fn a_forced_answer_cut_at_any_event_ends_the_same() {
    cut_everywhere(forced).await;
}
