//! A provider's bad days: each ends in a typed outcome that readers can follow, never in a hang or a mixture.

use std::time::Duration;

use model::Timeouts;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp, script};

fn end(frames: &[Frame]) -> (&Value, &Value) {
    let data = &frames.last().expect("an end").data;
    (&data["status"], &data["error"]["code"])
}

fn count(frames: &[Frame], event: &str) -> usize {
    frames.iter().filter(|frame| frame.event == event).count()
}

/// Returns the text that a reader has at the end: the deltas, forgetting what was reset.
fn folded(frames: &[Frame]) -> String {
    frames.iter().fold(String::new(), |mut text, frame| {
        match frame.event.as_str() {
            "text:delta" => text.push_str(frame.data["delta"].as_str().unwrap()),
            "step:reset" => text.clear(),
            _ => {}
        }
        text
    })
}

fn failed(code: &str) -> (Value, Value) {
    (json!("failed"), json!(code))
}

fn unavailable() -> Reply {
    Reply::status(503).header("retry-after-ms", "1")
}

#[tokio::test]
async fn a_rate_limit_is_waited_out() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(429).header("retry-after-ms", "40"), Reply::says("At last.")]);
    let frames = app.say("Hi").await;
    let retry = frames.iter().find(|frame| frame.event == "step:retry").expect("a step:retry");
    let after = retry.data["after"].as_u64().unwrap();
    assert!((40..=44).contains(&after), "never earlier than asked, and at most a tenth later: {after}");
    assert_eq!(folded(&frames), "At last.");
    assert_eq!(count(&frames, "step:reset"), 0);
}

#[tokio::test]
async fn a_used_up_quota_is_not_tried_again() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(429).error(
        "insufficient_quota",
        Some("insufficient_quota"),
        "no money",
    )]);
    let frames = app.say("Hi").await;
    let (status, code) = failed("provider_quota");
    assert_eq!(end(&frames), (&status, &code));
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_unavailable_provider_is_asked_four_times_at_most() {
    let app = TestApp::start().await;
    app.upstream.script([unavailable(), unavailable(), unavailable(), unavailable()]);
    let frames = app.say("Hi").await;
    let (status, code) = failed("provider_unavailable");
    assert_eq!(end(&frames), (&status, &code));
    assert_eq!((app.upstream.requests().len(), count(&frames, "step:retry")), (4, 3));
}

#[tokio::test]
async fn refused_credentials_and_requests_are_not_tried_again() {
    let app = TestApp::start().await;
    for (reply, expected) in [
        (
            Reply::status(401).error("invalid_api_key", None, "Incorrect API key provided: sk-abc"),
            "provider_auth",
        ),
        (
            Reply::status(400).error("invalid_request_error", Some("weird"), "sk-abc is weird"),
            "provider_rejected",
        ),
        (
            Reply::status(404).error("invalid_request_error", Some("model_not_found"), "sk-abc"),
            "provider_model_not_found",
        ),
    ] {
        app.upstream.script([reply]);
        let frames = app.say("Hi").await;
        let (status, code) = failed(expected);
        assert_eq!(end(&frames), (&status, &code));
        assert!(!script(&frames).contains("sk-abc"), "X1: nothing of the provider's words is passed on");
    }
    assert_eq!(app.upstream.requests().len(), 3);
}

#[tokio::test]
async fn a_prompt_the_provider_finds_too_long_is_shortened_once() {
    let app = TestApp::start().await;
    let too_long =
        || Reply::status(400).error("invalid_request_error", Some("context_length_exceeded"), "too long");
    app.upstream.script([Reply::says("One."), Reply::says("Two."), too_long(), Reply::says("Three.")]);
    let frames = app.say("First, and at some length, so that it is the larger half").await;
    let thread = frames[1].data["threadId"].clone();
    for message in ["Second", "Third"] {
        let body = json!({ "message": message, "threadId": thread });
        app.stream("/v1/apps/test/runs", &body).await.all().await;
    }
    let said = |index: usize| app.upstream.requests()[index].body["messages"].as_array().unwrap().len();
    assert_eq!((said(2), said(3)), (6, 4), "P2: the oldest turn is left out");
    app.upstream.script([too_long(), too_long()]);
    let frames = app.say("Alone").await;
    let (status, code) = failed("context_too_long");
    assert_eq!(end(&frames), (&status, &code));
    assert_eq!(app.upstream.requests().len(), 6, "one retry, then a typed failure");
}

#[tokio::test]
async fn a_cut_stream_is_void_and_starts_again() {
    let app = TestApp::start().await;
    app.upstream
        .script([Reply::stream().text("Wrong ").text("words").without_end(), Reply::says("Right words.")]);
    let frames = app.say("Hi").await;
    insta::assert_snapshot!(script(&frames));
    assert_eq!(folded(&frames), "Right words.", "S7: fold(events) is the stored message");
}

#[tokio::test]
async fn a_stream_that_is_cut_every_time_fails_and_keeps_what_it_said() {
    let app = TestApp::start().await;
    let cut = || Reply::stream().text("Half of").without_end();
    app.upstream.script([cut(), cut(), cut()]);
    let frames = app.say("Hi").await;
    let (status, code) = failed("provider_stream_broken");
    assert_eq!(end(&frames), (&status, &code));
    assert_eq!((app.upstream.requests().len(), count(&frames, "step:reset")), (3, 2));
    let thread = frames[1].data["threadId"].as_str().unwrap();
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert_eq!(messages["data"][1]["text"], "Half of");
}

#[tokio::test]
async fn an_error_inside_the_stream_counts_by_whether_anything_was_said() {
    let app = TestApp::start().await;
    let error = json!({ "error": { "message": "overloaded", "type": "server_error", "code": null } });
    app.upstream.script([
        Reply::stream().chunk(error.clone()).without_end(),
        Reply::stream().text("Oh").chunk(error).without_end(),
        Reply::says("Fine."),
    ]);
    let frames = app.say("Hi").await;
    assert_eq!((count(&frames, "step:retry"), count(&frames, "step:reset")), (1, 1));
    assert_eq!(folded(&frames), "Fine.");
}

#[tokio::test]
async fn a_tool_call_that_was_cut_never_runs() {
    let app = TestApp::start().await;
    let call = || ScriptedCall::new("echo", r#"{"text":"dangerous"}"#);
    app.upstream.script([
        Reply::stream().call(call()).without_end(),
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"trunc"#)).finish("length"),
        Reply::says("Never mind."),
    ]);
    let frames = app.say("Hi").await;
    assert_eq!((count(&frames, "step:reset"), count(&frames, "tool:start")), (1, 0));
    let result = frames.iter().find(|frame| frame.event == "tool:complete").expect("one result");
    assert_eq!(result.data["output"]["error"], "invalid_arguments");
    assert_eq!(app.count("SELECT count(*) FROM tool_calls"), 1);
}

#[tokio::test]
async fn stalls_are_noticed_before_the_first_byte_and_between_bytes() {
    let timeouts = Timeouts {
        first_byte: Duration::from_millis(500),
        idle: Duration::from_millis(500),
        ..Timeouts::default()
    };
    let app = TestApp::with(Setup { timeouts, ..Setup::default() }).await;
    app.upstream.script([Reply::silence(), Reply::stream().text("And then").stall(), Reply::says("Awake.")]);
    let frames = app.say("Hi").await;
    assert_eq!((count(&frames, "step:retry"), count(&frames, "step:reset")), (1, 1));
    assert_eq!(folded(&frames), "Awake.");
}

#[tokio::test]
async fn filtered_and_shortened_answers_are_answers() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .text("I would rather")
            .call(ScriptedCall::new("echo", r#"{"text":"no"}"#))
            .finish("content_filter"),
        Reply::stream().text("This goes on and").finish("length"),
    ]);
    for (finish, text) in [("content_filter", "I would rather"), ("length", "This goes on and")] {
        let frames = app.say("Hi").await;
        let step = frames.iter().find(|frame| frame.event == "step:end").unwrap();
        assert_eq!((&step.data["finish"], &step.data["calls"]), (&json!(finish), &json!([])));
        assert_eq!(folded(&frames), text);
        assert_eq!(frames.last().unwrap().data["status"], "completed");
    }
}

#[tokio::test]
async fn tokens_nobody_counted_are_estimated_and_say_so() {
    let app = TestApp::start().await;
    app.upstream
        .script([Reply::says("Four words it is.").without_usage(), Reply::says("Counted.").usage(7, 2)]);
    let frames = app.say("Hi").await;
    let usage = &frames.iter().find(|frame| frame.event == "stream:complete").unwrap().data["usage"];
    assert_eq!(usage["estimated"], true);
    assert!(
        usage["inputTokens"].as_u64().unwrap() > 0 && usage["outputTokens"].as_u64().unwrap() >= 5,
        "{usage}"
    );
    let frames = app.say("Hi").await;
    let usage = &frames.iter().find(|frame| frame.event == "stream:complete").unwrap().data["usage"];
    assert_eq!(*usage, json!({ "inputTokens": 7, "outputTokens": 2 }));
}

#[tokio::test]
async fn strange_provider_ids_are_only_theirs() {
    let app = TestApp::start().await;
    let long = "x".repeat(900_000);
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("echo", r#"{"text":"1"}"#).id(""))
            .call(ScriptedCall::new("echo", r#"{"text":"2"}"#).id("twice"))
            .call(ScriptedCall::new("echo", r#"{"text":"3"}"#).id("twice"))
            .call(ScriptedCall::new("echo", r#"{"text":"4"}"#).id(&long))
            .call(ScriptedCall::new("echo", r#"{"text":"5"}"#).id("ключ")),
        Reply::says("All five."),
    ]);
    let frames = app.say("Hi").await;
    assert_eq!(count(&frames, "tool:complete"), 5, "T1");
    assert_eq!(app.count("SELECT count(DISTINCT provider_id) FROM tool_calls"), 5);
    assert_eq!(folded(&frames), "All five.");
}

#[tokio::test]
async fn a_cancel_ends_a_wait_between_tries() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(503).header("retry-after", "50")]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    let run = stream.header("x-run-id");
    stream.read_until("step:retry").await;
    assert_eq!(app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.status, 202);
    let frames = stream.read_until("run:end").await;
    assert_eq!(frames.last().unwrap().data["status"], "cancelled");
    assert_eq!(app.upstream.requests().len(), 1);
}
