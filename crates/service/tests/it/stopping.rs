//! Tools of a run that must stop: told, given a moment, and then left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

/// Starts a run that calls `gated` and `tool`, cancels it once both have started, and gives all that follows.
async fn cancelled(tool: &str) -> (Vec<Frame>, Duration) {
    let toml = "tools = [\"gated\", \"hang\", \"echo\"]\n[loop]\nmax_parallel_tools = 2";
    let app = TestApp::with(Setup::app(toml)).await;
    app.upstream.script([Reply::stream()
        .call(ScriptedCall::new("gated", "{}"))
        .call(ScriptedCall::new(tool, "{}"))
        .call(ScriptedCall::new("echo", r#"{"text":"never"}"#))]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let run = stream.header("x-run-id");
    stream.read_until("tool:start").await;
    stream.read_until("tool:start").await;
    let asked = Instant::now();
    assert_eq!(app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.status, 202);
    let frames = stream.read_until("run:end").await;
    (frames, asked.elapsed())
}

fn results(frames: &[Frame]) -> Vec<(&Value, &Value)> {
    let complete = frames.iter().filter(|frame| frame.event == "tool:complete");
    complete.map(|frame| (&frame.data["name"], &frame.data["status"])).collect()
}

#[tokio::test]
async fn c1_a_tool_that_listens_ends_at_once_and_no_other_starts() {
    let (frames, took) = cancelled("gated").await;
    assert_eq!(frames.last().unwrap().data["status"], "cancelled");
    assert_eq!(
        frames.iter().filter(|frame| frame.event == "tool:start").count(),
        0,
        "no tool starts after a cancel"
    );
    let gated = json!("gated");
    let (failed, cancelled) = (json!("failed"), json!("cancelled"));
    assert_eq!(results(&frames), [(&gated, &failed), (&gated, &failed), (&json!("echo"), &cancelled)]);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn c1_a_tool_that_does_not_listen_is_left_after_five_seconds() {
    let (frames, took) = cancelled("hang").await;
    println!("a run whose tool ignores the cancel: ended after {took:?}");
    assert_eq!(frames.last().unwrap().data["status"], "cancelled");
    let hang = results(&frames).into_iter().find(|(name, _)| **name == "hang");
    assert_eq!(hang.map(|(_, status)| status), Some(&json!("cancelled")), "T2: it has a result all the same");
    assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
}
