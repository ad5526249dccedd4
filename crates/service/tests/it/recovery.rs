//! A run that its process left goes on from its log, and what was sent never changes.

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

fn run_of(frames: &[Frame]) -> String {
    frames.iter().find(|frame| frame.event == "run:start").unwrap().data["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_starts_again_after_a_restart() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("The first ").wait(&gate).text("half"),
        Reply::says("The whole answer."),
    ]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    let before = stream.read_until("text:delta").await;
    drop(stream);
    let app = app.restart().await;
    let run = run_of(&before);
    let after =
        app.follow(&format!("/v1/runs/{run}/events"), Some(before.last().unwrap().id)).await.all().await;
    let names: Vec<&str> = after.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(names, ["step:reset", "text:delta", "step:end", "stream:complete", "run:end"]);
    assert_eq!(after[0].data["reason"], "the server stopped or could not write while it ran this step");
    assert_eq!(after[3].data["text"], "The whole answer.");
    let whole = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!(whole, [before, after].concat(), "what was sent before never changes");
}

#[tokio::test]
async fn a_step_begun_too_often_is_given_up() {
    let mut app = TestApp::start().await;
    let stalled = || Reply::stream().text("Once more").stall();
    app.upstream.script([stalled(), stalled(), stalled()]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    let run = stream.header("x-run-id");
    stream.read_until("text:delta").await;
    for asked in [2, 3, 3] {
        app = app.restart().await;
        app.upstream.wait_for_requests(asked).await;
    }
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    let end = &frames.last().unwrap().data;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("interrupted"), &json!("interrupted")));
    assert_eq!(frames.iter().filter(|frame| frame.event == "step:reset").count(), 3);
}

#[tokio::test]
async fn tools_without_a_result_run_again_and_finished_ones_do_not() {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"gated\"]")).await;
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("gated", "{}"))
            .call(ScriptedCall::new("echo", r#"{"text":"once"}"#)),
        Reply::says("Done."),
    ]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let before = stream.read_until("tool:complete").await;
    let app = app.restart().await;
    app.gate.open();
    let run = run_of(&before);
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    let of = |event: &str| -> Vec<Value> {
        frames.iter().filter(|frame| frame.event == event).map(|frame| frame.data["name"].clone()).collect()
    };
    assert_eq!(of("tool:start"), ["gated", "echo"], "an intent is committed once");
    assert_eq!(of("tool:complete"), ["echo", "gated"]);
    assert_eq!(frames.last().unwrap().data["status"], "completed");
}

#[tokio::test]
async fn a_cancelled_run_stays_cancelled() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("I am").stall()]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    let run = stream.header("x-run-id");
    stream.read_until("text:delta").await;
    // As if the process had died between writing the cancel down and acting on it.
    app.database().execute("UPDATE runs SET stop = 'cancelled'", []).unwrap();
    let app = app.restart().await;
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "cancelled");
    assert_eq!(app.upstream.requests().len(), 1, "C2: the model is not asked again");
    let thread = frames[1].data["threadId"].as_str().unwrap();
    let said = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert_eq!(said["data"][1]["text"], "I am", "C1: what was seen of the answer is kept: {said}");
    let end = frames.iter().find(|frame| frame.event == "step:end").expect("the step that was cut has ended");
    assert_eq!((&end.data["text"], &end.data["finish"]), (&json!("I am"), &json!("cancelled")));
}
