//! The requests that are sent, as the provider reads them. The upstream has checked each of these as strictly as its
//! provider would.

use std::sync::Arc;

use model::chat::{ChatCompletions, Quirks, TokenLimit};
use model::{
    AnswerFormat, CallResult, Exchange, ModelRequest, PromptMessage, ProviderWire, Schema, ToolSpec,
};
use protocol::{CallId, Effort, Settings};
use serde_json::{Value, json};
use testkit::upstream::{Reply, Upstream};
use uuid::Uuid;

use crate::support::{PATIENT, ask_for, client, endpoint, hello, opaque};

async fn sent(wire: ProviderWire, request: &ModelRequest) -> Value {
    let upstream = Upstream::start().await;
    upstream.script([Reply::says("ok")]);
    let answer = client(wire, &upstream, PATIENT).stream(request).await;
    assert_eq!(upstream.violations(), [""; 0], "{wire:?}");
    answer.map(drop).unwrap();
    let requests = upstream.requests();
    assert_eq!(requests[0].header("accept-encoding"), None);
    requests[0].body.clone()
}

fn exchange(id: u128, input: Value, result: &str, success: bool) -> Exchange {
    Exchange {
        id: CallId::new(Uuid::from_u128(id)),
        name: "calculate".into(),
        input,
        result: CallResult { text: result.into(), success },
    }
}

fn conversation() -> ModelRequest {
    let assistant =
        |text: &str, exchanges, provider| PromptMessage::Assistant { text: text.into(), exchanges, provider };
    let signature = json!({"google": {"thought_signature": "c2ln"}});
    ModelRequest {
        model: "gpt-x".into(),
        system: "Be brief.".into(),
        messages: vec![
            PromptMessage::User("What is 2+2, and 1/0?".into()),
            assistant(
                "",
                vec![
                    exchange(1, json!({"expression": "2+2", "note": "a \"quote\"\n"}), "4", true),
                    exchange(2, json!({"expression": "1/0"}), "error: division by zero", false),
                ],
                Some(json!({"provider": "scripted", "extra": {"1": signature}})),
            ),
            assistant(
                "Once more.",
                vec![exchange(3, Value::Null, "6", true)],
                Some(json!({"provider": "another", "extra": {"0": signature}})),
            ),
            assistant("4, and there is no answer.", vec![], None),
            PromptMessage::User("Thanks".into()),
        ],
        tools: [
            ToolSpec {
                name: "calculate".into(),
                description: "Evaluates an expression.".into(),
                parameters: json!({
                    "type": "object",
                    "properties": {"expression": {"type": "string"}},
                    "required": ["expression"],
                }),
            },
            ToolSpec {
                name: "now".into(),
                description: String::new(),
                parameters: json!({"type": "object"}),
            },
        ]
        .into(),
        settings: Settings {
            temperature: Some(0.5),
            max_tokens: Some(100),
            top_p: Some(0.9),
            ..Settings::default()
        },
        ..ModelRequest::new("", "", Vec::new())
    }
}

#[tokio::test]
async fn a_bare_question() {
    for wire in ProviderWire::ALL {
        let name = format!("a_bare_question_{}", wire.name());
        insta::assert_json_snapshot!(name, sent(wire, &hello()).await);
    }
}

#[tokio::test]
async fn a_conversation_with_tools() {
    for wire in ProviderWire::ALL {
        let name = format!("a_conversation_with_tools_{}", wire.name());
        insta::assert_json_snapshot!(name, sent(wire, &conversation()).await);
    }
}

/// Before the first turn, after an answer, after results, twice in a row, and last of all.
#[tokio::test]
async fn system_messages_among_the_turns() {
    let system = |text: &str| PromptMessage::System(text.into());
    let assistant =
        |text: &str, exchanges| PromptMessage::Assistant { text: text.into(), exchanges, provider: None };
    let messages = vec![
        system("Background: they like cats."),
        system("Background: they have two."),
        PromptMessage::User("How many cats have I?".into()),
        assistant("Two.", vec![]),
        system("New: one more cat."),
        PromptMessage::User("And now?".into()),
        assistant("", vec![exchange(1, json!({"expression": "2+1"}), "3", true)]),
        system("It is late."),
        system("Be quick."),
    ];
    for wire in ProviderWire::ALL {
        let name = format!("system_messages_among_the_turns_{}", wire.name());
        let request = ModelRequest::new("m", "Be brief.", messages.clone());
        insta::assert_json_snapshot!(name, sent(wire, &request).await);
    }
}

#[tokio::test]
async fn the_limit_has_another_name_at_openai() {
    let upstream = Upstream::start().await;
    let quirks = Quirks { token_limit: TokenLimit::MaxCompletionTokens };
    let client =
        ChatCompletions::new(&endpoint(ProviderWire::Chat, &upstream, PATIENT)).unwrap().with_quirks(quirks);
    upstream.script([Reply::says("ok")]);
    assert_eq!(ask_for(&client, &conversation()).await.1, None);
    let body = &upstream.requests()[0].body;
    assert_eq!(body.get("max_completion_tokens"), Some(&json!(100)));
    assert_eq!(body.get("max_tokens"), None);
}

#[tokio::test]
async fn the_same_request_has_the_same_bytes() {
    for wire in ProviderWire::ALL {
        let (one, other) = (sent(wire, &conversation()).await, sent(wire, &conversation()).await);
        assert_eq!(one.to_string(), other.to_string(), "{wire:?}");
    }
}

#[tokio::test]
async fn every_setting_is_one_the_provider_takes() {
    for wire in ProviderWire::ALL {
        for (number, tokens) in [(0.0, 1), (0.5, 1000), (1.0, 100_000)] {
            for effort in
                [None, Some(Effort::None), Some(Effort::Minimal), Some(Effort::Low), Some(Effort::High)]
            {
                let settings = Settings {
                    temperature: Some(number * 2.0),
                    max_tokens: Some(tokens),
                    top_p: Some(number),
                    frequency_penalty: Some(number * 2.0),
                    presence_penalty: Some(number * -2.0),
                    repeat_penalty: Some(number),
                    output_format: None,
                    reasoning_effort: effort,
                };
                sent(wire, &ModelRequest { settings, ..conversation() }).await;
            }
        }
    }
}

#[tokio::test]
async fn every_form_of_an_answer_is_one_the_provider_takes() {
    let tags = json!({"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 3});
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": ["string", "null"]}, "tags": tags, "score": {"type": "number", "minimum": 0}},
        "required": ["title", "tags", "score"],
        "additionalProperties": false,
    });
    for wire in ProviderWire::ALL {
        for format in [
            AnswerFormat::Text,
            AnswerFormat::Json,
            AnswerFormat::Schema(Arc::new(Schema {
                name: "answer".into(),
                schema: schema.clone(),
                strict: true,
            })),
        ] {
            for stream in [true, false] {
                let messages = vec![PromptMessage::User("Answer in JSON.".into())];
                let format = format.clone();
                sent(wire, &ModelRequest { format, stream, messages, ..conversation() }).await;
            }
        }
    }
}

/// Fields of the provider's own may be ones that settings speak of too; then they count, and none is sent twice.
#[tokio::test]
async fn a_field_of_the_providers_own_is_sent_once() {
    for wire in [
        ProviderWire::Chat,
        ProviderWire::Responses,
        ProviderWire::Anthropic(model::AnthropicVersion::V2023),
        ProviderWire::Ollama,
    ] {
        let extra = json!({"temperature": 0.25, "top_p": 0.75});
        let settings = Settings { temperature: Some(0.5), ..Settings::default() };
        let request =
            ModelRequest { extra: Arc::new(extra.as_object().cloned().unwrap()), settings, ..hello() };
        let body = sent(wire, &request).await;
        let own = if wire == ProviderWire::Ollama { &body["options"] } else { &body };
        assert_eq!((&own["temperature"], &own["top_p"]), (&json!(0.25), &json!(0.75)), "{wire:?}");
    }
}

/// Items of reasoning and calls go back in the next request, in which the provider finds its own items.
#[tokio::test]
async fn a_turn_with_reasoning_and_calls_goes_back_as_it_came() {
    for wire in ProviderWire::ALL {
        let upstream = Upstream::start().await;
        let call = testkit::upstream::ScriptedCall::new("calculate", r#"{"expression":"2+2"}"#);
        upstream.script([Reply::stream().reasoning("Hm.").text("Let me see.").call(call), Reply::says("4")]);
        let client = client(wire, &upstream, PATIENT);
        let settings = Settings { reasoning_effort: Some(Effort::Low), ..Settings::default() };
        let first = ModelRequest { settings, tools: conversation().tools, ..hello() };
        let (pieces, error) = ask_for(&*client, &first).await;
        assert_eq!(error, None, "{wire:?}");
        let provider = opaque(&pieces);
        let exchanges = vec![exchange(7, json!({"expression": "2+2"}), "4", true)];
        let turn = PromptMessage::Assistant { text: "Let me see.".into(), exchanges, provider };
        let second = ModelRequest { messages: [first.messages.clone(), vec![turn]].concat(), ..first };
        assert_eq!(ask_for(&*client, &second).await.1, None, "{wire:?}");
        let sent = upstream.requests()[1].body.to_string();
        let kept = match wire {
            ProviderWire::Responses => "sealed_0",
            ProviderWire::Anthropic(_) => "signature_0",
            ProviderWire::Chat | ProviderWire::Ollama => "Let me see.",
        };
        assert!(sent.contains(kept), "{wire:?}: {sent}");
    }
}
