//! A real log folds to what the server shows, and each kind of damage to one is found.

use super::*;
use crate::upstream::{Reply, ScriptedCall};
use crate::{Setup, TestApp};

/// A run that is reset, calls two tools and answers, as its stream shows it; and what the server says of it.
async fn told() -> (Vec<Frame>, Value, Vec<Value>) {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"refuse\"]")).await;
    app.upstream.script([
        Reply::stream().text("Never ").text("mind").without_end(),
        Reply::stream()
            .reasoning("They want ")
            .text("Let me ")
            .text("see.")
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#).fragments(4))
            .call(ScriptedCall::new("refuse", "{}")),
        Reply::stream().text("It is ").text("a."),
    ]);
    let frames = app.say("What is it?").await;
    let folded = fold(&frames, DeltaState::Kept);
    let run = app.get(&format!("/v1/runs/{}", folded.run)).await.body;
    let messages = app.get(&format!("/v1/threads/{}/messages", folded.thread)).await.body;
    (frames, run, messages["data"].as_array().unwrap().clone())
}

fn at(frames: &[Frame], event: &str) -> usize {
    frames.iter().position(|frame| frame.event == event).unwrap()
}

fn last(frames: &[Frame], event: &str) -> usize {
    frames.iter().rposition(|frame| frame.event == event).unwrap()
}

/// Events keep the order of their numbers after every change.
fn numbered(mut frames: Vec<Frame>) -> Vec<Frame> {
    for (id, frame) in (1..).zip(&mut frames) {
        frame.id = id;
    }
    frames
}

#[tokio::test]
async fn a_run_folds_to_what_the_server_shows() {
    let (frames, run, messages) = told().await;
    let folded = fold(&frames, DeltaState::Kept);
    assert_eq!(folded.findings, [""; 0]);
    assert_eq!(folded.steps, ["Let me see.", "It is a."]);
    assert_eq!(folded.status.as_deref(), Some("completed"));
    assert_eq!(folded.compare_run(&run), [""; 0]);
    assert_eq!(folded.compare_messages(&messages), [""; 0]);
    let pruned: Vec<Frame> = frames
        .into_iter()
        .filter(|frame| !matches!(frame.event.as_str(), "text:delta" | "reasoning:delta" | "tool:input"))
        .collect();
    assert_eq!(fold(&pruned, DeltaState::Pruned).message, folded.message);
    assert_eq!(fold(&pruned, DeltaState::Pruned).findings, [""; 0]);
    assert_ne!(fold(&pruned, DeltaState::Kept).findings, [""; 0]);
}

/// The finding, and the damage that causes it.
type Damage = (&'static str, fn(&mut Vec<Frame>));

const TO_STEPS: &[Damage] = &[
    ("was streamed", |frames| drop(frames.remove(last(frames, "text:delta")))),
    ("was streamed", |frames| {
        let at = last(frames, "text:delta");
        frames.insert(at, frames[at].clone());
    }),
    ("was streamed", |frames| {
        let at = last(frames, "text:delta");
        let half = Frame { data: json!({ "step": 2, "delta": "a." }), ..frames[at].clone() };
        frames[at].data["delta"] = json!("It is ");
        frames.insert(at, half);
    }),
    ("was streamed", |frames| drop(frames.remove(at(frames, "step:reset")))),
    ("was streamed", |frames| drop(frames.remove(at(frames, "reasoning:delta")))),
    ("was streamed", |frames| drop(frames.remove(at(frames, "tool:input")))),
    ("was not reset", |frames| {
        let at = at(frames, "step:reset");
        frames[at].event = "step:retry".into();
    }),
    ("is neither of a step nor", |frames| {
        let delta = frames[last(frames, "text:delta")].clone();
        frames.push(delta);
    }),
    ("is not of the open step", |frames| drop(frames.remove(last(frames, "step:start")))),
    ("is step 3, not 2", |frames| {
        let at = last(frames, "step:start");
        frames[at].data["step"] = json!(3);
    }),
    ("begins while step", |frames| drop(frames.remove(at(frames, "step:end")))),
    ("which no step has called", |frames| drop(frames.remove(at(frames, "step:end")))),
];

const TO_CALLS: &[Damage] = &[
    ("comes after the result", |frames| {
        let at = at(frames, "tool:complete");
        frames.insert(at, frames[at].clone());
    }),
    ("a second time", |frames| {
        let at = at(frames, "tool:start");
        frames.insert(at, frames[at].clone());
    }),
    ("which has not begun", |frames| {
        let call = frames.iter().find(|f| f.data["status"] == "complete").unwrap().data["callId"].clone();
        frames.retain(|frame| frame.event != "tool:start" || frame.data["callId"] != call);
    }),
    ("without a result", |frames| drop(frames.remove(at(frames, "tool:complete")))),
    ("the last step said", |frames| {
        let at = at(frames, "stream:complete");
        frames[at].data["text"] = json!("It is b.");
    }),
    ("without an answer", |frames| drop(frames.remove(at(frames, "stream:complete")))),
    ("comes after run:end", |frames| {
        let end = frames.remove(at(frames, "run:end"));
        frames.insert(2, end);
    }),
    ("is no event of a run", |frames| frames[2].event = "thread:named".into()),
];

#[tokio::test]
async fn each_kind_of_damage_to_a_log_is_found() {
    let (whole, _, _) = told().await;
    for (found, damage) in TO_STEPS.iter().chain(TO_CALLS) {
        let mut frames = whole.clone();
        damage(&mut frames);
        let findings = fold(&numbered(frames), DeltaState::Kept).findings;
        assert!(findings.iter().any(|finding| finding.contains(found)), "{found}: {findings:#?}");
    }
    let mut frames = whole;
    frames.swap(3, 4);
    let findings = fold(&frames, DeltaState::Kept).findings;
    assert!(findings.iter().any(|finding| finding.contains("comes after number")), "{findings:#?}");
}

#[tokio::test]
async fn what_the_server_shows_otherwise_is_found() {
    let (frames, run, messages) = told().await;
    let folded = fold(&frames, DeltaState::Kept);
    for (field, value) in [
        ("status", json!("failed")),
        ("threadId", json!("thr_1")),
        ("error", json!({ "code": "x", "message": "y" })),
        ("usage", json!({ "inputTokens": 0, "outputTokens": 0 })),
    ] {
        let mut run = run.clone();
        run[field] = value;
        assert_ne!(folded.compare_run(&run), [""; 0], "{field}");
    }
    for (message, field) in [
        (0, "text"),
        (0, "id"),
        (1, "id"),
        (1, "text"),
        (1, "toolCalls"),
        (1, "toolResults"),
        (1, "memoriesReferenced"),
        (1, "runId"),
    ] {
        let mut messages = messages.clone();
        messages[message][field] = json!("x");
        assert_ne!(folded.compare_messages(&messages), [""; 0], "{message} {field}");
    }
    assert_ne!(folded.compare_messages(&messages[..1]), [""; 0], "a lost answer");
    let doubled = [messages.as_slice(), &messages[1..]].concat();
    assert_ne!(folded.compare_messages(&doubled), [""; 0], "a second answer");
    let mut open = fold(&frames[..frames.len() - 1], DeltaState::Kept);
    assert_eq!(open.status, None);
    assert_ne!(open.compare_run(&run), [""; 0], "it has ended, and its events do not say so");
    open.status = Some("completed".into());
    assert_eq!(open.compare_run(&run), [""; 0]);
}
