//! The requests that are sent. Each body is also shown to the strict upstream, which refuses what the provider would.

use std::sync::Arc;

use protocol::{CallId, Effort, Settings};
use serde_json::{Map, Value, json};
use testkit::upstream::complaint_at;
use uuid::Uuid;

use super::super::encode;
use super::super::schema::accepted_schema;
use crate::{
    AnswerFormat, AnthropicVersion, CallResult, Exchange, ModelRequest, PromptMessage, Schema, ToolSpec,
};

const VERSIONS: [(AnthropicVersion, &str); 2] =
    [(AnthropicVersion::V2023, "2023-06-01"), (AnthropicVersion::V2026, "2026-10-21")];

fn sent(request: &ModelRequest, version: AnthropicVersion) -> Value {
    let body = encode::body(request, "test", version);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let header = VERSIONS.iter().find(|(known, _)| *known == version).unwrap().1;
    let headers = [("anthropic-version", header)];
    assert_eq!(complaint_at("/v1/messages", &headers, body.clone()), None, "{body:#}");
    body
}

fn user(text: &str) -> PromptMessage {
    PromptMessage::User(text.into())
}

fn assistant(text: &str, exchanges: Vec<Exchange>, provider: Option<Value>) -> PromptMessage {
    PromptMessage::Assistant { text: text.into(), exchanges, provider }
}

fn exchange(id: u128, input: Value, result: &str, success: bool) -> Exchange {
    let result = CallResult { text: result.into(), success };
    Exchange { id: CallId::new(Uuid::from_u128(id)), name: "calculate".into(), input, result }
}

fn tool(name: &str, description: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: description.into(), parameters: json!({"type": "object"}) }
}

fn asking(settings: Settings) -> ModelRequest {
    ModelRequest { settings, ..ModelRequest::new("m", "", vec![user("hello")]) }
}

fn with_effort(effort: Effort) -> Settings {
    Settings { reasoning_effort: Some(effort), ..Settings::default() }
}

fn call_id(id: u128) -> String {
    CallId::new(Uuid::from_u128(id)).to_string()
}

fn signed() -> Value {
    json!({"type": "thinking", "thinking": "Hm.", "signature": "sig"})
}

fn thoughts(provider: &str) -> Option<Value> {
    Some(json!({"provider": provider, "thinking": [signed()]}))
}

#[test]
fn a_bare_question() {
    for (version, _) in VERSIONS {
        let content = json!([{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]);
        let expected = json!({"model": "m", "max_tokens": 4096, "stream": true,
            "messages": [{"role": "user", "content": content}]});
        assert_eq!(sent(&asking(Settings::default()), version), expected);
    }
}

#[test]
fn a_conversation_with_tools() {
    let exchanges = vec![
        exchange(1, json!({"expression": "2+2"}), "4", true),
        exchange(2, json!([]), "error: division by zero", false),
        exchange(3, Value::Null, " ", false),
    ];
    let request = ModelRequest {
        tools: [tool("calculate", "Evaluates."), tool("now", "")].into(),
        stream: false,
        ..ModelRequest::new(
            "m",
            "Be brief.",
            vec![
                user("What is 2+2,"),
                user("and 1/0?"),
                assistant("", exchanges, thoughts("test")),
                assistant("Once more.", vec![exchange(4, json!({}), "6", true)], thoughts("another")),
                assistant("4.", vec![], None),
                assistant("And there is no other answer.", vec![], None),
                assistant("\n", vec![], thoughts("test")),
                user(""),
                user("Thanks"),
            ],
        )
    };
    let mark = json!({"type": "ephemeral"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id, input: Value| json!({"type": "tool_use", "id": call_id(id), "name": "calculate", "input": input});
    let result =
        |id, content: &str| json!({"type": "tool_result", "tool_use_id": call_id(id), "content": content});
    let error = |id, content: &str| json!({"type": "tool_result", "tool_use_id": call_id(id), "content": content, "is_error": true});
    let expected = json!({
        "model": "m",
        "max_tokens": 4096,
        "stream": false,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [
            {"name": "calculate", "description": "Evaluates.", "input_schema": {"type": "object"}},
            {"name": "now", "input_schema": {"type": "object"}, "cache_control": mark},
        ],
        "messages": [
            {"role": "user", "content": [text("What is 2+2,"), text("and 1/0?")]},
            {"role": "assistant", "content": [
                signed(), call(1, json!({"expression": "2+2"})), call(2, json!({})), call(3, json!({})),
            ]},
            {"role": "user", "content": [
                result(1, "4"), error(2, "error: division by zero"), error(3, "(empty)"),
            ]},
            {"role": "assistant", "content": [text("Once more."), call(4, json!({}))]},
            {"role": "user", "content": [result(4, "6")]},
            {"role": "assistant", "content": [text("4."), text("And there is no other answer.")]},
            {"role": "user", "content": [{"type": "text", "text": "Thanks", "cache_control": mark}]},
        ],
    });
    for (version, _) in VERSIONS {
        assert_eq!(sent(&request, version), expected);
    }
}

#[test]
fn words_after_results_follow_them_in_one_message() {
    let called = assistant("", vec![exchange(1, json!({}), "", true)], None);
    let request = ModelRequest::new("m", " ", vec![user("a"), called, user("b")]);
    let body = sent(&request, AnthropicVersion::V2026);
    assert_eq!(body.get("system"), None);
    let expected = json!([
        {"type": "tool_result", "tool_use_id": call_id(1), "content": "(empty)"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ]);
    assert_eq!(body["messages"][2]["content"], expected);
}

#[test]
fn a_conversation_always_begins_with_the_user() {
    let first = json!({"role": "user", "content": [{"type": "text", "text": "(the conversation goes on)"}]});
    let request = ModelRequest::new("m", "", vec![assistant("Hello!", vec![], None), user("hi")]);
    let body = sent(&request, AnthropicVersion::V2026);
    assert_eq!(body["messages"][0], first);
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    for empty in [vec![], vec![user("  ")]] {
        let body = sent(&ModelRequest::new("m", "", empty), AnthropicVersion::V2026);
        assert_eq!(body["messages"][0]["content"][0]["text"], "(the conversation goes on)");
    }
}

#[test]
fn the_system_speaks_before_the_turns_or_in_the_user_s() {
    let system = |text: &str| PromptMessage::System(text.into());
    let mark = json!({"type": "ephemeral"});
    let marked = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    let plain = |text: &str| json!({"type": "text", "text": text});
    let goes_on = marked("(the conversation goes on)");
    for (first, messages, blocks, turns) in [
        ("", vec![system("a"), user("b")], json!([marked("a")]), json!([["user", [marked("b")]]])),
        ("s", vec![system("a"), system(" ")], json!([marked("s"), plain("a")]), json!([["user", [goes_on]]])),
        (
            "",
            vec![user("a"), system("b"), assistant("c", vec![], None), system("d")],
            Value::Null,
            json!([["user", [plain("a"), plain("b")]], ["assistant", [plain("c")]], ["user", [marked("d")]]]),
        ),
        (
            "s",
            vec![system("a"), assistant("b", vec![], None), system(""), user("c")],
            json!([marked("s"), plain("a")]),
            json!([
                ["user", [plain("(the conversation goes on)")]],
                ["assistant", [plain("b")]],
                ["user", [marked("c")]],
            ]),
        ),
    ] {
        for (version, _) in VERSIONS {
            let body = sent(&ModelRequest::new("m", first, messages.clone()), version);
            assert_eq!(body.get("system").unwrap_or(&Value::Null), &blocks, "{messages:?}");
            let sent = body["messages"].as_array().unwrap().iter();
            let sent: Value = sent.map(|message| json!([message["role"], message["content"]])).collect();
            assert_eq!(sent, turns, "{messages:?}");
        }
    }
}

#[test]
fn only_the_older_version_is_sent_sampling_and_one_parameter_of_it() {
    let settings = |temperature, top_p| Settings { temperature, top_p, ..Settings::default() };
    for (temperature, top_p, expected) in [
        (Some(0.5), None, (json!(0.5), json!(null))),
        (Some(1.7), None, (json!(1.0), json!(null))),
        (Some(-0.1), None, (json!(0.0), json!(null))),
        (None, Some(0.9), (json!(null), json!(0.9))),
        (Some(0.5), Some(0.9), (json!(0.5), json!(null))),
    ] {
        let request = asking(settings(temperature, top_p));
        let old = sent(&request, AnthropicVersion::V2023);
        assert_eq!((old["temperature"].clone(), old["top_p"].clone()), expected);
        let new = sent(&request, AnthropicVersion::V2026);
        assert_eq!((new.get("temperature"), new.get("top_p")), (None, None));
    }
}

#[test]
fn the_longest_answer_is_what_is_asked_or_known_or_a_default() {
    for (asked, known, expected) in
        [(Some(7), Some(9), 7), (Some(7), None, 7), (None, Some(64_000), 64_000), (None, None, 4096)]
    {
        let settings = Settings { max_tokens: asked, ..Settings::default() };
        let request = ModelRequest { max_output: known, ..asking(settings) };
        assert_eq!(sent(&request, AnthropicVersion::V2026)["max_tokens"], expected);
    }
}

#[test]
fn effort_has_a_word_in_the_newer_version() {
    for (effort, word) in [
        (Effort::None, None),
        (Effort::Minimal, Some("low")),
        (Effort::Low, Some("low")),
        (Effort::Medium, Some("medium")),
        (Effort::High, Some("high")),
    ] {
        let body = sent(&asking(with_effort(effort)), AnthropicVersion::V2026);
        assert_eq!(body.get("output_config"), word.map(|word| json!({"effort": word})).as_ref());
        assert_eq!(body.get("thinking"), None);
    }
}

#[test]
fn effort_is_a_budget_in_the_older_version() {
    let ask = |effort, max_tokens, max_output| {
        let settings =
            Settings { max_tokens, temperature: Some(0.5), top_p: Some(0.5), ..with_effort(effort) };
        let body = sent(&ModelRequest { max_output, ..asking(settings) }, AnthropicVersion::V2023);
        assert_eq!(body.get("output_config"), None);
        let budget = body["thinking"]["budget_tokens"].as_u64();
        assert_eq!(body.get("temperature").is_some(), budget.is_none(), "one excludes the other");
        assert_eq!(body.get("top_p"), None);
        (body["max_tokens"].as_u64().unwrap(), budget)
    };
    assert_eq!(ask(Effort::None, None, None), (4096, None));
    assert_eq!(ask(Effort::Minimal, None, None), (4096, None));
    assert_eq!(ask(Effort::Low, Some(100), None), (2148, Some(2048)));
    assert_eq!(ask(Effort::Medium, Some(100), Some(64_000)), (8292, Some(8192)));
    assert_eq!(ask(Effort::High, None, None), (20_480, Some(16_384)));
    assert_eq!(ask(Effort::High, None, Some(64_000)), (64_000, Some(16_384)), "no longer than the model can");
    assert_eq!(ask(Effort::High, Some(1000), Some(8192)), (8192, Some(4096)), "half of it is thinking");
    assert_eq!(ask(Effort::High, Some(1000), Some(2000)), (1000, None), "too little to think in");
}

#[test]
fn thinking_does_not_begin_in_the_middle_of_a_turn() {
    let called = |id, thoughts| assistant("", vec![exchange(id, json!({}), "4", true)], thoughts);
    for (turns, thinks) in [
        (vec![called(1, thoughts("test"))], true),
        (vec![called(1, None)], false),
        (vec![called(1, thoughts("another"))], false),
        (vec![called(1, thoughts("test")), called(2, None)], false),
        (vec![called(1, None), user("go on")], false),
        (vec![called(1, thoughts("test")), user("go on")], true),
        (vec![called(1, None), PromptMessage::System("go on".into())], false),
        (vec![called(1, thoughts("test")), PromptMessage::System("go on".into()), user("yes")], true),
        (vec![called(1, None), assistant("Done.", vec![], None), user("go on")], true),
    ] {
        let messages = [vec![user("a")], turns].concat();
        let request =
            ModelRequest { settings: with_effort(Effort::Low), ..ModelRequest::new("m", "", messages) };
        let body = sent(&request, AnthropicVersion::V2023);
        assert_eq!(body.get("thinking").is_some(), thinks, "{body:#}");
    }
}

#[test]
fn a_schema_is_sent_without_what_is_refused() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["pattern", "list", "choice"],
        "properties": {
            "pattern": {"type": "string", "pattern": "^a", "minLength": 1, "enum": ["minLength"]},
            "list": {"type": "array", "minItems": 2, "maxItems": 3, "uniqueItems": true,
                "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/number"}}},
            "choice": {"oneOf": [{"type": "number", "maximum": 3}, {"type": "null"}],
                "default": {"maximum": 3}},
        },
        "$defs": {"number": {"type": "number", "minimum": 0, "multipleOf": 2}},
    });
    let expected = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["pattern", "list", "choice"],
        "properties": {
            "pattern": {"type": "string", "enum": ["minLength"]},
            "list": {"type": "array",
                "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/number"}}},
            "choice": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": {"maximum": 3}},
        },
        "$defs": {"number": {"type": "number"}},
    });
    assert_eq!(accepted_schema(&schema), expected);
    assert_eq!(accepted_schema(&json!(true)), json!(true));
    let format = AnswerFormat::Schema(Arc::new(Schema { name: "answer".into(), schema, strict: true }));
    for (version, _) in VERSIONS {
        let body = sent(&ModelRequest { format: format.clone(), ..asking(Settings::default()) }, version);
        assert_eq!(body["output_config"], json!({"format": {"type": "json_schema", "schema": expected}}));
        let body = sent(&ModelRequest { format: AnswerFormat::Json, ..asking(Settings::default()) }, version);
        assert_eq!(body.get("output_config"), None, "it has no word for JSON of any form");
    }
}

#[test]
fn fields_of_the_provider_win_over_ours() {
    let extra = json!({"max_tokens": 5, "service_tier": "auto"});
    let extra: Map<String, Value> = extra.as_object().unwrap().clone();
    let body = sent(
        &ModelRequest { extra: Arc::new(extra), ..asking(Settings::default()) },
        AnthropicVersion::V2026,
    );
    assert_eq!((&body["max_tokens"], &body["service_tier"]), (&json!(5), &json!("auto")));
}
