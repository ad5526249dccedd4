//! Refusals that name a setting: the request goes again without it, and later ones never have it.

use std::sync::Arc;

use model::{
    AnthropicVersion, Capabilities, Error, Listing, Model, ModelProvider, ModelRegistry, ModelRequest,
    PromptMessage, ProviderKind, ProviderWire, ToolSpec,
};
use protocol::{Effort, Settings};
use serde_json::{Map, Value, json};
use testkit::upstream::{Reply, Upstream};

use crate::support::{PATIENT, ask_for, client};

/// A model of the registry, as callers have it.
fn model(wire: ProviderWire, upstream: &Upstream, extra: &Value) -> Arc<Model> {
    let capabilities = Capabilities::of_kind(ProviderKind::Cloud);
    let provider = ModelProvider {
        name: "scripted".into(),
        wire: Some(wire),
        kind: ProviderKind::Cloud,
        chat: client(wire, upstream, PATIENT),
        open: true,
        known: false,
        capabilities: capabilities.clone(),
        prices: model::Prices::Unknown,
    };
    let listing = Listing {
        name: "m".into(),
        provider: "scripted".into(),
        id: "m".into(),
        kind: ProviderKind::Cloud,
        capabilities,
        price: None,
        extra: extra.as_object().cloned().unwrap_or_default(),
    };
    ModelRegistry::new(vec![provider], vec![listing], None).find("m").unwrap()
}

fn settings() -> Settings {
    Settings {
        temperature: Some(0.4),
        top_p: Some(0.9),
        max_tokens: Some(100),
        presence_penalty: Some(0.1),
        ..Settings::default()
    }
}

fn request(model: &Model, settings: &Settings) -> ModelRequest {
    model.request(String::new(), vec![PromptMessage::User("hello".into())], settings)
}

fn refusal(body: &Value) -> Reply {
    Reply::status(400).header("content-type", "application/json").body(body.to_string())
}

/// As OpenAI writes it.
fn openai(param: &str, code: Option<&str>, message: &str) -> Reply {
    refusal(
        &json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}),
    )
}

/// Whether a body has a field, at the top or among Ollama's options.
fn has(body: &Value, name: &str) -> bool {
    body.get(name).is_some() || body["options"].get(name).is_some()
}

/// A provider that refuses every request with this field, and what it says then.
fn refuses(upstream: &Upstream, name: &'static str, reply: Reply) {
    upstream.program(move |body| if has(body, name) { reply.clone() } else { Reply::says("ok") });
}

#[tokio::test]
async fn a_setting_that_the_provider_names_is_left_out_and_never_sent_again() {
    let said = "Unsupported parameter: 'temperature' is not supported with this model.";
    let only = "Unsupported value: 'temperature' does not support 0.4 with this model. Only the default (1) value is \
                supported.";
    let (not_supported, deprecated) =
        ("'top_p' is not supported", "`temperature` is deprecated for this model.");
    let older = ProviderWire::Anthropic(AnthropicVersion::V2023);
    for (wire, name, reply) in [
        (ProviderWire::Chat, "temperature", openai("temperature", Some("unsupported_parameter"), said)),
        (ProviderWire::Chat, "temperature", openai("temperature", Some("unsupported_value"), only)),
        (ProviderWire::Responses, "temperature", openai("temperature", None, said)),
        (ProviderWire::Responses, "top_p", openai("top_p", Some("unsupported_parameter"), not_supported)),
        (older, "temperature", Reply::status(400).error("invalid_request_error", None, deprecated)),
        (
            ProviderWire::Chat, // Gemini, in its copy of this protocol
            "presence_penalty",
            refusal(&json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT",
                "message": "Invalid JSON payload received. Unknown name \"presence_penalty\": Cannot find field."}}])),
        ),
        (
            ProviderWire::Chat, // Mistral
            "presence_penalty",
            Reply::status(422).header("content-type", "application/json").body(
                json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "presence_penalty"],
                    "msg": "Extra inputs are not permitted", "input": 0.1}]})
                .to_string(),
            ),
        ),
        (
            ProviderWire::Chat,
            "stream_options",
            openai("stream_options", None, "Unrecognized request argument: stream_options"),
        ),
        (
            ProviderWire::Ollama,
            "temperature",
            refusal(&json!({"error": "option temperature is not supported"})),
        ),
    ] {
        let upstream = Upstream::start().await;
        refuses(&upstream, name, reply);
        let model = model(wire, &upstream, &Value::Null);
        for _ in 0..2 {
            let (pieces, error) = ask_for(&*model.chat, &request(&model, &settings())).await;
            assert_eq!(error, None, "{wire:?} {name}");
            assert!(!pieces.is_empty());
        }
        let requests: Vec<_> = upstream.requests().into_iter().map(|request| request.body).collect();
        let sent: Vec<bool> = requests.iter().map(|body| has(body, name)).collect();
        assert_eq!(sent, [true, false, false], "{wire:?} {name}: once, and then never again");
        let other = if name == "top_p" { "temperature" } else { "top_p" };
        if wire != older {
            assert!(requests.iter().all(|body| has(body, other)), "the others stay: {requests:?}");
        }
    }
}

#[tokio::test]
async fn the_longest_answer_goes_by_its_other_name() {
    let upstream = Upstream::start().await;
    let said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    refuses(&upstream, "max_tokens", openai("max_tokens", Some("unsupported_parameter"), said));
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    assert_eq!(ask_for(&*model.chat, &request(&model, &settings())).await.1, None);
    let requests = upstream.requests();
    assert_eq!(requests[1].body["max_completion_tokens"], 100);
    assert_eq!(requests[1].body.get("max_tokens"), None);
}

#[tokio::test]
async fn a_limit_that_somebody_pays_by_is_rather_refused_than_left_out() {
    let upstream = Upstream::start().await;
    upstream.program(|body| {
        match ["max_tokens", "max_completion_tokens"].into_iter().find(|name| has(body, name)) {
            Some(name) => openai(name, Some("unsupported_parameter"), "not supported"),
            None => Reply::says("ok"),
        }
    });
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    let free = request(&model, &settings());
    let paid = ModelRequest { must_bound: true, ..free.clone() };
    for (request, expected) in [(&paid, false), (&free, true), (&paid, false)] {
        let error = ask_for(&*model.chat, request).await.1;
        assert_eq!(error.is_none(), expected, "{error:?}");
    }
    let unbounded = |body: &Value| !has(body, "max_tokens") && !has(body, "max_completion_tokens");
    let sent: Vec<_> = upstream.requests().iter().map(|request| unbounded(&request.body)).collect();
    assert_eq!(sent.iter().filter(|unbounded| **unbounded).count(), 1, "{sent:?}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_to_ask_for_changes_nothing_for_others() {
    let upstream = Upstream::start().await;
    let said = "Unsupported value: 'max_tokens' does not support 100 with this model.";
    refuses(&upstream, "max_tokens", openai("max_tokens", Some("unsupported_value"), said));
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    for _ in 0..2 {
        assert!(ask_for(&*model.chat, &request(&model, &settings())).await.1.is_some());
    }
    assert!(upstream.requests().iter().all(|request| request.body["max_tokens"] == 100));
}

#[tokio::test]
async fn a_model_that_takes_tools_only_without_thinking_is_told_not_to_think() {
    let upstream = Upstream::start().await;
    let said = "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function \
                tools, use /v1/responses or set reasoning_effort to 'none'.";
    upstream.program(move |body| {
        let refused = body.get("tools").is_some() && body["reasoning_effort"] != "none";
        if refused { openai("reasoning_effort", None, said) } else { Reply::says("ok") }
    });
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    let tool =
        ToolSpec { name: "look".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let plain = request(&model, &Settings::default());
    let tools = ModelRequest { tools: Arc::new([tool]), ..plain.clone() };
    for request in [&tools, &tools, &plain] {
        assert_eq!(ask_for(&*model.chat, request).await.1, None);
    }
    let efforts: Vec<_> =
        upstream.requests().iter().map(|request| request.body.get("reasoning_effort").cloned()).collect();
    assert_eq!(efforts, [None, Some(json!("none")), Some(json!("none")), None], "it thinks where it may");
}

#[tokio::test]
async fn a_level_of_effort_that_a_model_does_not_know_is_not_asked_for_and_others_are() {
    let upstream = Upstream::start().await;
    let said = "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: \
                'none', 'low', 'medium', 'high'.";
    upstream.program(move |body| {
        let refused = body["reasoning_effort"] == "minimal";
        if refused { openai("reasoning_effort", Some("unsupported_value"), said) } else { Reply::says("ok") }
    });
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    for effort in [Effort::Minimal, Effort::High, Effort::Minimal] {
        let settings = Settings { reasoning_effort: Some(effort), ..Settings::default() };
        assert_eq!(ask_for(&*model.chat, &request(&model, &settings)).await.1, None);
    }
    let efforts: Vec<_> =
        upstream.requests().iter().map(|request| request.body.get("reasoning_effort").cloned()).collect();
    assert_eq!(efforts, [Some(json!("minimal")), None, Some(json!("high")), None]);
}

#[tokio::test]
async fn two_settings_that_exclude_each_other_are_sent_one_at_a_time() {
    let upstream = Upstream::start().await;
    let said = "`temperature` and `top_p` cannot both be specified for this model. Please use only one.";
    upstream.program(move |body| {
        let both = has(body, "temperature") && has(body, "top_p");
        if both { Reply::status(400).error("invalid_request_error", None, said) } else { Reply::says("ok") }
    });
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    let alone = Settings { temperature: None, ..settings() };
    for settings in [settings(), settings(), alone] {
        assert_eq!(ask_for(&*model.chat, &request(&model, &settings)).await.1, None);
    }
    let top_p: Vec<_> = upstream.requests().iter().map(|request| has(&request.body, "top_p")).collect();
    assert_eq!(top_p, [true, false, false, true], "alone it is still sent");
}

#[tokio::test]
async fn a_model_that_cannot_think_is_not_asked_to() {
    let upstream = Upstream::start().await;
    refuses(&upstream, "think", refusal(&json!({"error": "\"m\" does not support thinking"})));
    let model = model(ProviderWire::Ollama, &upstream, &Value::Null);
    let settings = Settings { reasoning_effort: Some(Effort::Low), ..Settings::default() };
    assert_eq!(ask_for(&*model.chat, &request(&model, &settings)).await.1, None);
    assert_eq!(upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_field_of_the_models_entry_is_left_out_where_it_is_refused() {
    let upstream = Upstream::start().await;
    let said = "Unsupported parameter: 'stop' is not supported with this model.";
    refuses(&upstream, "stop", openai("stop", Some("unsupported_parameter"), said));
    let model = model(ProviderWire::Chat, &upstream, &json!({"stop": ["x"], "seed": 7}));
    assert_eq!(ask_for(&*model.chat, &request(&model, &Settings::default())).await.1, None);
    let requests = upstream.requests();
    assert_eq!((requests[1].body.get("stop"), &requests[1].body["seed"]), (None, &json!(7)));
}

#[tokio::test]
async fn several_refusals_in_a_row_are_followed_and_their_number_is_bounded() {
    let upstream = Upstream::start().await;
    const NAMES: [&str; 4] = ["temperature", "top_p", "presence_penalty", "stream_options"];
    upstream.program(|body| match NAMES.iter().find(|name| has(body, name)) {
        Some(name) => openai(name, Some("unsupported_parameter"), "not supported"),
        None => Reply::says("ok"),
    });
    let model = model(ProviderWire::Chat, &upstream, &Value::Null);
    assert_eq!(ask_for(&*model.chat, &request(&model, &settings())).await.1, None);
    assert_eq!(upstream.requests().len(), 5);

    let stubborn = Upstream::start().await;
    stubborn
        .program(|_| openai("temperature", Some("unsupported_parameter"), "'temperature' is not supported"));
    let model = self::model(ProviderWire::Chat, &stubborn, &Value::Null);
    let summary = "the provider found the request invalid, unsupported_parameter".to_owned();
    for _ in 0..2 {
        let error = ask_for(&*model.chat, &request(&model, &settings())).await.1;
        assert_eq!(error, Some(Error::Rejected { status: 400, summary: summary.clone() }));
    }
    let sent: Vec<_> = stubborn.requests().iter().map(|request| has(&request.body, "temperature")).collect();
    assert_eq!(
        sent,
        [true, false, true, false],
        "each time once more, and what did not help is not remembered"
    );
}

#[tokio::test]
async fn a_refusal_that_names_no_setting_or_a_wrong_value_is_passed_on() {
    for reply in [
        openai("messages", Some("invalid_value"), "Invalid 'messages': unsupported content."),
        openai(
            "temperature",
            Some("decimal_above_max_value"),
            "Invalid 'temperature': expected a value <= 2.",
        ),
        Reply::status(400).error("invalid_request_error", None, "max_tokens: 100 > 50, which is the maximum"),
        Reply::status(404).error("invalid_request_error", None, "'temperature' is not supported"),
    ] {
        let upstream = Upstream::start().await;
        upstream.script([reply]);
        let model = model(ProviderWire::Chat, &upstream, &Value::Object(Map::new()));
        let error = ask_for(&*model.chat, &request(&model, &settings())).await.1.unwrap();
        assert!(matches!(error, Error::Rejected { .. }), "{error:?}");
        assert_eq!(upstream.requests().len(), 1);
    }
}
