//! Requests that are fine, and requests that are wrong in one way each.

use serde_json::{Value, json};

use super::{Received, check};

fn request(body: Value) -> Received {
    Received {
        path: "/v1/chat/completions".into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body,
    }
}

fn complaint(body: Value) -> Option<String> {
    check(&request(body), None).err().map(|complaint| complaint.message)
}

fn with(field: &str, value: Value) -> Option<String> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "u"}]});
    body[field] = value;
    complaint(body)
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}})
}

fn conversation(messages: &Value) -> Option<String> {
    complaint(json!({"model": "m", "messages": messages}))
}

#[test]
fn good_requests_pass() {
    assert_eq!(conversation(&json!([{"role": "user", "content": ""}])), None);
    let whole = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "assistant", "content": "x", "tool_calls": [call("a")]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "system", "content": "late"},
        ],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "temperature": 2,
        "top_p": 1,
        "max_tokens": 1,
    });
    assert_eq!(complaint(whole), None);
}

#[test]
fn calls_and_results_must_pair() {
    let asks = json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]});
    let user = json!({"role": "user", "content": "u"});
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "1"});
    let unanswered = "An assistant message with 'tool_calls' must be followed";
    let orphan = "Invalid parameter: messages with role 'tool' must be a response";
    for (messages, beginning) in [
        (json!([asks]), unanswered),
        (json!([asks, tool("a")]), unanswered),
        (json!([asks, tool("a"), user, tool("b")]), unanswered),
        (json!([asks, tool("a"), tool("a"), tool("b")]), "Duplicate value for 'tool_call_id' of 'a'"),
        (json!([asks, tool("a"), tool("b"), tool("c")]), orphan),
        (json!([asks, tool("a"), tool("b"), user, tool("a")]), orphan),
        (json!([user, tool("a")]), orphan),
        (json!([{"role": "tool", "content": "1"}]), "Missing required parameter: 'messages[0].tool_call_id'"),
        (json!([{"role": "assistant", "tool_calls": [call("a"), call("a")]}]), "Duplicate tool call id 'a'"),
        (json!([{"role": "assistant", "tool_calls": [call("")]}]), "Invalid 'messages[0].tool_calls[0].id'"),
        (json!([{"role": "assistant", "tool_calls": []}]), "Invalid 'messages[0].tool_calls': empty"),
    ] {
        let message = conversation(&messages).unwrap_or_default();
        assert!(message.starts_with(beginning), "{messages}: {message:?}");
    }
}

#[test]
fn each_field_is_checked() {
    let tool = |name: &str| json!([{"type": "function", "function": {"name": name}}]);
    for (field, value) in [
        ("model", json!("")),
        ("messages", json!([])),
        ("messages", json!([{"role": "user", "content": null}])),
        ("messages", json!([{"role": "robot", "content": "x"}])),
        ("messages", json!([{"content": "x"}])),
        ("messages", json!([{"role": "assistant", "content": null}])),
        ("tools", json!([])),
        ("tools", tool("")),
        ("tools", tool("a b")),
        ("tools", tool(&"x".repeat(65))),
        ("tools", json!([{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}])),
        ("tool_choice", json!("auto")),
        ("temperature", json!(2.1)),
        ("temperature", json!(null)),
        ("top_p", json!(-0.1)),
        ("max_tokens", json!(0)),
        ("stream", json!("yes")),
        ("stream_options", json!({"include_usage": true})),
        ("maxTokens", json!(1)),
        ("frequency_penalty", json!(2.1)),
        ("presence_penalty", json!(-2.1)),
        ("reasoning_effort", json!("extreme")),
        ("response_format", json!({"type": "yaml"})),
        ("response_format", json!({"type": "json_object"})),
        ("response_format", json!({"type": "json_schema"})),
    ] {
        assert!(with(field, value.clone()).is_some(), "{field} = {value} was taken");
    }
    assert_eq!(with("tools", tool(&"x".repeat(64))), None);
    assert!(complaint(json!([])).is_some());
}

fn schema(schema: &Value) -> Option<String> {
    let format = json!({"name": "answer", "strict": true, "schema": schema});
    with("response_format", json!({"type": "json_schema", "json_schema": format}))
}

#[test]
fn a_strict_schema_closes_every_object_and_requires_every_property() {
    let inner = json!({"type": "object", "properties": {"b": {"type": ["string", "null"], "enum": ["x", null]}},
        "required": ["b"], "additionalProperties": false});
    let good = json!({"type": "object", "properties": {"a": {"type": "array", "items": inner, "maxItems": 3}},
        "required": ["a"], "additionalProperties": false});
    assert_eq!(schema(&good), None);
    for (pointer, key, value) in [
        ("", "additionalProperties", json!(true)),
        ("", "type", json!("array")),
        ("", "required", json!([])),
        ("", "oneOf", json!([{"type": "string"}])),
        ("/properties/a/items", "additionalProperties", json!(null)),
        ("/properties/a/items", "required", json!(["b", "c"])),
        ("/properties/a/items/properties/b", "enum", json!([])),
        ("/properties/a/items/properties/b", "default", json!("x")),
        ("/properties", "c", json!({})),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(pointer).unwrap()[key] = value.clone();
        assert!(schema(&bad).is_some(), "{pointer} {key} = {value} was taken");
    }
    let deep = |levels: usize| {
        (0..levels).fold(json!({"type": "string"}), |inner, _| {
            json!({"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": false})
        })
    };
    assert_eq!(schema(&deep(9)), None);
    assert!(schema(&deep(10)).is_some());
    let named = |name: &str| {
        let format = json!({"name": name, "strict": false, "schema": {}});
        with("response_format", json!({"type": "json_schema", "json_schema": format}))
    };
    assert_eq!(named("an-answer_1"), None);
    assert!(named("an answer").is_some());
}

#[test]
fn embeddings_are_asked_for_with_texts() {
    let ask = |body: Value| {
        let request = Received { path: "/v1/embeddings".into(), ..request(body) };
        check(&request, None).err().map(|complaint| complaint.message)
    };
    assert_eq!(ask(json!({"model": "m", "input": "x"})), None);
    assert_eq!(ask(json!({"model": "m", "input": vec!["x"; 2048], "encoding_format": "float"})), None);
    for input in [json!(""), json!([]), json!(["x", ""]), json!(null), json!(vec!["x"; 2049])] {
        assert!(ask(json!({"model": "m", "input": input})).is_some(), "{input} was taken");
    }
    assert!(ask(json!({"model": "m"})).is_some());
    assert!(ask(json!({"model": "m", "input": "x", "size": 3})).is_some());
}

#[test]
fn the_key_and_the_path_are_checked() {
    let good = request(json!({"model": "m", "messages": [{"role": "user", "content": "u"}]}));
    assert_eq!(check(&good, Some("k")).err().map(|complaint| complaint.status), Some(401));
    let mut keyed = good.clone();
    keyed.headers.push(("authorization".into(), "Bearer k".into()));
    assert!(check(&keyed, Some("k")).is_ok());
    keyed.headers.push(("x-api-key".into(), "other".into()));
    assert_eq!(check(&keyed, Some("other")).err().map(|complaint| complaint.status), Some(401));
    keyed.path = "/v1/messages".into();
    assert_eq!(check(&keyed, Some("other")).err().map(|complaint| complaint.status), Some(400));
    let elsewhere = Received { path: "/v1/completions".into(), ..good };
    assert_eq!(check(&elsewhere, None).err().map(|complaint| complaint.status), Some(404));
}
