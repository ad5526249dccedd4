//! A run always ends, and always in an answer.

use model::Capabilities;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

fn answer(frames: &[Frame]) -> &Value {
    &frames.iter().find(|frame| frame.event == "stream:complete").expect("an answer").data["text"]
}

fn events<'a>(frames: &'a [Frame], event: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

/// Calls `echo` with another text each time.
fn another_echo(request: &Value) -> Reply {
    let turns = request["messages"].as_array().unwrap().len();
    Reply::stream().call(ScriptedCall::new("echo", &json!({ "text": format!("t{turns}") }).to_string()))
}

#[tokio::test]
async fn at_the_limit_the_model_is_asked_for_words() {
    let app = TestApp::with(Setup::app("tools = [\"echo\"]\n[loop]\nmax_steps = 2")).await;
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"one"}"#)),
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"two"}"#)),
        Reply::stream().text("One and two.").call(ScriptedCall::new("echo", r#"{"text":"three"}"#)),
    ]);
    let frames = app.say("Go on").await;
    assert_eq!(answer(&frames), "One and two.", "a call made although none was offered is dropped");
    assert_eq!(events(&frames, "tool:complete").len(), 2);
    insta::assert_json_snapshot!("what_the_model_sees_at_the_limit", app.upstream.requests()[2].body);
}

#[tokio::test]
async fn ten_steps_is_the_default_limit() {
    let app = TestApp::start().await;
    app.upstream.program(|request| {
        if request.get("tools").is_some() { another_echo(request) } else { Reply::says("Enough.") }
    });
    let frames = app.say("Go on").await;
    assert_eq!(events(&frames, "step:end").len(), 11, "ten with tools, one for words");
    assert_eq!(answer(&frames), "Enough.");
}

#[tokio::test]
async fn an_app_may_say_a_fixed_sentence_at_the_limit() {
    let toml =
        "tools = [\"echo\"]\n[loop]\nmax_steps = 1\nat_limit = \"reply\"\nlimit_reply = \"That is all.\"";
    let app = TestApp::with(Setup::app(toml)).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"one"}"#))]);
    let frames = app.say("Go on").await;
    assert_eq!(answer(&frames), "That is all.");
    assert_eq!(frames.last().unwrap().data["status"], "completed");
}

#[tokio::test]
async fn the_same_call_again_and_again_is_noticed_and_stopped() {
    let app = TestApp::start().await;
    app.upstream.program(|request| {
        if request.get("tools").is_some() {
            // The order of the keys does not hide that it is the same call.
            let turns = request["messages"].as_array().unwrap().len();
            let arguments = if turns % 4 == 0 { r#"{"text":"x","n":1}"# } else { r#"{"n":1,"text":"x"}"# };
            Reply::stream().call(ScriptedCall::new("echo", arguments))
        } else {
            Reply::says("I was going in circles.")
        }
    });
    let frames = app.say("Go on").await;
    let results = events(&frames, "tool:complete");
    let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["complete", "complete", "complete", "complete", "denied"]);
    assert_eq!(results[4]["output"]["error"], "loop_detected");
    assert_eq!(answer(&frames), "I was going in circles.");
    let requests = app.upstream.requests();
    assert_eq!(requests.len(), 6);
    assert!(!requests[2].body.to_string().contains("same arguments"));
    assert!(requests[3].body.to_string().contains("this call was made 3 times with the same arguments"));
}

#[tokio::test]
async fn arguments_that_are_never_usable_end_in_words() {
    let app = TestApp::start().await;
    app.upstream.program(|request| {
        let turns = request["messages"].as_array().unwrap().len();
        match request.get("tools") {
            Some(_) => Reply::stream().call(ScriptedCall::new("echo", &format!(r#"{{"text":"{turns}"#))),
            None => Reply::says("I cannot write JSON."),
        }
    });
    let frames = app.say("Go on").await;
    assert_eq!(events(&frames, "tool:complete").len(), 3, "three in a row, then no more");
    assert_eq!(events(&frames, "tool:start").len(), 0);
    assert_eq!(answer(&frames), "I cannot write JSON.");
}

#[tokio::test]
async fn a_step_keeps_thirty_two_calls_and_names_the_rest() {
    let app = TestApp::start().await;
    let mut reply = Reply::stream();
    for n in 0..40 {
        reply = reply.call(ScriptedCall::new("echo", &json!({ "text": n.to_string() }).to_string()));
    }
    app.upstream.script([reply, Reply::says("Many.")]);
    let frames = app.say("Go on").await;
    assert_eq!(events(&frames, "tool:complete").len(), 32, "T4");
    assert_eq!(app.count("SELECT count(*) FROM tool_calls"), 32);
    let last = app.upstream.requests()[1].body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["role"], "tool");
    assert!(
        last["content"].as_str().unwrap().contains("[not run, too many calls in one step: echo, "),
        "{last}"
    );
}

#[tokio::test]
async fn silence_is_asked_about_once_and_then_answered_by_the_app() {
    let toml = "tools = [\"echo\"]\n[loop]\nlimit_reply = \"I have no words.\"";
    let app = TestApp::with(Setup::app(toml)).await;
    app.upstream.script([
        Reply::stream(),
        Reply::says("Sorry, here I am."),
        Reply::stream(),
        Reply::stream(),
    ]);
    assert_eq!(answer(&app.say("Hello?").await), "Sorry, here I am.");
    assert_eq!(answer(&app.say("Hello?").await), "I have no words.");
}

#[tokio::test]
async fn a_run_ends_when_its_time_is_up() {
    let app = TestApp::with(Setup::app("[loop]\nrun_timeout_seconds = 1")).await;
    app.upstream.script([Reply::stream().text("I will be").stall()]);
    let frames = app.say("Hello?").await;
    let end = &frames.last().unwrap().data;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("run_timeout")));
    app.upstream.closed(0).await;
}

#[tokio::test]
async fn a_message_too_long_for_the_model_is_shown_in_part_with_a_handle_to_the_rest() {
    let app = TestApp::with(Setup {
        capabilities: Capabilities { context_window: 1000, ..Setup::default().capabilities },
        ..Setup::default()
    })
    .await;
    app.upstream.script([Reply::says("A lot."), Reply::says("Better.")]);
    let frames = app.say(&"word ".repeat(1000)).await;
    assert_eq!(answer(&frames), "A lot.");
    let start = &events(&frames, "run:start")[0];
    let sent = app.upstream.requests()[0].body["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(sent.len() < 3_500, "{}", sent.len());
    let handle = format!("of {}]", start["messageId"].as_str().unwrap());
    assert!(sent.contains("[cut: ") && sent.ends_with(&handle), "{sent}");
    let body = json!({ "message": "Short", "threadId": start["threadId"] });
    let frames = app.stream("/v1/apps/test/runs", &body).await.all().await;
    assert_eq!(answer(&frames), "Better.");
    let sent = app.upstream.requests()[1].body["messages"].to_string();
    assert!(sent.contains("word word") && sent.contains(&handle) && sent.contains("A lot."), "{sent}");
    assert!(sent.len() < 3_500, "{}", sent.len());
}
