//! kill -9 at chosen moments, then a start on the same data (R2, S2, S3, S5, C2, D2).

use serde_json::json;
use testkit::upstream::{Gate, Reply, ScriptedCall};

use crate::cut::{Cut, reply, status};
use crate::process::within;
use crate::world::{World, names, read_text};

#[tokio::test]
async fn half_an_answer() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([
        Reply::stream().text("Half ").text("of an answer").wait(&gate).text(" and more"),
        Reply::says("The whole answer."),
    ]);
    let server = world.serve().await;
    let mut frames = server.say("Tell me").await;
    within("half of the answer", gate.reached()).await;
    let before = read_text(&mut frames, "Half of an answer").await;
    let cut = Cut::of(before, &frames);
    server.process.kill();

    let server = world.serve().await;
    let whole = cut.follow(&server).await;
    let expected = [
        "message:user",
        "run:start",
        "context:loaded",
        "step:start",
        "text:delta",
        "step:reset",
        "text:delta",
        "step:end",
        "stream:complete",
        "run:end",
    ];
    assert_eq!(names(&whole), expected);
    assert_eq!((status(&whole), reply(&whole)), ("completed", "The whole answer."));
    server.process.kill();
    world.audit();
}

#[tokio::test]
async fn right_after_the_response_began() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |_| Reply::stream().wait(&held).text("Here I am."));
    let server = world.serve().await;
    let frames = server.say("Are you there?").await;
    let cut = Cut::of(Vec::new(), &frames);
    server.process.kill();
    gate.open();

    let server = world.serve().await;
    let whole = cut.follow(&server).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "Here I am."));
    assert_eq!(whole[0].data["text"], "Are you there?");
    server.process.kill();
    world.audit();
}

/// A cancel is durable when it is answered, so no kill can bring the run back.
#[tokio::test]
async fn right_after_a_cancel_was_accepted() {
    let world = World::new().await;
    for round in 1..=3 {
        let gate = Gate::new();
        world.upstream.script([Reply::stream().text("I will never").wait(&gate).text(" stop")]);
        let server = world.serve().await;
        let mut frames = server.say("Go on").await;
        let cut = Cut::of(read_text(&mut frames, "I will never").await, &frames);
        let (accepted, run) = server.post(&format!("/v1/runs/{}/cancel", cut.run), &json!({})).await;
        assert_eq!((accepted, &run["cancelRequested"]), (202, &json!(true)));
        server.process.kill();

        let server = world.serve().await;
        let whole = cut.follow(&server).await;
        assert_eq!(status(&whole), "cancelled");
        assert_eq!(world.upstream.requests().len(), round, "the upstream is not asked again");
        server.process.kill();
        world.audit();
    }
}

/// The tools of one step, killed at each moment of it that can be seen from outside.
#[tokio::test]
async fn during_the_tools_of_a_step() {
    for moment in ["tool:input", "step:end", "tool:start", "tool:complete"] {
        let world = World::new().await;
        let gate = Gate::new();
        let held = gate.clone();
        world.upstream.program(move |body| match body["messages"].as_array().and_then(|all| all.last()) {
            Some(last) if last["role"] == "tool" => Reply::stream().wait(&held).text("It is 42."),
            _ => Reply::stream()
                .call(ScriptedCall::new("calculate", r#"{"expression": "6 * 7"}"#))
                .call(ScriptedCall::new("current_time", "{}")),
        });
        let server = world.serve().await;
        let mut frames = server.say("What is 6 times 7?").await;
        let cut = Cut::of(frames.read_until(moment).await, &frames);
        server.process.kill();
        gate.open();

        let server = world.serve().await;
        let whole = cut.follow(&server).await;
        assert_eq!((status(&whole), reply(&whole)), ("completed", "It is 42."), "after {moment}");
        let count = |name: &str| whole.iter().filter(|frame| frame.event == name).count();
        assert_eq!((count("tool:complete"), count("stream:complete")), (2, 1), "after {moment}");
        server.process.kill();
        world.audit();
    }
}

/// The upstream has written the last byte of the calls; how far the run got is left to chance.
#[tokio::test]
async fn when_the_upstream_has_finished_its_calls() {
    let world = World::new().await;
    let [written, answer] = [Gate::new(), Gate::new()];
    let call = json!({"index": 0, "id": "a", "type": "function", "function": {"name": "calculate", "arguments": "{\"expression\":\"2+2\"}"}});
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let calls = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let held = (written.clone(), answer.clone());
    world.upstream.program(move |body| match body["messages"].as_array().and_then(|all| all.last()) {
        Some(last) if last["role"] == "tool" => Reply::stream().wait(&held.1).text("Four."),
        _ => Reply::sse(calls.as_bytes()).wait(&held.0),
    });
    let server = world.serve().await;
    let frames = server.say("What is 2 and 2?").await;
    let cut = Cut::of(Vec::new(), &frames);
    within("the calls to be written", written.reached()).await;
    server.process.kill();
    written.open();
    answer.open();

    let server = world.serve().await;
    let whole = cut.follow(&server).await;
    assert_eq!((status(&whole), reply(&whole)), ("completed", "Four."));
    server.process.kill();
    world.audit();
}
