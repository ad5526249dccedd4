//! Requests as the server reads them.

use std::sync::Arc;

use protocol::{CallId, Effort, Settings};
use serde_json::{Value, json};
use testkit::upstream::complaint_at;
use uuid::Uuid;

use crate::responses::encode;
use crate::{AnswerFormat, CallResult, Exchange, ModelRequest, PromptMessage, Schema, ToolSpec};

/// The body, which the provider would take.
fn body(request: &ModelRequest) -> Value {
    let body: Value = serde_json::from_slice(&encode::body(request, "openai")).unwrap();
    assert_eq!(complaint_at("/v1/responses", &[], body.clone()), None, "{body:#}");
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

fn reasoning(provider: &str, id: &str) -> Option<Value> {
    let item = json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "b3BhcXVl"});
    Some(json!({"provider": provider, "reasoning": [item]}))
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
                        exchange(1, json!({"expression": "2+2", "note": "a \"quote\"\n"}), "4", true),
                        exchange(2, json!({"expression": "1/0"}), "error: division by zero", false),
                    ],
                    reasoning("openai", "rs_1"),
                ),
                assistant(
                    "Once more.",
                    vec![exchange(3, Value::Null, "6", true)],
                    reasoning("another", "rs_2"),
                ),
                assistant("4, and there is no answer.", vec![], reasoning("openai", "rs_3")),
                assistant("", vec![], None),
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
fn reasoning_goes_back_to_its_provider_just_before_the_calls() {
    let mut request = conversation();
    let PromptMessage::Assistant { provider, .. } = &mut request.messages[2] else { panic!("an answer") };
    *provider = reasoning("openai", "rs_2");
    let body = body(&request);
    let input = body["input"].as_array().unwrap();
    let kinds: Vec<_> =
        input.iter().map(|item| item.get("type").or(item.get("role")).unwrap().as_str().unwrap()).collect();
    let expected = [
        "user",
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "assistant",
        "reasoning",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn what_the_provider_sent_is_ignored_where_it_is_not_reasoning() {
    let odd = [json!("x"), json!({"provider": "openai"}), json!({"provider": "openai", "reasoning": 1})];
    for opaque in odd {
        let exchanges = vec![exchange(1, json!({}), "4", true)];
        let message = PromptMessage::Assistant { text: String::new(), exchanges, provider: Some(opaque) };
        let body = body(&ModelRequest::new("m", "", vec![message]));
        assert_eq!(body["input"].as_array().unwrap().len(), 2);
    }
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
    let extra = json!({"service_tier": "flex", "truncation": "auto"});
    let extra = Arc::new(extra.as_object().unwrap().clone());
    insta::assert_json_snapshot!(body(&ModelRequest { settings, extra, stream: false, ..hello() }));
}

#[test]
fn the_provider_s_own_fields_have_the_last_word() {
    let extra = json!({"temperature": 0.25, "store": true, "text": {"verbosity": "low"}});
    let extra = Arc::new(extra.as_object().unwrap().clone());
    let settings = Settings { temperature: Some(0.5), ..Settings::default() };
    let request = ModelRequest { settings, extra, ..hello() };
    let bytes = String::from_utf8(encode::body(&request, "openai")).unwrap();
    assert_eq!(bytes.matches("temperature").count(), 1, "{bytes}");
    let body = body(&request);
    assert_eq!((&body["temperature"], &body["store"]), (&json!(0.25), &json!(true)));
    assert_eq!(body["text"], json!({"verbosity": "low"}));
}

#[test]
fn the_form_of_the_answer() {
    let schema = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let named = AnswerFormat::Schema(Arc::new(Schema {
        name: "answer".into(),
        schema: schema.clone(),
        strict: true,
    }));
    for (format, expected) in [
        (AnswerFormat::Text, Value::Null),
        (AnswerFormat::Json, json!({"format": {"type": "json_object"}})),
        (
            named,
            json!({"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": schema}}),
        ),
    ] {
        let body = body(&ModelRequest { format, system: "Answer in JSON.".into(), ..hello() });
        assert_eq!(body.get("text").unwrap_or(&Value::Null), &expected);
    }
}

#[test]
fn whoever_wants_json_says_so_in_the_input() {
    let said =
        json!([{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": "hello"}]);
    let body =
        body(&ModelRequest { system: "Answer in JSON.".into(), format: AnswerFormat::Json, ..hello() });
    assert_eq!((body.get("instructions"), &body["input"]), (None, &said));
}

#[test]
fn a_limit_is_at_least_what_the_provider_takes() {
    for (asked, sent) in [(0, 16), (15, 16), (16, 16), (17, 17)] {
        let settings = Settings { max_tokens: Some(asked), ..Settings::default() };
        assert_eq!(body(&ModelRequest { settings, ..hello() })["max_output_tokens"], sent);
    }
}

#[test]
fn the_same_request_has_the_same_bytes() {
    let bytes = || encode::body(&conversation(), "openai");
    assert_eq!(bytes(), bytes());
}
