//! Requests for Responses that are fine, and requests that are wrong in one way each.

use serde_json::{Value, json};

use crate::upstream::complaint_at;

fn with(field: &str, value: Value) -> Option<String> {
    let mut body = json!({"model": "m", "input": "hello"});
    body[field] = value;
    complaint_at("/v1/responses", &[], body)
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "add", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "1"})
}

fn thought() -> Value {
    let summary = json!([{"type": "summary_text", "text": "Hm."}]);
    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
}

#[test]
fn good_requests_pass() {
    let user = json!({"role": "user", "content": [{"type": "input_text", "text": "u"}]});
    let said =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
    let body = json!({
        "model": "m",
        "instructions": "Be brief.",
        "input": [user, thought(), call("a"), call("b"), output("b"), output("a"), thought(), said, user],
        "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": false}],
        "tool_choice": "auto",
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16,
        "store": false,
        "stream": true,
        "stream_options": {"include_obfuscation": false},
        "temperature": 2,
    });
    assert_eq!(complaint_at("/v1/responses", &[], body), None);
    assert_eq!(with("input", json!("hello")), None);
}

#[test]
fn calls_and_outputs_must_pair() {
    let user = json!({"role": "user", "content": "u"});
    for (items, beginning) in [
        (json!([user, call("a")]), "No tool output found for function call a."),
        (json!([call("a"), call("b"), output("a")]), "No tool output found for function call b."),
        (json!([output("a")]), "No tool call found for function call output with call_id a."),
        (json!([output("a"), call("a")]), "No tool call found for function call output with call_id a."),
        (json!([call("a"), output("a"), output("a")]), "Duplicate output for function call a."),
        (json!([call("a"), call("a"), output("a")]), "Duplicate function call id 'a'"),
        (json!([call(""), output("")]), "Invalid 'input[0].call_id'"),
        (json!([thought(), user]), "Item 'rs_1' of type 'reasoning' was provided without"),
        (json!([user, thought()]), "Item 'rs_1' of type 'reasoning' was provided without"),
    ] {
        let message = with("input", items.clone()).unwrap_or_default();
        assert!(message.starts_with(beginning), "{items}: {message:?}");
    }
}

#[test]
fn each_field_is_checked() {
    let nested = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
    let open = json!({"type": "object", "properties": {}});
    let spoken = json!([{"role": "user", "content": [{"type": "output_text", "text": "u"}]}]);
    for (field, value) in [
        ("model", json!("")),
        ("messages", json!([{"role": "user", "content": "u"}])),
        ("max_tokens", json!(100)),
        ("frequency_penalty", json!(0)),
        ("max_output_tokens", json!(15)),
        ("response_format", json!({"type": "json_object"})),
        ("text", json!({"format": {"type": "json_object"}})),
        ("text", json!({"format": {"type": "json_schema", "json_schema": {"name": "a", "schema": open}}})),
        ("text", json!({"format": {"type": "json_schema", "name": "a", "strict": true, "schema": open}})),
        ("reasoning", json!({"effort": "extreme"})),
        ("include", json!(["everything"])),
        ("tools", nested),
        ("tools", json!([{"type": "function", "name": "a b"}])),
        ("stream_options", json!({"include_obfuscation": false})),
        ("input", json!([])),
        ("input", json!([{"role": "user", "content": []}])),
        ("input", json!([{"role": "tool", "content": "x"}])),
        ("input", json!([{"type": "function_result"}])),
        ("input", spoken),
        ("input", json!(null)),
    ] {
        assert!(with(field, value.clone()).is_some(), "{field} = {value} was taken");
    }
}
