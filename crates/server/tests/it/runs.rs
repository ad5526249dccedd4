//! Starting runs and reading them: both forms of the request, both forms of the answer.

use serde_json::json;
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Setup, TestApp, script};

use crate::support::{Names, RUNS, blocks, good, prompt, rows, say, status_of, timeless};

fn a_tool_then_words() -> [Reply; 2] {
    [
        Reply::stream()
            .reasoning("They want an echo.")
            .text("Let me see. ")
            .call(ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#).fragments(5)),
        Reply::says("It says hi.").usage(20, 7),
    ]
}

#[tokio::test]
async fn a_run_streams_its_log() {
    let app = TestApp::start().await;
    app.upstream.script(a_tool_then_words());
    let stream = app.stream(RUNS, &json!({ "message": "Say hi" })).await;
    assert_eq!(stream.header("content-type"), "text/event-stream");
    assert_eq!(stream.header("cache-control"), "no-cache");
    assert_eq!(stream.header("x-accel-buffering"), "no");
    assert_eq!(stream.header("x-request-id").len(), 32);
    let names = Names::of(&stream);
    let frames = stream.all().await;
    let start = frames.iter().find(|frame| frame.event == "run:start").unwrap();
    assert_eq!(start.data["runId"], names.run.as_str());
    assert_eq!(start.data["threadId"], names.thread.as_str());
    insta::assert_snapshot!(script(&frames));
}

#[tokio::test]
async fn an_event_on_the_wire_is_its_name_its_number_and_its_json() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Grüße:\r\n\u{2028}data: {}\n\n")]);
    let request = app.request(axum::http::Method::POST, RUNS).json(&json!({ "message": "A\nB" }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let events: String = blocks(&text).into_iter().map(|block| block.text).collect();
    insta::assert_snapshot!(events);
}

#[tokio::test]
async fn a_run_that_is_not_streamed_is_one_answer() {
    let app = TestApp::start().await;
    app.upstream.script(a_tool_then_words());
    let answer = app.post(RUNS, &json!({ "message": "Say hi", "stream": false })).await;
    insta::assert_json_snapshot!(timeless(good(answer)));
}

/// A run that was accepted and failed is a 200; the provider's own words stay inside (X1).
#[tokio::test]
async fn a_run_that_failed_says_why_without_the_provider_s_words() {
    let app = TestApp::start().await;
    let words = "Incorrect API key provided: sk-canary-1234";
    app.upstream.script([Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), words)]);
    let result = good(app.post(RUNS, &json!({ "message": "Hi", "stream": false })).await);
    insta::assert_json_snapshot!(result);
    let path = format!("/v1/runs/{}/events", result["runId"].as_str().unwrap());
    let frames = app.follow(&path, None).await.all().await;
    assert_eq!(status_of(&frames), "failed");
    assert!(!format!("{result} {frames:?}").contains("canary"), "{frames:?}");
}

/// The usual app, where a request may choose any model.
fn choosing_any() -> Setup {
    Setup::app("tools = [\"echo\"]\nmodels = [\"*\"]")
}

#[tokio::test]
async fn everything_asked_for_reaches_the_model() {
    let app = TestApp::with(choosing_any()).await;
    app.upstream.script([Reply::says("Oui.")]);
    let body = json!({
        "message": "Do you speak French?",
        "model": "other-model",
        "systemPrompt": "Answer in French.",
        "settings": { "temperature": 0.25, "maxTokens": 400, "topP": 0.9 },
        "stream": true,
    });
    let frames = app.stream(RUNS, &body).await.all().await;
    insta::assert_snapshot!("the_log_of_a_request_with_everything", script(&frames));
    insta::assert_json_snapshot!("the_prompt_of_a_request_with_everything", app.upstream.requests()[0].body);
}

#[tokio::test]
async fn a_request_s_settings_go_before_the_app_s() {
    let setup = Setup::app(
        "model = \"app-model\"\nmodels = [\"mine\"]\n[settings]\ntemperature = 0.7\nmax_tokens = 50",
    );
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    app.say("Hi").await;
    let body = json!({ "message": "Hi", "model": "mine", "settings": { "temperature": 0 } });
    app.stream(RUNS, &body).await.all().await;
    let sent = |index: usize| {
        let body = &app.upstream.requests()[index].body;
        [body["model"].clone(), body["temperature"].clone(), body["max_tokens"].clone()]
    };
    assert_eq!(sent(0), [json!("app-model"), json!(0.7), json!(50)]);
    assert_eq!(sent(1), [json!("mine"), json!(0.0), json!(50)]);
}

/// Seed 004: `POST /:appId/stream {message, sessionId?, model?, temperature?}`.
#[tokio::test]
async fn the_chat_contract_streams_the_same_events() {
    let app = TestApp::start().await;
    app.upstream.script(a_tool_then_words());
    let stream = app.stream("/test/stream", &json!({ "message": "Say hi" })).await;
    assert_eq!(stream.header("content-type"), "text/event-stream");
    insta::assert_snapshot!(script(&stream.all().await));
}

/// Seed 004: the session is the thread, and its history is what the model is told.
#[tokio::test]
async fn a_session_is_a_thread() {
    let app = TestApp::with(choosing_any()).await;
    let [tool, words] = a_tool_then_words();
    app.upstream.script([tool, words, Reply::says("Again.")]);
    let first = app.stream("/test/stream", &json!({ "message": "Say hi" })).await;
    let names = Names::of(&first);
    first.all().await;
    app.service.idle().await;
    let body = json!({
        "message": "Once more",
        "sessionId": names.thread,
        "model": "other-model",
        "temperature": 1.5,
    });
    let second = app.stream("/test/stream", &body).await;
    assert_eq!(second.header("x-thread-id"), names.thread);
    assert_eq!(status_of(&second.all().await), "completed");
    let request = &app.upstream.requests()[2].body;
    assert_eq!((&request["model"], &request["temperature"]), (&json!("other-model"), &json!(1.5)));
    insta::assert_json_snapshot!("the_prompt_of_a_session", request["messages"]);
    let mut thread = good(app.get(&names.thread_path()).await);
    thread["lastSeq"] = json!("…"); // how many deltas there are depends on the load
    insta::assert_json_snapshot!("the_thread_of_a_session", thread);
    let messages = timeless(good(app.get(&names.messages_path()).await));
    insta::assert_json_snapshot!("the_messages_of_a_session", messages);
}

#[tokio::test]
async fn a_run_can_be_read_while_it_runs_and_after() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.").usage(11, 3)]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("text:delta").await;
    insta::assert_json_snapshot!("a_run_under_way", good(app.get(&names.run_path()).await));
    insta::assert_json_snapshot!("a_thread_with_a_run_under_way", good(app.get(&names.thread_path()).await));
    gate.open();
    stream.read_until("run:end").await;
    assert_eq!(stream.next().await, None);
    app.service.idle().await;
    insta::assert_json_snapshot!("a_run_that_has_ended", good(app.get(&names.run_path()).await));
    insta::assert_json_snapshot!("a_thread_whose_run_has_ended", good(app.get(&names.thread_path()).await));
}

#[tokio::test]
async fn the_apps_are_listed() {
    let setup = Setup::app("description = \"For tests.\"\ntools = [\"echo\", \"hang\"]\nmodel = \"its-own\"");
    let app = TestApp::with(setup).await;
    insta::assert_json_snapshot!(good(app.get("/v1/apps").await));
}

#[tokio::test]
async fn the_api_is_described() {
    let app = TestApp::start().await;
    let description = good(app.get("/openapi.json").await);
    assert_eq!(description["openapi"].as_str().map(|version| &version[..2]), Some("3."));
    assert_eq!(description["paths"].as_object().map(serde_json::Map::len), Some(101));
}

/// Q1: one run at a time in a thread; a message refused because of it leaves no trace.
#[tokio::test]
async fn a_second_message_in_a_busy_thread_is_refused_if_it_says_so() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo."), Reply::says("Now.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("text:delta").await;
    let before = rows(&app);
    for body in [
        json!({ "message": "And?", "threadId": names.thread, "onBusy": "reject" }),
        json!({ "message": "And?", "threadId": names.thread, "onBusy": "reject", "stream": false }),
        json!({ "regenerate": true, "threadId": names.thread, "onBusy": "reject" }),
    ] {
        let problem = crate::support::problem(app.post(RUNS, &body).await);
        assert_eq!(problem["code"], "thread_busy", "{body}");
        assert_eq!(problem["status"], 409, "{body}");
    }
    assert_eq!(rows(&app), before);

    gate.open();
    stream.all().await;
    crate::support::say_in(&app, &names.thread, "And now?").await;
    assert_eq!(prompt(&app, 1), ["user: Hi", "assistant: Hello.", "user: And now?"]);
}

/// Nothing in a message can break out of where it is put, or gets lost on the way.
#[tokio::test]
async fn odd_but_legal_text_comes_back_unchanged() {
    let app = TestApp::start().await;
    app.upstream.program(|request| {
        let last = request["messages"].as_array().and_then(|messages| messages.last());
        Reply::says(last.and_then(|message| message["content"].as_str()).unwrap_or_default())
    });
    for text in [
        "a\u{0}b",
        "\u{1f600}\u{200d}\u{1f525}",
        "\r\n\r\ndata: x\r\n",
        "\u{feff}bom",
        "'; DROP TABLE runs; --",
    ] {
        let names = say(&app, text).await;
        let messages = good(app.get(&names.messages_path()).await);
        let seen = text.trim();
        assert_eq!([&messages["data"][0]["text"], &messages["data"][1]["text"]], [seen, seen]);
    }
}
