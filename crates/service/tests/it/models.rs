//! Each model is used as it is: asked for what it can do, in its own words, within what may be spent.

use model::{AnthropicVersion, Capabilities, Price, ProviderKind, ProviderWire};
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Method, Setup, TestApp};

const ALL: &str = r#"{"temperature": 0.4, "maxTokens": 50, "topP": 0.9, "presencePenalty": 0.2,
    "repeatPenalty": 0.5, "reasoningEffort": "low"}"#;

fn settings() -> Value {
    serde_json::from_str(ALL).unwrap()
}

fn text(frames: &[Frame]) -> String {
    let deltas = frames.iter().filter(|frame| frame.event == "text:delta");
    deltas.map(|frame| frame.data["delta"].as_str().unwrap()).collect()
}

fn end(frames: &[Frame]) -> &Value {
    &frames.last().unwrap().data
}

/// Returns the request that is sent for a run with these settings.
async fn sent(setup: Setup, settings: &Value) -> Value {
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::says("ok")]);
    let body = json!({ "message": "Hi", "settings": settings });
    let frames = app.stream("/v1/apps/test/runs", &body).await.all().await;
    assert_eq!(text(&frames), "ok");
    app.upstream.requests()[0].body.clone()
}

#[tokio::test]
async fn settings_have_each_providers_names() {
    let on = |wire| Setup { wire, ..Setup::default() };
    let chat = sent(on(ProviderWire::Chat), &settings()).await;
    assert_eq!((&chat["frequency_penalty"], &chat["presence_penalty"]), (&json!(0.5), &json!(0.2)));
    assert_eq!((&chat["max_tokens"], &chat["reasoning_effort"]), (&json!(50), &json!("low")));
    let responses = sent(on(ProviderWire::Responses), &settings()).await;
    assert_eq!(
        (&responses["max_output_tokens"], &responses["reasoning"]["effort"]),
        (&json!(50), &json!("low"))
    );
    assert_eq!(responses.get("frequency_penalty"), None);
    let newer = sent(on(ProviderWire::Anthropic(AnthropicVersion::V2026)), &settings()).await;
    assert_eq!((newer.get("temperature"), newer.get("top_p")), (None, None));
    assert_eq!(newer["output_config"]["effort"], "low");
    let plain = json!({ "temperature": 1.5, "maxTokens": 50 });
    let older = sent(on(ProviderWire::Anthropic(AnthropicVersion::V2023)), &plain).await;
    assert_eq!((&older["temperature"], &older["max_tokens"]), (&json!(1.0), &json!(50)));
    let ollama = sent(on(ProviderWire::Ollama), &settings()).await;
    assert_eq!(
        (&ollama["options"]["repeat_penalty"], &ollama["options"]["num_predict"]),
        (&json!(0.5), &json!(50))
    );
    assert_eq!(ollama["think"], "low");
    assert_eq!(ollama["options"]["num_ctx"], 128_000, "or Ollama would cut the prompt by itself");
}

#[tokio::test]
async fn the_app_is_the_base_and_the_request_overrides() {
    let app = "[settings]\ntemperature = 0.7\nrepeat_penalty = 1.1\ntop_p = 0.5";
    let body = sent(Setup::app(app), &json!({ "temperature": 0.1 })).await;
    assert_eq!(
        (&body["temperature"], &body["top_p"], &body["frequency_penalty"]),
        (&json!(0.1), &json!(0.5), &json!(1.1))
    );
}

#[tokio::test]
async fn out_of_range_names_field_and_range_and_stores_nothing() {
    let ranges = "[ranges]\ntemperature = [0.1, 1.2]\nmax_tokens = [1, 4000]\ntop_p = [0, 1]\n\
        frequency_penalty = [0, 2]\npresence_penalty = [0, 2]\nrepeat_penalty = [0, 2]";
    let app = TestApp::with(Setup::app(ranges)).await;
    for (settings, field, range) in [
        (json!({ "temperature": 0.0 }), "settings.temperature", "from 0.1 to 1.2"),
        (json!({ "temperature": 1.3 }), "settings.temperature", "from 0.1 to 1.2"),
        (json!({ "maxTokens": 0 }), "settings.maxTokens", "from 1 to 4000"),
        (json!({ "maxTokens": 4001 }), "settings.maxTokens", "from 1 to 4000"),
        (json!({ "topP": 1.01 }), "settings.topP", "from 0 to 1"),
        (json!({ "frequencyPenalty": -0.1 }), "settings.frequencyPenalty", "from 0 to 2"),
        (json!({ "presencePenalty": 2.1 }), "settings.presencePenalty", "from 0 to 2"),
        (json!({ "repeatPenalty": 2.1 }), "settings.repeatPenalty", "from 0 to 2"),
    ] {
        let answer = app.post("/v1/apps/test/runs", &json!({ "message": "Hi", "settings": settings })).await;
        assert_eq!((answer.status, &answer.body["errors"][0]["field"]), (422, &json!(field)), "{answer:?}");
        assert!(answer.body["detail"].as_str().unwrap().contains(range), "{answer:?}");
    }
    for settings in
        [json!({ "reasoningEffort": "much" }), json!({ "outputFormat": "xml" }), json!({ "topK": 1 })]
    {
        let answer = app.post("/v1/apps/test/runs", &json!({ "message": "Hi", "settings": settings })).await;
        assert_eq!(answer.status, 422, "{answer:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0);
}

#[tokio::test]
async fn json_is_asked_for_where_the_request_wants_it() {
    let chat = sent(Setup::default(), &json!({ "outputFormat": "json" })).await;
    assert_eq!(chat["response_format"], json!({ "type": "json_object" }));
    let text = sent(Setup::default(), &json!({ "outputFormat": "text" })).await;
    assert_eq!(text.get("response_format"), None);
}

#[tokio::test]
async fn what_a_model_cannot_do_is_not_asked_of_it() {
    let plain = Capabilities {
        streaming: false,
        tools: false,
        sampling: false,
        max_output: Some(20),
        ..Capabilities::of_kind(ProviderKind::Cloud)
    };
    for wire in ProviderWire::ALL {
        let body = sent(Setup { wire, capabilities: plain.clone(), ..Setup::default() }, &settings()).await;
        assert_eq!(body.get("tools"), None, "{wire:?}");
        assert!(!body["stream"].as_bool().unwrap_or(false), "{wire:?}");
        assert!(!body.to_string().contains("temperature"), "{wire:?}: {body}");
        assert!(body.to_string().contains(":20"), "{wire:?}: at most what it can say: {body}");
    }
    assert!(
        !Capabilities::of_kind(ProviderKind::Local).tools,
        "a local model gets tools when its entry says so"
    );
}

#[tokio::test]
async fn every_wire_runs_tools_and_answers() {
    for wire in ProviderWire::ALL {
        let app = TestApp::with(Setup { wire, ..Setup::default() }).await;
        let think = Reply::stream().reasoning("Hm.").text("Let me see. ");
        let calls = think
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
            .call(ScriptedCall::new("echo", r#"{"text":"b"}"#));
        app.upstream.script([calls, Reply::says("Found both.").usage(30, 6)]);
        let frames = app.say("Look").await;
        assert_eq!(end(&frames)["status"], "completed", "{wire:?}: {frames:?}");
        let complete = &frames.iter().find(|frame| frame.event == "stream:complete").unwrap().data;
        assert_eq!(
            (complete["text"].as_str(), complete["usage"]["outputTokens"].as_u64()),
            (Some("Found both."), Some(11))
        );
        let done = frames.iter().filter(|frame| frame.event == "tool:complete").count();
        assert_eq!(done, 2, "{wire:?}");
        let thread = &frames[1].data["threadId"];
        app.upstream.script([Reply::says("Still here.")]);
        let again = json!({ "message": "And now?", "threadId": thread });
        assert!(text(&app.stream("/v1/apps/test/runs", &again).await.all().await).ends_with("Still here."));
    }
}

#[tokio::test]
async fn calls_in_text_are_found_where_the_entry_says_so() {
    let small = Capabilities { calls_in_text: true, ..Capabilities::of_kind(ProviderKind::Cloud) };
    let app = TestApp::with(Setup { capabilities: small, ..Setup::default() }).await;
    let fenced = "```json\n{\"name\": \"echo\", \"arguments\": {\"text\": \"hi\"}}\n```";
    app.upstream.script([Reply::says(fenced), Reply::says("It says hi.")]);
    let frames = app.say("Echo hi").await;
    assert_eq!(text(&frames), "It says hi.");
    let call = &frames.iter().find(|frame| frame.event == "tool:start").unwrap().data;
    assert_eq!((&call["name"], &call["input"]), (&json!("echo"), &json!({ "text": "hi" })));
    let app = TestApp::start().await;
    app.upstream.script([Reply::says(fenced)]);
    assert_eq!(text(&app.say("Echo hi").await), fenced, "off unless the entry turns it on");
}

#[tokio::test]
async fn an_unknown_model_is_passed_to_an_open_provider_only() {
    let app = TestApp::with(Setup::app("models = [\"*\"]")).await;
    app.upstream.script([Reply::says("ok"), Reply::says("ok")]);
    for (name, asked) in [("new-model", "new-model"), ("openai/other", "other")] {
        let body = json!({ "message": "Hi", "model": name });
        assert_eq!(text(&app.stream("/v1/apps/test/runs", &body).await.all().await), "ok");
        assert_eq!(app.upstream.requests().last().unwrap().body["model"], asked);
    }
    let answer = app.post("/v1/apps/test/runs", &json!({ "message": "Hi", "model": "backup/none" })).await;
    assert_eq!((answer.status, &answer.body["errors"][0]["field"]), (422, &json!("model")), "{answer:?}");
    assert!(answer.body["detail"].as_str().unwrap().contains("backup-model"), "{answer:?}");
}

#[tokio::test]
async fn usage_and_cost_are_summed_by_day_app_and_model() {
    let price = Some(Price::flat(2.0, 1.0, 10.0));
    let app = TestApp::with(Setup { price, ..Setup::app("fallbacks = [\"backup-model\"]") }).await;
    app.upstream.script([
        Reply::says("One").usage(1000, 100),
        Reply::status(401),
        Reply::says("Three").without_usage(),
    ]);
    app.backup.script([Reply::says("Two").usage(500, 50)]);
    let answer = app.post("/v1/apps/test/runs", &json!({ "message": "Hi", "stream": false })).await.body;
    assert_eq!((&answer["tokenUsage"], &answer["usage"]["costUsd"]), (&json!(1100), &json!(0.003)));
    app.say("Hi").await;
    app.say("Hi").await;
    let report = app.get("/v1/usage").await.body;
    let rows = report["data"].as_array().unwrap();
    let row = |model: &str| rows.iter().find(|row| row["model"] == model).unwrap();
    assert_eq!(
        (&row("backup-model")["inputTokens"], &row("backup-model")["costUsd"]),
        (&json!(500), &json!(0.0015))
    );
    assert_eq!((&row("test-model")["calls"], &row("test-model")["estimated"]), (&json!(2), &json!(true)));
    assert_eq!(row("test-model")["appId"], "test");
    let total = report["total"]["inputTokens"].as_u64().unwrap();
    assert_eq!(total, rows.iter().map(|row| row["inputTokens"].as_u64().unwrap()).sum::<u64>());
}

#[tokio::test]
async fn naming_a_thread_is_counted_too() {
    let app = TestApp::with(Setup { title: Some("Name it.".into()), ..Setup::app("") }).await;
    app.upstream.script([Reply::says("Hello").usage(100, 10), Reply::says("A title").usage(40, 4)]);
    app.say("Hi").await;
    app.service.idle().await;
    let report = app.get("/v1/usage").await.body;
    assert_eq!((&report["total"]["inputTokens"], &report["data"][0]["calls"]), (&json!(140), &json!(2)));
}

#[tokio::test]
async fn a_run_stops_before_a_step_that_could_go_beyond_its_budget() {
    let app = TestApp::with(Setup::app("tools = [\"echo\"]\n[budget]\nrun_tokens = 400")).await;
    app.upstream.program(|body| {
        let turn = body["messages"].as_array().map_or(0, Vec::len);
        Reply::stream().call(ScriptedCall::new("echo", &format!("{{\"text\":\"{turn}\"}}"))).usage(90, 10)
    });
    let frames = app.say("Go on for ever").await;
    assert_eq!(
        (end(&frames)["status"].as_str(), end(&frames)["error"]["code"].as_str()),
        (Some("failed"), Some("budget_exceeded"))
    );
    let asked = app.upstream.requests().len();
    assert!((2..4).contains(&asked), "100 tokens each, and a fourth would need more than 100: {asked}");
}

#[tokio::test]
async fn a_days_budget_is_refused_at_the_door() {
    let app = TestApp::with(Setup::app("[budget]\nday_tokens = 100")).await;
    app.upstream.script([Reply::says("Hello").usage(90, 20)]);
    assert_eq!(
        end(&app.say("Hi").await)["status"],
        "completed",
        "the provider counts more than it was allowed"
    );
    let refused = app.post("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("budget_exceeded")), "{refused:?}");
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_repeated_request_finds_its_run_though_the_budget_is_used_up() {
    let app = TestApp::with(Setup::app("[budget]\nday_tokens = 100")).await;
    app.upstream.script([Reply::says("Hello").usage(90, 20)]);
    let ask = |key: &str| {
        let body = json!({ "message": "Hi", "stream": false });
        app.request(Method::POST, "/v1/apps/test/runs").header("idempotency-key", key).json(&body)
    };
    let first = app.send(ask("one")).await;
    assert_eq!((first.status, &first.body["reply"]), (200, &json!("Hello")));
    assert_eq!(app.send(ask("one")).await.body["runId"], first.body["runId"]);
    assert_eq!(app.send(ask("two")).await.status, 429);
    assert_eq!((app.upstream.requests().len(), app.count("SELECT count(*) FROM runs")), (1, 1));
}

#[tokio::test]
async fn a_days_budget_stops_a_run_that_is_under_way() {
    let price = Some(Price::flat(1.0, 1.0, 1.0));
    let setup = Setup { price, ..Setup::app("tools = [\"echo\"]\n[budget]\nday_usd = 0.0002") };
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#)).usage(150, 30)]);
    let frames = app.say("Hi").await;
    assert_eq!(end(&frames)["error"]["code"], "budget_exceeded");
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn models_are_listed_with_what_they_can_do() {
    let app = TestApp::start().await;
    let models = app.get("/v1/models").await.body;
    let names: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(names, ["backup-model", "test-model"]);
    let test = &models["data"][1];
    assert_eq!(
        (&test["default"], &test["kind"], &test["structured"]),
        (&json!(true), &json!("cloud"), &json!("with_tools"))
    );
    assert_eq!((&test["provider"], &test["contextWindow"]), (&json!("openai"), &json!(128_000)));
}

#[tokio::test]
async fn a_run_goes_on_without_a_setting_that_the_provider_refuses_and_the_next_never_sends_it() {
    let app = TestApp::start().await;
    app.upstream.program(|body| {
        if body.get("temperature").is_none() {
            return Reply::says("ok");
        }
        let said = "Unsupported parameter: 'temperature' is not supported with this model.";
        Reply::status(400).error("invalid_request_error", Some("unsupported_parameter"), said)
    });
    for _ in 0..2 {
        let body = json!({ "message": "Hi", "settings": { "temperature": 0.4, "topP": 0.5 } });
        let frames = app.stream("/v1/apps/test/runs", &body).await.all().await;
        assert_eq!((text(&frames).as_str(), &end(&frames)["status"]), ("ok", &json!("completed")));
        assert!(frames.iter().all(|frame| frame.event != "step:retry"), "it is no failure: {frames:?}");
    }
    let requests = app.upstream.requests();
    let of_runs = requests.iter().filter(|sent| sent.body.get("top_p").is_some());
    let sent: Vec<_> = of_runs.map(|sent| sent.body.get("temperature").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}
