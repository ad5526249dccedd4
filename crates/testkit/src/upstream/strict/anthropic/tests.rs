//! Requests for Messages that are fine, and requests that are wrong in one way each.

use serde_json::{Value, json};

use crate::upstream::complaint_at;

const OLD: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];
const NEW: &[(&str, &str)] = &[("anthropic-version", "2026-10-21")];

fn bare() -> Value {
    json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "u"}]})
}

fn with(headers: &[(&str, &str)], field: &str, value: Value) -> Option<String> {
    let mut body = bare();
    body[field] = value;
    complaint_at("/v1/messages", headers, body)
}

fn user(blocks: &Value) -> Value {
    json!({"role": "user", "content": blocks})
}

fn assistant(blocks: &Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "add", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "1"})
}

#[test]
fn good_requests_pass() {
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let body = json!({
        "model": "m",
        "max_tokens": 5000,
        "system": [text("Be brief.")],
        "messages": [
            user(&json!("hello")),
            user(&json!([text("again")])),
            assistant(&json!([thought, text("Let me see."), call("a"), call("b")])),
            user(&json!([result("b"), result("a"), text("and now?")])),
        ],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema":
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}}},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stream": true,
    });
    for headers in [OLD, NEW] {
        assert_eq!(complaint_at("/v1/messages", headers, body.clone()), None);
    }
    assert_eq!(with(OLD, "temperature", json!(1)), None);
}

#[test]
fn the_version_is_required_and_decides_on_sampling() {
    assert_eq!(
        complaint_at("/v1/messages", &[], bare()),
        Some("anthropic-version: header is required".into())
    );
    assert!(complaint_at("/v1/messages", &[("anthropic-version", "2024-01-01")], bare()).is_some());
    for field in ["temperature", "top_p", "top_k"] {
        assert_eq!(with(OLD, field, json!(1)), None, "{field}");
        assert_eq!(with(NEW, field, json!(1)), Some(format!("{field}: Extra inputs are not permitted")));
    }
    assert!(with(OLD, "temperature", json!(1.1)).is_some());
}

#[test]
fn calls_are_answered_in_the_next_message_results_first() {
    let asks = assistant(&json!([call("a"), call("b")]));
    let begin = user(&json!("u"));
    let (unanswered, orphan) = ("`tool_use` ids were found without", "unexpected `tool_use_id`");
    for (messages, part) in [
        (json!([begin, asks]), unanswered),
        (json!([begin, asks, user(&json!([result("a")]))]), unanswered),
        (json!([begin, asks, user(&json!([result("a")])), user(&json!([result("b")]))]), unanswered),
        (json!([begin, asks, user(&json!([result("a"), text("x"), result("b")]))]), "must come first"),
        (json!([begin, asks, user(&json!([result("a"), result("a"), result("b")]))]), orphan),
        (json!([user(&json!([result("a")]))]), orphan),
        (json!([begin, assistant(&json!([call("a"), call("a")]))]), "ids must be unique"),
        (json!([begin, assistant(&json!([call("a b")]))]), "should match pattern"),
        (json!([assistant(&json!("a"))]), "first message must use"),
        (json!([begin, assistant(&json!("a")), assistant(&json!("b"))]), "roles must alternate"),
        (json!([begin, assistant(&json!("a "))]), "trailing whitespace"),
        (json!([user(&json!(""))]), "non-empty content"),
        (json!([user(&json!([text("")]))]), "must be non-empty"),
        (json!([user(&json!([text(" \n")]))]), "non-whitespace"),
        (json!([user(&json!([call("a")]))]), "not allowed here"),
        (json!([begin, assistant(&json!([{"type": "thinking", "thinking": "x"}]))]), "signature"),
        (
            json!([begin, assistant(&json!([{"type": "thinking", "thinking": "x", "signature": ""}]))]),
            "signature",
        ),
    ] {
        let message = with(NEW, "messages", messages.clone()).unwrap_or_default();
        assert!(message.contains(part), "{messages}: {message:?}");
    }
    assert_eq!(with(NEW, "messages", json!([{"role": "system", "content": "s"}, begin])), None);
    assert!(with(OLD, "messages", json!([{"role": "system", "content": "s"}, begin])).is_some());
}

#[test]
fn thinking_goes_on_only_from_what_was_thought() {
    let calls = |blocks: &Value| json!([user(&json!("u")), assistant(blocks), user(&json!([result("a")]))]);
    let ask = |messages: Value| {
        let thinking = json!({"type": "enabled", "budget_tokens": 1024});
        let body = json!({"model": "m", "max_tokens": 2000, "messages": messages, "thinking": thinking});
        complaint_at("/v1/messages", OLD, body)
    };
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    assert_eq!(ask(calls(&json!([thought, call("a")]))), None);
    assert!(ask(calls(&json!([call("a")]))).is_some_and(|message| message.contains("Expected `thinking`")));
}

#[test]
fn each_field_is_checked() {
    let format = |schema: Value| json!({"format": {"type": "json_schema", "schema": schema}});
    let bounded = |keyword: &str, kind: &str| {
        let inner = json!({"type": kind, keyword: 2});
        format(json!({"type": "object", "properties": {"a": inner}, "additionalProperties": false}))
    };
    for (field, value) in [
        ("max_tokens", json!(0)),
        ("max_tokens", json!(null)),
        ("messages", json!([])),
        ("frequency_penalty", json!(0)),
        ("response_format", json!({"type": "json_object"})),
        ("tools", json!([{"name": "a", "input_schema": {"type": "array"}}])),
        ("tools", json!([{"name": "a", "parameters": {"type": "object"}}])),
        ("tools", json!([{"type": "function", "function": {"name": "a"}}])),
        ("tool_choice", json!({"type": "auto"})),
        ("system", json!([text("")])),
        ("thinking", json!({"type": "enabled", "budget_tokens": 1024})),
        ("output_config", json!({"effort": "minimal"})),
        ("output_config", format(json!({"type": "object"}))),
        ("output_config", bounded("maxItems", "array")),
        ("output_config", bounded("minItems", "array")),
        ("output_config", bounded("minLength", "string")),
        ("output_config", bounded("minimum", "number")),
        ("output_config", json!({"format": {"type": "json_object"}})),
    ] {
        assert!(with(NEW, field, value.clone()).is_some(), "{field} = {value} was taken");
    }
    assert!(complaint_at("/v1/messages", NEW, json!({"model": "m", "messages": []})).is_some());
}
