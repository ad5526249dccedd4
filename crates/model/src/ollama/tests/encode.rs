//! Requests as the server reads them.

use std::sync::Arc;

use protocol::{CallId, Effort, Settings};
use serde_json::{Map, Value, json};
use testkit::upstream::complaint_at;
use uuid::Uuid;

use crate::ollama::encode;
use crate::{AnswerFormat, CallResult, Exchange, ModelRequest, PromptMessage, Schema, ToolSpec};

/// The body, which the provider would take.
fn body(request: &ModelRequest) -> Value {
    let body: Value = serde_json::from_slice(&encode::body(request)).unwrap();
    assert_eq!(complaint_at("/api/chat", &[], body.clone()), None, "{body:#}");
    body
}

fn hello() -> ModelRequest {
    ModelRequest::new("m", "", vec![PromptMessage::User("hello".into())])
}

fn exchange(id: u128, input: Value, result: &str, success: bool) -> Exchange {
    Exchange {
        id: CallId::new(Uuid::from_u128(id)),
        name: "calculate".into(),
        input,
        result: CallResult { text: result.into(), success },
    }
}

fn extra(fields: &Value) -> Arc<Map<String, Value>> {
    Arc::new(fields.as_object().unwrap().clone())
}

fn conversation() -> ModelRequest {
    let assistant =
        |text: &str, exchanges, provider| PromptMessage::Assistant { text: text.into(), exchanges, provider };
    let calculate = ToolSpec {
        name: "calculate".into(),
        description: "Evaluates an expression.".into(),
        parameters: json!({"type": "object", "properties": {"expression": {"type": "string"}}}),
    };
    let now =
        ToolSpec { name: "now".into(), description: String::new(), parameters: json!({"type": "object"}) };
    ModelRequest {
        tools: [calculate, now].into(),
        ..ModelRequest::new(
            "m",
            "Be brief.",
            vec![
                PromptMessage::User("What is 2+2, and 1/0?".into()),
                assistant(
                    "",
                    vec![
                        exchange(1, json!({"expression": "2+2", "note": {"a": ["\"\n"]}}), "4", true),
                        exchange(2, json!({"expression": "1/0"}), "error: division by zero", false),
                    ],
                    Some(json!({"provider": "another", "reasoning": []})),
                ),
                assistant("Once more.", vec![exchange(3, Value::Null, "6", true)], None),
                assistant("4, and there is no answer.", vec![], None),
                PromptMessage::User("Thanks".into()),
            ],
        )
    }
}

#[test]
fn a_bare_question() {
    insta::assert_json_snapshot!(body(&hello()));
}

#[test]
fn a_conversation_with_tools() {
    insta::assert_json_snapshot!(body(&conversation()));
}

#[test]
fn every_setting() {
    let settings = Settings {
        temperature: Some(0.5),
        max_tokens: Some(100),
        top_p: Some(0.9),
        frequency_penalty: Some(0.1),
        presence_penalty: Some(0.2),
        repeat_penalty: Some(1.1),
        output_format: None,
        reasoning_effort: Some(Effort::High),
    };
    let extra = extra(&json!({"num_ctx": 8192, "min_p": 0.05, "keep_alive": "5m", "logprobs": true}));
    insta::assert_json_snapshot!(body(&ModelRequest { settings, extra, stream: false, ..hello() }));
}

#[test]
fn each_word_for_repetition_has_its_own_option() {
    let options = |settings| body(&ModelRequest { settings, ..hello() })["options"].clone();
    let repeat = Settings { repeat_penalty: Some(1.5), ..Settings::default() };
    assert_eq!(options(repeat), json!({"repeat_penalty": 1.5}));
    let frequency = Settings { frequency_penalty: Some(0.5), ..Settings::default() };
    assert_eq!(options(frequency), json!({"frequency_penalty": 0.5}));
}

#[test]
fn the_provider_s_own_fields_have_the_last_word() {
    let settings =
        Settings { max_tokens: Some(9), reasoning_effort: Some(Effort::Low), ..Settings::default() };
    let extra = extra(&json!({"num_predict": 5, "think": true, "format": "json"}));
    let body = body(&ModelRequest { settings, extra, ..hello() });
    assert_eq!(body["options"], json!({"num_predict": 5}));
    assert_eq!((&body["think"], &body["format"]), (&json!(true), &json!("json")));
}

#[test]
fn the_form_of_the_answer() {
    let schema = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let named = AnswerFormat::Schema(Arc::new(Schema {
        name: "answer".into(),
        schema: schema.clone(),
        strict: true,
    }));
    for (format, expected) in
        [(AnswerFormat::Text, None), (AnswerFormat::Json, Some(json!("json"))), (named, Some(schema))]
    {
        assert_eq!(body(&ModelRequest { format, ..hello() }).get("format"), expected.as_ref());
    }
}

#[test]
fn how_long_it_thinks() {
    for (effort, expected) in [
        (None, None),
        (Some(Effort::None), Some(json!(false))),
        (Some(Effort::Minimal), Some(json!("low"))),
        (Some(Effort::Low), Some(json!("low"))),
        (Some(Effort::Medium), Some(json!("medium"))),
        (Some(Effort::High), Some(json!("high"))),
    ] {
        let settings = Settings { reasoning_effort: effort, ..Settings::default() };
        assert_eq!(body(&ModelRequest { settings, ..hello() }).get("think"), expected.as_ref(), "{effort:?}");
    }
}

#[test]
fn the_same_request_has_the_same_bytes() {
    assert_eq!(encode::body(&conversation()), encode::body(&conversation()));
}
