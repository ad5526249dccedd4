//! The scripted server of tools itself, spoken to over a bare socket.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::upstream::Gate;

/// The headers of every request of a client, each on a line.
const HEADERS: &str = "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n";
const AGREED: &str = "mcp-session-id: session-1\r\nmcp-protocol-version: 2025-11-25\r\n";

async fn exchange(server: &ScriptedMcpServer, verb: &str, headers: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let head = format!("{verb} /mcp HTTP/1.1\r\n{headers}content-length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn post(server: &ScriptedMcpServer, headers: &str, method: &str, params: Value) -> String {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    exchange(server, "POST", &format!("{HEADERS}{headers}"), &body.to_string()).await
}

async fn call(server: &ScriptedMcpServer, name: &str) -> String {
    post(server, AGREED, "tools/call", json!({ "name": name, "arguments": { "a": 1 } })).await
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

async fn begun() -> ScriptedMcpServer {
    let server = ScriptedMcpServer::start([tool("add", "Adds.")]).await;
    let who = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let answer = post(&server, "", "initialize", who).await;
    assert!(answer.contains("\r\nmcp-session-id: session-1\r\n"), "{answer}");
    assert_eq!(body(&answer)["result"]["protocolVersion"], VERSION);
    server
}

#[tokio::test]
async fn it_begins_offers_answers_and_ends() {
    let server = begun().await;
    let listed = body(&post(&server, AGREED, "tools/list", json!({})).await);
    assert_eq!(listed["result"]["tools"], json!([tool("add", "Adds.")]));
    assert_eq!(body(&call(&server, "add").await)["result"]["content"][0]["text"], r#"{"a":1}"#);
    assert_eq!(body(&call(&server, "sub").await)["error"]["code"], INVALID_PARAMS);
    server.answer("add", McpReply::structured(&json!(3)));
    server.script("tools/call", [McpReply::tool_error("no"), McpReply::rpc_error(-32603, "oh")]);
    assert_eq!(body(&call(&server, "add").await)["result"]["isError"], true);
    assert_eq!(body(&call(&server, "add").await)["error"]["code"], -32603);
    assert_eq!(body(&call(&server, "add").await)["result"]["structuredContent"], 3);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let noted = exchange(&server, "POST", &format!("{HEADERS}{AGREED}"), note).await;
    assert!(noted.starts_with("HTTP/1.1 202 "), "{noted}");
    assert!(exchange(&server, "GET", AGREED, "").await.starts_with("HTTP/1.1 405 "));
    assert!(exchange(&server, "DELETE", AGREED, "").await.starts_with("HTTP/1.1 204 "));
    assert!(call(&server, "add").await.starts_with("HTTP/1.1 404 "));
    assert_eq!(server.requests("tools/call").len(), 6);
    server.left_alone().await;
    assert_eq!(server.connections(), server.arrivals().len());
}

#[tokio::test]
async fn a_newer_client_is_told_that_it_is_of_the_older_protocol() {
    let server = begun().await;
    let answer = post(&server, "mcp-protocol-version: 2026-07-28\r\n", "server/discover", json!({})).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(body(&answer)["error"]["code"], METHOD_NOT_FOUND);
}

#[tokio::test]
async fn what_breaks_the_protocol_is_refused_and_remembered() {
    let server = begun().await;
    let good = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let cases = [
        (AGREED.to_owned(), good, "its content type is not JSON"),
        (format!("{AGREED}content-type: application/json\r\n"), good, "it does not accept JSON"),
        (HEADERS.to_owned(), good, "it names no session"),
        (format!("{HEADERS}mcp-session-id: session-1\r\n"), good, "it does not name the version agreed on"),
        (format!("{HEADERS}{AGREED}"), r#"{"id":1,"method":"x"}"#, "it is not JSON-RPC 2.0"),
        (format!("{HEADERS}{AGREED}"), r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "its id is no string"),
    ];
    for (headers, json, why) in cases {
        let answer = exchange(&server, "POST", &headers, json).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        let violations = server.violations();
        assert!(violations.len() == 1 && violations[0].contains(why), "{violations:?} for {why}");
    }
}

#[tokio::test]
#[should_panic(expected = "requests that break its protocol")]
async fn a_violation_that_is_not_taken_fails_the_test() {
    let server = begun().await;
    post(&server, "", "tools/list", json!({})).await;
}

#[tokio::test]
async fn faults_happen_as_they_are_scripted() {
    let server = begun().await;
    server.script(
        "tools/call",
        [
            McpReply::garbage(),
            McpReply::status(503),
            McpReply::breaks_off(),
            McpReply::text("x").after_other_id().twice(),
            McpReply::text("x").after_progress(),
        ],
    );
    assert!(call(&server, "add").await.ends_with("\"id\""));
    assert!(call(&server, "add").await.starts_with("HTTP/1.1 503 "));
    assert_eq!(call(&server, "add").await, "");
    let ids = |answer: &str| {
        let events = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        events.map(|event| serde_json::from_str::<Value>(event).unwrap()["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&call(&server, "add").await), [json!("nobody-asked"), json!(7), json!(7)]);
    assert_eq!(ids(&call(&server, "add").await), [Value::Null, json!(7)]);
}

#[tokio::test]
async fn an_answer_waits_for_its_gate_and_an_endless_one_for_its_reader() {
    let server = begun().await;
    let gate = Gate::new();
    server.script("tools/call", [McpReply::usual().wait(&gate), McpReply::endless()]);
    let params = json!({ "name": "add" });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!("POST /mcp HTTP/1.1\r\n{HEADERS}{AGREED}content-length: {}\r\n\r\n", asked.len());
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(format!("{head}{asked}").as_bytes()).await.unwrap();
    gate.reached().await;
    gate.open();
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    socket.write_all(format!("{head}{asked}").as_bytes()).await.unwrap();
    let mut some = vec![0; 4 * 1024 * 1024];
    socket.read_exact(&mut some).await.unwrap();
    drop(socket);
    server.left_alone().await;
    assert!(server.written_bytes() < reply::ENDLESS_BYTES, "{}", server.written_bytes());
}
