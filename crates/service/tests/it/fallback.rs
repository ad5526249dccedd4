//! When a model fails, the next one of the app answers; readers never see a mixture, and never nothing.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

const CHAIN: &str = "tools = [\"echo\"]\nfallbacks = [\"backup-model\"]";

fn unavailable() -> Reply {
    Reply::status(503).header("retry-after-ms", "1")
}

fn refused() -> Reply {
    Reply::status(401).error("invalid_api_key", None, "no")
}

fn of<'a>(frames: &'a [Frame], event: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

/// The answer, put together as a reader does.
fn folded(frames: &[Frame]) -> String {
    frames.iter().fold(String::new(), |mut text, frame| {
        match frame.event.as_str() {
            "text:delta" => text.push_str(frame.data["delta"].as_str().unwrap()),
            "step:reset" | "step:start" => text.clear(),
            _ => {}
        }
        text
    })
}

fn status(frames: &[Frame]) -> &Value {
    &frames.last().unwrap().data["status"]
}

#[tokio::test]
async fn a_model_that_refuses_is_followed_by_the_next() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([refused()]);
    app.backup.script([Reply::says("From the second.")]);
    let frames = app.say("Hi").await;
    assert_eq!((folded(&frames).as_str(), status(&frames)), ("From the second.", &json!("completed")));
    assert_eq!(of(&frames, "step:retry")[0]["model"], "backup-model");
    assert_eq!(of(&frames, "step:end")[0]["fallback"], "backup-model");
    assert_eq!(app.backup.requests()[0].body["model"], "backup-model");
}

#[tokio::test]
async fn a_model_that_is_down_is_tried_four_times_and_then_followed() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([unavailable(), unavailable(), unavailable(), unavailable()]);
    app.backup.script([Reply::says("Here.")]);
    let frames = app.say("Hi").await;
    assert_eq!(folded(&frames), "Here.");
    assert_eq!((app.upstream.requests().len(), app.backup.requests().len()), (4, 1));
}

#[tokio::test]
async fn in_mid_stream_what_was_said_is_reset_first() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([
        Reply::stream().text("One ").text("two").without_end(),
        Reply::stream().text("Again").without_end(),
        Reply::stream().text("And again").without_end(),
    ]);
    app.backup.script([Reply::says("Whole.")]);
    let frames = app.say("Hi").await;
    assert_eq!((folded(&frames).as_str(), status(&frames)), ("Whole.", &json!("completed")));
    let resets = of(&frames, "step:reset");
    assert_eq!(resets.len(), 3);
    assert_eq!(resets[2]["model"], "backup-model");
    assert_eq!((resets[0].get("model"), resets[0]["usage"]["estimated"].as_bool()), (None, Some(true)));
    let complete = of(&frames, "stream:complete")[0];
    assert_eq!(complete["text"], "Whole.");
    let output = complete["usage"]["outputTokens"].as_u64().unwrap();
    assert!(output > 5, "what was thrown away has cost tokens too: {output}");
}

#[tokio::test]
async fn a_long_wait_is_not_waited_for_when_another_can_answer() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([Reply::status(429).header("retry-after", "30")]);
    app.backup.script([Reply::says("At once.")]);
    assert_eq!(folded(&app.say("Hi").await), "At once.");
}

#[tokio::test]
async fn a_later_step_goes_back_to_the_first_model() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([refused(), Reply::says("Back.")]);
    app.backup.script([Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#))]);
    let frames = app.say("Hi").await;
    assert_eq!(folded(&frames), "Back.");
    let ends = of(&frames, "step:end");
    assert_eq!((ends[0]["fallback"].as_str(), ends[1].get("fallback")), (Some("backup-model"), None));
}

#[tokio::test]
async fn a_provider_that_keeps_failing_is_left_alone() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([refused(), refused(), refused()]);
    app.backup.program(|_| Reply::says("Fine."));
    for _ in 0..5 {
        assert_eq!(folded(&app.say("Hi").await), "Fine.");
    }
    assert_eq!(app.upstream.requests().len(), 3, "after three failures it is not asked for a while");
    let models = app.get("/v1/models").await.body;
    let of =
        |name: &str| models["data"].as_array().unwrap().iter().find(|model| model["id"] == name).cloned();
    assert_eq!(of("test-model").unwrap()["available"], false);
    assert_eq!(of("backup-model").unwrap()["available"], true);
}

#[tokio::test]
async fn the_only_model_is_asked_once_even_when_it_is_left_alone() {
    let app = TestApp::with(Setup::app("")).await;
    app.upstream.script([refused(), refused(), refused()]);
    for _ in 0..3 {
        assert_eq!(status(&app.say("Hi").await), "failed");
    }
    app.upstream.script([unavailable()]);
    assert_eq!(status(&app.say("Hi").await), "failed", "one try, without retries");
    app.upstream.script([Reply::says("Recovered.")]);
    assert_eq!(folded(&app.say("Hi").await), "Recovered.");
    app.upstream.script([unavailable(), Reply::says("As before.")]);
    assert_eq!(folded(&app.say("Hi").await), "As before.");
}

#[tokio::test]
async fn when_every_model_fails_the_app_has_a_reply() {
    let chain = format!("{CHAIN}\n[loop]\nfailure_reply = \"I am out of words; ask me again soon.\"");
    let app = TestApp::with(Setup::app(&chain)).await;
    app.upstream.script([refused()]);
    let broken = || Reply::stream().text("Half an ans").without_end();
    app.backup.script([broken(), broken(), broken()]);
    let frames = app.say("Hi").await;
    assert_eq!(status(&frames), "completed");
    let complete = of(&frames, "stream:complete")[0];
    assert_eq!(complete["text"], "I am out of words; ask me again soon.");
    assert_eq!(folded(&frames), complete["text"].as_str().unwrap(), "no reader keeps half of another answer");
    let end = of(&frames, "step:end")[0];
    assert_eq!(
        (end["text"].as_str(), end["error"]["code"].as_str()),
        (Some(""), Some("provider_stream_broken"))
    );
    let thread = frames[1].data["threadId"].as_str().unwrap();
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert_eq!(messages["data"][1]["text"], "I am out of words; ask me again soon.");
}

#[tokio::test]
async fn without_one_the_run_fails_with_the_last_cause() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([refused()]);
    app.backup.script([Reply::status(400).error("invalid_request_error", None, "no")]);
    let frames = app.say("Hi").await;
    assert_eq!(frames.last().unwrap().data["error"]["code"], "provider_rejected");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_no_reason_to_ask_another() {
    let app = TestApp::with(Setup::app(CHAIN)).await;
    app.upstream.script([Reply::says("I cannot help with that.").finish("content_filter")]);
    let frames = app.say("Hi").await;
    assert_eq!(
        (status(&frames), folded(&frames).as_str()),
        (&json!("completed"), "I cannot help with that.")
    );
    assert!(app.backup.requests().is_empty());
}
