//! Clients that go away, and servers that do.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::{Gate, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CHAT, assistant, body, completed_in, user, with};
use crate::support::{good, said};

/// A request on a socket of its own.
async fn opened(app: &TestApp, headers: &str, body: &Value) -> TcpStream {
    let address = app.url.strip_prefix("http://").unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

async fn read_until(socket: &mut TcpStream, text: &str) {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        let mut buffer = [0; 4096];
        let count = socket.read(&mut buffer).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
}

/// The status of the only run, once nothing is under way.
async fn ended(app: &TestApp) -> String {
    app.service.idle().await;
    let database = app.database();
    database.query_row("SELECT status FROM runs", [], |row| row.get(0)).unwrap()
}

/// Waits until the run is told to stop.
async fn stopped(app: &TestApp) {
    while app.count("SELECT count(*) FROM runs WHERE stop IS NOT NULL OR status = 'cancelled'") == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_a_thread_a_client_that_leaves_takes_its_run_along() {
    for is_stream in [true, false] {
        let app = TestApp::start().await;
        let gate = Gate::new();
        app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let body = with(body(&[user("Hi")]), &json!({ "stream": is_stream }));
        let mut socket = opened(&app, "", &body).await;
        gate.reached().await;
        if is_stream {
            read_until(&mut socket, "Hel").await;
        }
        drop(socket);
        stopped(&app).await;
        gate.open();
        assert_eq!(ended(&app).await, "cancelled", "stream: {is_stream}");
    }
}

#[tokio::test]
async fn with_a_thread_or_a_key_the_run_goes_on() {
    for headers in ["x-thread-id: t\r\n", "idempotency-key: k\r\n"] {
        for is_stream in [true, false] {
            let app = TestApp::start().await;
            let gate = Gate::new();
            app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo."), Reply::says("Yes.")]);
            let body = with(body(&[user("Hi")]), &json!({ "stream": is_stream }));
            let mut socket = opened(&app, headers, &body).await;
            gate.reached().await;
            if is_stream {
                read_until(&mut socket, "Hel").await;
            }
            drop(socket);
            // One that comes later has been taken in after the end of the other.
            assert_eq!(app.get("/healthz").await.status, 200);
            gate.open();
            assert_eq!(ended(&app).await, "completed", "{headers:?} {is_stream}");
        }
    }
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Hello."), Reply::says("Yes.")]);
    let first = completed_in(&app, Some("t"), &body(&[user("Hi")])).await;
    let next = completed_in(&app, Some("t"), &body(&[user("Hi"), assistant("Hello."), user("There?")])).await;
    assert_eq!(next.thread, first.thread);
    assert_eq!(said(&app, &first.thread).await.len(), 4);
}

#[tokio::test]
async fn a_server_that_stops_ends_streams_with_an_error_and_the_run_goes_on_after_the_restart() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate), Reply::says("Hello.")]);
    let body = with(body(&[user("Hi")]), &json!({ "stream": true }));
    let response = app.request(Method::POST, CHAT).json(&body).send().await.unwrap();
    let run = response.headers()["x-run-id"].to_str().unwrap().to_owned();
    gate.reached().await;
    let (text, app) = tokio::join!(response.text(), app.restart());
    let text = text.unwrap();
    let last = text.trim_end().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["error"]["type"], &last["error"]["code"]),
        (&json!("server_error"), &json!("stream_cut"))
    );
    assert!(!text.contains("[DONE]"), "{text}");
    app.service.idle().await;
    assert_eq!(good(app.get(&format!("/v1/runs/{run}")).await)["status"], "completed");
}
