//! The fate of a call that was cut between intent and outcome, by its effect (R5, E1, E2).

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

const ACTS: &str =
    "tools = [\"act_read\", \"act_idempotent\", \"act_reversible\", \"act_irreversible\", \"gated\"]";

fn results(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().filter(|frame| frame.event == "tool:complete").map(|frame| &frame.data).collect()
}

/// Starts a call, lets the process die while it is under way, and gives back what the run came to.
async fn cut(tool: &str, setup: Setup) -> (TestApp, Vec<Frame>) {
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new(tool, "{}"))]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let frames = stream.read_until("tool:start").await;
    app.gate.reached().await;
    drop(stream);
    let app = app.restart().await;
    app.gate.open();
    app.upstream.script([Reply::says("Well.")]);
    let run = frames.iter().find(|frame| frame.event == "run:start").unwrap().data["runId"].clone();
    let path = format!("/v1/runs/{}/events", run.as_str().unwrap());
    let frames = app.follow(&path, None).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed");
    (app, frames)
}

#[tokio::test]
async fn e2_what_can_be_repeated_is_repeated_under_the_same_key() {
    for tool in ["act_read", "act_idempotent"] {
        let (app, frames) = cut(tool, Setup::app(ACTS)).await;
        assert_eq!(results(&frames)[0]["status"], "complete", "{tool}");
        let arrivals = app.arrivals.all();
        assert_eq!(arrivals.len(), 2, "{tool}");
        assert_eq!(arrivals[0], arrivals[1], "{tool}: the same key");
        assert_eq!(frames.iter().filter(|frame| frame.event == "tool:start").count(), 1, "one intent");
    }
}

#[tokio::test]
async fn e2_what_cannot_arrives_at_most_once_and_is_unknown() {
    for tool in ["act_reversible", "act_irreversible"] {
        let (app, frames) = cut(tool, Setup::app(ACTS)).await;
        assert_eq!(results(&frames)[0]["status"], "unknown", "{tool}");
        assert_eq!(app.arrivals.all().len(), 1, "{tool}");
        let told = app.upstream.requests().last().unwrap().body["messages"].to_string();
        assert!(told.contains("not known whether"), "the model is told: {told}");
        let actions = app.get("/v1/apps/test/actions").await.body;
        assert_eq!(actions["data"][0]["status"], "unknown", "and so is the user");
    }
}

#[tokio::test]
async fn r5_a_tool_of_ours_has_done_nothing_and_runs_again() {
    let (_, frames) = cut("gated", Setup::app(ACTS)).await;
    assert_eq!(results(&frames)[0]["status"], "complete");
}

#[tokio::test]
async fn an_outside_call_that_never_answers_is_unknown_and_not_failed() {
    let app = TestApp::with(Setup::app(&format!("{ACTS}\n[loop]\ntool_timeout_seconds = 1"))).await;
    let calls = Reply::stream()
        .call(ScriptedCall::new("act_idempotent", "{}"))
        .call(ScriptedCall::new("act_read", "{}"));
    app.upstream.script([calls, Reply::says("Hm.")]);
    let frames = app.say("Go").await;
    let status =
        |name: &str| results(&frames).iter().find(|data| data["name"] == name).unwrap()["status"].clone();
    assert_eq!((status("act_idempotent"), status("act_read")), (json!("unknown"), json!("failed")));
}

#[tokio::test]
async fn an_outside_call_that_is_cancelled_on_its_way_is_unknown() {
    let app = TestApp::with(Setup::app(ACTS)).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("act_irreversible", "{}"))]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let frames = stream.read_until("tool:start").await;
    app.gate.reached().await;
    let run = frames.iter().find(|frame| frame.event == "run:start").unwrap().data["runId"].clone();
    app.post(&format!("/v1/runs/{}/cancel", run.as_str().unwrap()), &json!({})).await;
    let rest = stream.all().await;
    assert_eq!(results(&rest)[0]["status"], "unknown");
    assert_eq!(rest.last().unwrap().data["status"], "cancelled");
}

#[tokio::test]
async fn words_from_outside_make_later_outside_effects_ask() {
    let app = TestApp::with(Setup::app("tools = [\"act_read\", \"risky\", \"echo\"]")).await;
    app.gate.open();
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("act_read", "{}")),
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#)),
        Reply::says("Fine."),
    ]);
    let frames = app.say("Go").await;
    assert_eq!(results(&frames)[0]["outside"], true);
    assert_eq!(results(&frames)[1]["status"], "complete", "reading is never asked for");
}
