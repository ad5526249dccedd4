//! Every problem below `/openai/` has OpenAI's form.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

use super::{CHAT, body, chunks, completed, error, joined, streamed, user, with};
use crate::support::{rows, token};

/// Wrong messages, each with the field that is named.
fn wrong_messages() -> Vec<(Value, &'static str)> {
    let part = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
    let said = |message: Value| json!({ "messages": [message] });
    vec![
        (json!({ "model": 5 }), "model"),
        (json!({ "messages": null }), "messages"),
        (json!({ "messages": "Hi" }), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": [5] }), "messages[0]"),
        (said(json!({ "content": "Hi" })), "messages[0].role"),
        (said(json!({ "role": 5 })), "messages[0].role"),
        (said(json!({ "role": "robot", "content": "Hi" })), "messages[0].role"),
        (said(json!({ "role": "user", "content": 5 })), "messages[0].content"),
        (said(json!({ "role": "user", "content": {} })), "messages[0].content"),
        (said(json!({ "role": "user", "content": " " })), "messages"),
        (said(json!({ "role": "user" })), "messages"),
        (said(json!({ "role": "assistant", "content": "Hi" })), "messages"),
        (said(json!({ "role": "assistant", "tool_calls": {} })), "messages[0].tool_calls"),
        (said(json!({ "role": "assistant", "tool_calls": [{ "id": 1 }] })), "messages[0].tool_calls[0].id"),
        (said(json!({ "role": "tool", "content": "x" })), "messages[0].tool_call_id"),
        (said(json!({ "role": "tool", "content": "x", "tool_call_id": "y" })), "messages[0]"),
        (said(json!({ "role": "function", "content": "x" })), "messages[0].name"),
        (part(json!({})), "messages[0].content[0].type"),
        (part(json!({ "type": "text", "text": 5 })), "messages[0].content[0].text"),
        (part(json!({ "type": "input_audio", "input_audio": {} })), "messages[0].content[0].type"),
        (
            part(json!({ "type": "image_url", "image_url": { "url": "https://a.example/a.png" } })),
            "messages[0].content[0].image_url.url",
        ),
        (
            part(json!({ "type": "image_url", "image_url": "data:image/png;base64,AA==" })),
            "messages[0].content[0].image_url",
        ),
        (part(json!({ "type": "file", "file": { "file_id": "file-1" } })), "messages[0].content[0].file"),
    ]
}

/// Bodies with options that are refused, and the field that each refusal names.
fn wrong_options() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "n": 2 }), "n"),
        (json!({ "n": "x" }), "n"),
        (json!({ "stream": "yes" }), "stream"),
        (json!({ "stream_options": { "include_usage": 1 } }), "stream_options.include_usage"),
        (json!({ "temperature": 9 }), "temperature"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "top_p": -1 }), "top_p"),
        (json!({ "max_tokens": -1 }), "max_tokens"),
        (json!({ "max_completion_tokens": 0 }), "max_completion_tokens"),
        (json!({ "reasoning_effort": "huge" }), "reasoning_effort"),
        (json!({ "response_format": { "type": "xml" } }), "response_format.type"),
        (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema"),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": 5 } } }),
            "response_format.json_schema",
        ),
        (json!({ "tools": {} }), "tools"),
        (json!({ "tools": [{ "type": "custom", "custom": { "name": "x" } }] }), "tools[0].type"),
        (json!({ "tools": [{ "type": "function", "function": { "name": "echo" } }] }), "tools"),
        (json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }), "tools"),
        (json!({ "metadata": { "thread_id": 5 } }), "metadata.thread_id"),
        (json!({ "metadata": "x" }), "metadata"),
    ]
}

#[tokio::test]
async fn whatever_is_wrong_with_a_request_is_named() {
    let app = TestApp::start().await;
    for (fields, param) in wrong_messages().into_iter().chain(wrong_options()) {
        let answer = app.post(CHAT, &with(body(&[user("Hi")]), &fields)).await;
        let refused = error(answer, 400, "invalid_request");
        let named = (&refused["param"], &refused["type"]);
        assert_eq!(named, (&json!(param), &json!("invalid_request_error")), "{fields} {refused}");
    }
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "a refused request changed something");
}

#[tokio::test]
async fn bodies_paths_and_methods_are_refused_in_the_same_form() {
    let app = TestApp::start().await;
    let raw = async |text: String| {
        let request = app.request(Method::POST, CHAT).header("content-type", "application/json");
        app.send(request.body(text)).await
    };
    error(raw("{".into()).await, 400, "invalid_json");
    error(raw(String::new()).await, 400, "invalid_json");
    error(raw("[]".into()).await, 400, "invalid_request");
    error(raw("null".into()).await, 400, "invalid_request");
    error(raw(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000))).await, 400, "invalid_json");
    error(raw(body(&[user(&"x".repeat(10 * 1024 * 1024))]).to_string()).await, 413, "too_large");
    error(raw(body(&[user(&"x".repeat(17 * 1024 * 1024))]).to_string()).await, 413, "body_too_large");
    let plain = app.request(Method::POST, CHAT).header("content-type", "text/plain").body("Hi");
    error(app.send(plain).await, 400, "unsupported_media_type");
    let thousand: Vec<Value> = (0..9_000).map(|_| user("x")).collect();
    error(app.post(CHAT, &body(&thousand)).await, 400, "invalid_request");
    error(app.send(app.request(Method::DELETE, CHAT)).await, 405, "method_not_allowed");
    error(app.get("/openai/v1/files").await, 404, "not_found");
    error(app.get("/openai/").await, 404, "not_found");
    error(app.post("/openai/v1/completions", &json!({})).await, 404, "not_found");
    let unknown =
        error(app.post(CHAT, &json!({ "model": "gpt-5", "messages": [] })).await, 404, "model_not_found");
    assert!(unknown["message"].as_str().unwrap().contains("test"), "{unknown}");
    let keyed = app.request(Method::POST, CHAT).header("idempotency-key", "a b").json(&body(&[user("Hi")]));
    error(app.send(keyed).await, 400, "invalid_idempotency_key");
    let foreign =
        app.request(Method::POST, CHAT).header("origin", "https://evil.example").json(&body(&[user("Hi")]));
    let refused = error(app.send(foreign).await, 403, "origin_not_allowed");
    assert_eq!(refused["type"], "permission_error");
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
    let token = token(&app, "ann").await;
    let wrong = app.request(Method::POST, CHAT).bearer_auth("rondo_wrong").json(&body(&[user("Hi")]));
    let refused = error(app.send(wrong).await, 401, "invalid_api_key");
    assert_eq!(refused["type"], "authentication_error");
    error(app.post(CHAT, &json!({})).await, 401, "invalid_api_key");
    error(app.get("/openai/v1/models").await, 401, "invalid_api_key");
    app.upstream.script([Reply::says("Hi.")]);
    let right = app.request(Method::POST, CHAT).bearer_auth(token).json(&body(&[user("Hi")]));
    assert_eq!(app.send(right).await.status, 200);
}

#[tokio::test]
async fn a_model_that_the_app_does_not_allow_is_not_found() {
    let app = TestApp::with(Setup::app("models = [\"other\"]")).await;
    let refused = app.post(CHAT, &json!({ "model": "test/gpt-9", "messages": [user("Hi")] })).await;
    error(refused, 404, "model_not_found");
}

/// The status, the headers that steer client libraries, and the error.
async fn failed(app: &TestApp) -> (u16, Option<String>, Option<String>, Value) {
    let response = app.request(Method::POST, CHAT).json(&body(&[user("Hi")])).send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, retry, after) =
        (response.status().as_u16(), header("x-should-retry"), header("retry-after"));
    let body: Value = response.json().await.unwrap();
    (status, retry, after, body["error"].clone())
}

#[tokio::test]
async fn a_provider_that_fails_is_an_error_of_the_server() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "no key")]);
    let (status, retry, _, error) = failed(&app).await;
    assert_eq!((status, retry.as_deref()), (502, Some("false")), "{error}");
    assert_eq!((&error["type"], &error["code"]), (&json!("server_error"), &json!("provider_auth")));
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "no key")]);
    let text = streamed(&app, &body(&[user("Hi")])).await;
    let last: Value = serde_json::from_str(text.trim_end().rsplit("data: ").next().unwrap()).unwrap();
    assert_eq!((&last["error"]["code"], &last["error"]["param"]), (&json!("provider_auth"), &Value::Null));
    assert!(!text.contains("[DONE]"));
}

#[tokio::test]
async fn limits_say_when_to_come_back() {
    let app = TestApp::with(Setup::app("[limits]\nruns_per_minute = 1\n")).await;
    app.upstream.script([Reply::says("Hi.")]);
    completed(&app, &body(&[user("Hi")])).await;
    let (status, retry, after, error) = failed(&app).await;
    assert_eq!((status, retry, &error["type"]), (429, None, &json!("rate_limit_error")), "{error}");
    assert!(after.unwrap().parse::<u32>().unwrap() <= 60);
    let app = TestApp::with(Setup::app("[limits]\nruns_per_day = 1\n")).await;
    app.upstream.script([Reply::says("Hi.")]);
    completed(&app, &body(&[user("Hi")])).await;
    let (status, retry, _, error) = failed(&app).await;
    assert_eq!((status, retry.as_deref()), (429, Some("false")), "{error}");
}

/// A stream cannot remove text that it has sent; an answer that is not streamed leaves it out.
#[tokio::test]
async fn an_answer_that_starts_again_ends_a_stream_and_not_a_whole_answer() {
    let app = TestApp::start().await;
    let broken = || Reply::stream().text("The ca").without_end();
    app.upstream.script([broken(), Reply::says("The city.")]);
    assert_eq!(completed(&app, &body(&[user("Hi")])).await.text(), "The city.");
    app.upstream.script([broken(), Reply::says("The city.")]);
    let text = streamed(&app, &body(&[user("Hi")])).await;
    // A reader that comes late has seen no text that is void.
    if text.contains("[DONE]") {
        assert_eq!(joined(&chunks(&text), "content"), "The city.");
    } else {
        let last: Value = serde_json::from_str(text.trim_end().rsplit("data: ").next().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "step_reset");
    }
}

#[tokio::test]
async fn a_tool_of_the_server_is_never_a_call_of_the_client() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"hi","n":3}"#)),
        Reply::says("It says hi."),
    ]);
    let text = streamed(&app, &body(&[user("Hi")])).await;
    assert!(!text.contains("tool_calls") && !text.contains("echo"), "{text}");
}
