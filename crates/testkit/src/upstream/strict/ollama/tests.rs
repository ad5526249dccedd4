//! Requests for Ollama's chat that are fine, and requests that are wrong in one way each.

use serde_json::{Value, json};

use crate::upstream::complaint_at;

fn with(field: &str, value: Value) -> Option<String> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "u"}]});
    body[field] = value;
    complaint_at("/api/chat", &[], body)
}

fn calls(names: &[&str]) -> Value {
    let calls: Vec<Value> =
        names.iter().map(|name| json!({"function": {"name": name, "arguments": {}}})).collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

fn result(name: &str) -> Value {
    json!({"role": "tool", "tool_name": name, "content": "1"})
}

#[test]
fn good_requests_pass() {
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": ""},
            calls(&["add", "now"]),
            result("now"),
            result("add"),
            {"role": "assistant", "content": "a", "thinking": "t"},
        ],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
        "options": {"num_ctx": 8192, "temperature": 0.5, "repeat_penalty": 1.1, "stop": ["x"], "seed": 1},
        "format": {"type": "object"},
        "think": "low",
        "keep_alive": "5m",
        "stream": true,
    });
    assert_eq!(complaint_at("/api/chat", &[], body), None);
    assert_eq!(with("format", json!("json")), None);
    assert_eq!(with("think", json!(false)), None);
}

#[test]
fn each_field_is_checked() {
    let text = json!({"role": "assistant", "content": "", "tool_calls":
        [{"function": {"name": "add", "arguments": "{}"}}]});
    for (field, value) in [
        ("model", json!("")),
        ("temperature", json!(1)),
        ("max_tokens", json!(1)),
        ("think", json!("minimal")),
        ("format", json!("yaml")),
        ("options", json!({"max_tokens": 1})),
        ("options", json!({"num_ctx": 0.5})),
        ("options", json!({"temperature": null})),
        ("tools", json!([{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}])),
        ("messages", json!([])),
        ("messages", json!([{"role": "user", "content": [{"type": "text", "text": "u"}]}])),
        ("messages", json!([{"role": "developer", "content": "u"}])),
        ("messages", json!([calls(&["add"])])),
        ("messages", json!([calls(&["add"]), result("now")])),
        ("messages", json!([calls(&["add"]), {"role": "tool", "content": "1"}])),
        ("messages", json!([calls(&["add"]), {"role": "user", "content": "u"}, result("add")])),
        ("messages", json!([result("add")])),
        ("messages", json!([text, result("add")])),
    ] {
        assert!(with(field, value.clone()).is_some(), "{field} = {value} was taken");
    }
}
