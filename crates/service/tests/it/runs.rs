//! Run scripts: what the model says, and the log that comes of it.

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp, script};

#[tokio::test]
async fn a_plain_answer() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").text("lo.").usage(12, 3)]);
    let frames = app.say("Hi").await;
    insta::assert_snapshot!(script(&frames));
    let ids: Vec<u64> = frames.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "S1: a gapless sequence from 1");
}

#[tokio::test]
async fn an_answer_with_reasoning_and_a_tool() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream()
            .reasoning("They want ")
            .reasoning("an echo.")
            .text("Let me see.")
            .call(ScriptedCall::new("echo", r#"{"text":"hello","n":1}"#).fragments(5)),
        Reply::says("It says hello."),
    ]);
    insta::assert_snapshot!(script(&app.say("Echo hello").await));
    let requests = app.upstream.requests();
    insta::assert_json_snapshot!("what_the_model_sees_after_a_tool", requests[1].body);
}

#[tokio::test]
async fn calls_of_a_step_run_side_by_side() {
    let app = TestApp::with(Setup { meet: 3, ..Setup::app("tools = [\"meet\"]") }).await;
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("meet", "{}"))
            .call(ScriptedCall::new("meet", "{}"))
            .call(ScriptedCall::new("meet", "{}")),
        Reply::says("All met."),
    ]);
    let frames = app.say("Meet").await;
    let results: Vec<&Value> =
        frames.iter().filter(|f| f.event == "tool:complete").map(|f| &f.data["output"]).collect();
    assert_eq!(results, [&json!("met"), &json!("met"), &json!("met")], "each waits for the other two");
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_the_app_allows() {
    let setup = Setup {
        meet: 2,
        ..Setup::app("tools = [\"meet\"]\n[loop]\nmax_parallel_tools = 1\ntool_timeout_seconds = 1")
    };
    let app = TestApp::with(setup).await;
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("meet", "{}")).call(ScriptedCall::new("meet", "{}")),
        Reply::says("Nobody came."),
    ]);
    let frames = app.say("Meet").await;
    let errors: Vec<&Value> =
        frames.iter().filter(|f| f.event == "tool:complete").map(|f| &f.data["output"]["error"]).collect();
    assert_eq!(errors, [&json!("timeout"), &json!("timeout")], "one at a time, neither ever meets the other");
}

#[tokio::test]
async fn results_go_back_in_call_order_whatever_order_they_come_in() {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"gated\"]")).await;
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("gated", "{}"))
            .call(ScriptedCall::new("echo", r#"{"text":"quick"}"#)),
        Reply::says("Done."),
    ]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let first = stream.read_until("tool:complete").await;
    assert_eq!(first.last().unwrap().data["name"], "echo", "the quick one is done while the other waits");
    app.gate.open();
    stream.read_until("run:end").await;
    let request = &app.upstream.requests()[1].body;
    let contents: Vec<&Value> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["content"])
        .collect();
    assert_eq!(contents, [&json!("passed"), &json!(r#"{"text":"quick"}"#)]);
}

#[tokio::test]
async fn what_goes_wrong_in_a_tool_is_an_answer_to_the_model() {
    let setup = Setup::app(
        "tools = [\"echo\", \"panic\", \"refuse\", \"hang\", \"huge\"]\n[loop]\ntool_timeout_seconds = 1",
    );
    let app = TestApp::with(setup).await;
    app.upstream.script([
        Reply::stream()
            .call(ScriptedCall::new("panic", "{}"))
            .call(ScriptedCall::new("refuse", "{}"))
            .call(ScriptedCall::new("hang", "{}"))
            .call(ScriptedCall::new("nothing_of_the_kind", "{}"))
            .call(ScriptedCall::new("echo", r#"{"text":7,"more":true}"#))
            .call(ScriptedCall::new("echo", r#"{"text":"#))
            .call(ScriptedCall::new("echo", r#"["text"]"#))
            .call(ScriptedCall::new("huge", "{}")),
        Reply::says("What a day."),
    ]);
    let frames = app.say("Try").await;
    let mut outcomes: Vec<String> = frames
        .iter()
        .filter(|frame| frame.event == "tool:complete")
        .map(|frame| {
            let output = frame.data["output"].to_string();
            let shown: String = output.chars().take(150).collect();
            format!("{} {} {}: {shown}", frame.data["callId"], frame.data["name"], frame.data["status"])
        })
        .collect();
    outcomes.sort();
    insta::assert_snapshot!(outcomes.join("\n"));
    let started: Vec<&Value> =
        frames.iter().filter(|f| f.event == "tool:start").map(|f| &f.data["input"]).collect();
    assert_eq!(started.len(), 4, "T5: calls that cannot be made as they are never start");
    let result = app.upstream.requests()[1].body["messages"].to_string();
    assert!(result.contains("[cut: 65536 of 1048576 bytes kept]"), "a huge output is cut");
    assert_eq!(frames.last().unwrap().data["status"], "completed");
}

#[tokio::test]
async fn a_thread_goes_on_with_its_history() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream().text("One moment. ").call(ScriptedCall::new("echo", r#"{"text":"a"}"#).id("same")),
        Reply::says("It is a."),
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"b"}"#).id("same")),
        Reply::says("It is b."),
    ]);
    let first = app.say("What is a?").await;
    let thread = &first.iter().find(|frame| frame.event == "run:start").unwrap().data["threadId"];
    let body = json!({ "message": "And b?", "threadId": thread, "settings": { "temperature": 0.25 } });
    app.stream("/v1/apps/test/runs", &body).await.all().await;
    insta::assert_json_snapshot!("what_the_model_sees_of_an_earlier_turn", app.upstream.requests()[3].body);
    assert_eq!(
        app.count("SELECT count(*) FROM tool_calls"),
        2,
        "T1: a provider's id may come again in another step"
    );
}
