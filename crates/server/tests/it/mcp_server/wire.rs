//! The wire of the MCP server: single requests, and what is refused in which words.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;

use crate::support::{refused, repeating, rows};

pub(super) const BOTH: &str = "application/json, text/event-stream";

/// A response, with its session if it began one.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) challenge: Option<String>,
    /// The JSON of the body, or of the last event in it.
    pub(super) body: Value,
}

pub(super) async fn send(app: &TestApp, method: Method, headers: &[(&str, &str)], body: &str) -> Reply {
    send_to(app, (method, "/mcp"), headers, body).await
}

pub(super) async fn send_to(
    app: &TestApp,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request =
        app.request(method, path).header("accept", BOTH).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.body(body.to_owned()).send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (session, challenge) = (header("mcp-session-id"), header("www-authenticate"));
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let json = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text);
    Reply { status, session, challenge, body: serde_json::from_str(json.trim()).unwrap_or(Value::Null) }
}

/// The first message of the older protocol.
pub(super) fn hello(version: &str, capabilities: &Value) -> String {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

/// A request of the newer protocol.
fn new_request(method: &str, params: Value) -> String {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn every_version_of_the_older_protocol_is_spoken_without_a_session() {
    let app = TestApp::start().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let reply = send(&app, Method::POST, &[], &hello(version, &json!({}))).await;
        assert_eq!((reply.status, reply.session), (200, None), "{version}");
        let result = &reply.body["result"];
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["capabilities"], json!({ "resources": {}, "tools": {} }));
        let headers = [("mcp-protocol-version", version)];
        let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }).to_string();
        let reply = send(&app, Method::POST, &headers, &ping).await;
        assert_eq!((reply.status, reply.body), (200, json!({ "jsonrpc": "2.0", "id": "p", "result": {} })));
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        assert_eq!(send(&app, Method::POST, &headers, &ready).await.status, 202);
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
        let tools = send(&app, Method::POST, &headers, &list).await.body["result"].clone();
        assert_eq!(tools["tools"].as_array().unwrap().len(), 8, "{version}");
        assert_eq!(tools.get("resultType"), None);
    }
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        assert_eq!(send(&app, method, &[], "").await.status, 405);
    }
}

#[tokio::test]
async fn a_request_of_the_newer_protocol_stands_alone() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let headers = |method: &'static str| [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    let reply = send(&app, Method::POST, &headers("tools/list"), &new_request("tools/list", json!({}))).await;
    let result = &reply.body["result"];
    assert_eq!((reply.status, &result["resultType"]), (200, &json!("complete")));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    let ask = json!({ "name": "ask", "arguments": { "message": "Hi" } });
    let named = [headers("tools/call").as_slice(), &[("mcp-name", "ask")]].concat();
    let reply = send(&app, Method::POST, &named, &new_request("tools/call", ask.clone())).await;
    assert_eq!((reply.status, reply.session), (200, None));
    assert_eq!(reply.body["result"]["structuredContent"]["status"], "completed");

    let wrong = [headers("tools/call").as_slice(), &[("mcp-name", "start")]].concat();
    let reply = send(&app, Method::POST, &wrong, &new_request("tools/call", ask)).await;
    assert_eq!((reply.status, &reply.body["error"]["code"]), (400, &json!(-32020)));
    for method in ["no/such", "initialize", "ping", "prompts/list"] {
        let reply = send(&app, Method::POST, &headers(method), &new_request(method, json!({}))).await;
        assert_eq!((reply.status, &reply.body["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
    assert_eq!(app.count("SELECT count(*) FROM runs"), 1);
}

#[tokio::test]
async fn what_is_no_message_is_refused_in_the_words_of_json_rpc() {
    let app = TestApp::start().await;
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":{}1{}}}",
        "[".repeat(300),
        "]".repeat(300)
    );
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        (deep.as_str(), -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
    ] {
        let reply = send(&app, Method::POST, &[], body).await;
        assert_eq!((reply.status, &reply.body["error"]["code"]), (400, &json!(code)), "{body:.40}");
        assert_eq!(reply.body["id"], Value::Null);
    }
    for (method, params, code) in [
        ("tools/call", json!({ "name": "none", "arguments": {} }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("tools/call", json!({ "name": "get", "arguments": [] }), -32602),
        ("resources/read", json!({ "uri": 5 }), -32602),
        ("resources/read", json!({ "uri": "rondo://test/files/none.md" }), -32002),
        ("tools/list", json!({ "cursor": "x" }), -32602),
        ("initialize", json!({ "capabilities": {} }), -32602),
        ("prompts/list", json!({}), -32601),
        ("no/such", json!({}), -32601),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params }).to_string();
        let reply = send(&app, Method::POST, &[], &body).await;
        assert_eq!((reply.status, &reply.body["error"]["code"]), (200, &json!(code)), "{body}");
    }
    let unfit = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": { "name": "start", "arguments": { "message": "Hi", "user": "bob" } } });
    let reply = send(&app, Method::POST, &[], &unfit.to_string()).await;
    assert_eq!(reply.body["result"]["isError"], true);
    assert!(reply.body["result"]["content"][0]["text"].as_str().unwrap().contains("unknown field `user`"));
    let large = format!("\"{}\"", "a".repeat(3 * 1024 * 1024));
    assert_eq!(send(&app, Method::POST, &[], &large).await.status, 413);
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn pages_of_other_origins_and_other_hosts_are_refused() {
    let app = TestApp::start().await;
    let body = hello("2025-11-25", &json!({}));
    for method in [Method::POST, Method::GET, Method::DELETE] {
        for headers in [[("origin", "https://evil.example")], [("host", "evil.example")]] {
            let answer = app.request(method.clone(), "/mcp").header("accept", BOTH);
            let answer = answer.header("content-type", "application/json").header(headers[0].0, headers[0].1);
            let answer = app.send(answer.body(body.clone())).await;
            let code = if headers[0].0 == "host" { "host_not_allowed" } else { "origin_not_allowed" };
            refused(answer, 403, code);
        }
    }
    let own = app.url.clone();
    assert_eq!(send(&app, Method::POST, &[("origin", &own)], &body).await.status, 200);
}
