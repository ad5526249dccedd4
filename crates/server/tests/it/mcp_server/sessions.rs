//! Sessions of the older protocol: whose they are, and how many there can be.

use axum::http::Method;
use protocol::Right;
use serde_json::json;
use service::PageQuery;
use testkit::TestApp;

use super::support::key;
use super::wire::{hello, send};

/// Opens a session as a client that can ask its user.
async fn open(app: &TestApp, token: &str) -> String {
    let capabilities = json!({ "elicitation": {} });
    let bearer = format!("Bearer {token}");
    let reply =
        send(app, Method::POST, &[("authorization", &bearer)], &hello("2025-11-25", &capabilities)).await;
    assert_eq!(reply.body["result"]["protocolVersion"], "2025-11-25");
    reply.session.expect("a session")
}

/// The status of a list of tools in a session.
async fn list(app: &TestApp, token: &str, session: &str) -> u16 {
    let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    let reply = send(app, Method::POST, &headers(token, session), &body).await;
    if reply.status == 200 {
        assert_eq!(reply.body["result"]["tools"].as_array().unwrap().len(), 8);
    }
    reply.status
}

fn headers<'a>(token: &str, session: &'a str) -> [(&'a str, &'a str); 3] {
    let bearer: &'static str = Box::leak(format!("Bearer {token}").into_boxed_str());
    [("authorization", bearer), ("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")]
}

#[tokio::test]
async fn a_session_belongs_to_the_key_that_opened_it() {
    let app = TestApp::start().await;
    let (ann, bob) = (key(&app, "ann", Right::Run).await, key(&app, "bob", Right::Run).await);
    let second = key(&app, "ann", Right::Run).await;
    let session = open(&app, &ann).await;
    assert_eq!(list(&app, &ann, &session).await, 200);
    for stranger in [&bob, &second] {
        assert_eq!(list(&app, stranger, &session).await, 404);
        let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": { "action": "accept", "content": { "approve": true } } });
        for (method, body) in [(Method::GET, String::new()), (Method::POST, answer.to_string())] {
            assert_eq!(send(&app, method, &headers(stranger, &session), &body).await.status, 404);
        }
        // To whom it does not belong, it is not there, and so it is gone already.
        send(&app, Method::DELETE, &headers(stranger, &session), "").await;
    }
    assert_eq!(list(&app, &ann, &session).await, 200);
    assert_eq!(send(&app, Method::DELETE, &headers(&ann, &session), "").await.status, 202);
    assert_eq!(list(&app, &ann, &session).await, 404);
    assert_eq!(list(&app, &ann, "none").await, 404);
}

#[tokio::test]
async fn one_session_too_many_ends_the_least_used_one() {
    let app = TestApp::start().await;
    let (ann, bob) = (key(&app, "ann", Right::Run).await, key(&app, "bob", Right::Run).await);
    let others = open(&app, &bob).await;
    let mut sessions = Vec::new();
    for _ in 0..16 {
        sessions.push(open(&app, &ann).await);
    }
    assert_eq!(list(&app, &ann, &sessions[0]).await, 200);
    let newest = open(&app, &ann).await;
    assert_eq!(list(&app, &ann, &sessions[1]).await, 404);
    for session in [&sessions[0], &sessions[2], &newest] {
        assert_eq!(list(&app, &ann, session).await, 200);
    }
    assert_eq!(list(&app, &bob, &others).await, 200);
}

#[tokio::test]
async fn a_session_does_not_outlive_the_server_and_its_stream_ends_with_the_key() {
    let app = TestApp::start().await;
    let ann = key(&app, "ann", Right::Run).await;
    let session = open(&app, &ann).await;
    let [bearer, id, version] = headers(&ann, &session);
    let request = app.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let stream = request.header(bearer.0, bearer.1).header(id.0, id.1).header(version.0, version.1);
    let stream = stream.send().await.unwrap();
    assert_eq!(stream.status().as_u16(), 200);
    let keys = app.service.keys(PageQuery::default(), None).await.unwrap().data;
    app.service.revoke_key(keys[0].id, None).await.unwrap();
    // It ends, or the test waits for ever.
    stream.bytes().await.unwrap();
    assert_eq!(list(&app, &ann, &session).await, 401);
    app.restart().await;
}
