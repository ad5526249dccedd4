//! Requests that are wrong before their body counts: types, places, methods, origins, headers and sizes (X1, L1, 3.4).

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{RUNS, THREADS, good, refused, rows, say};

const KIB: usize = 1024;
const CHAT: &str = "/test/stream";

#[tokio::test]
async fn a_content_type_that_is_not_json_is_refused() {
    let app = TestApp::start().await;
    let before = rows(&app);
    for content_type in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
    {
        for path in [RUNS, CHAT, THREADS] {
            let request = app.request(Method::POST, path).header("content-type", content_type);
            let answer = app.send(request.body(r#"{"message": "hi"}"#)).await;
            let detail = refused(answer, 415, "unsupported_media_type");
            assert_eq!(detail, "send the body as content-type: application/json", "{path} {content_type:?}");
        }
    }
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn a_list_paged_badly_is_refused() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Yes.")]);
    let names = say(&app, "Hi").await;
    let before = rows(&app);
    let mut told = String::new();
    for list in [THREADS, &names.messages_path()] {
        for query in [
            "limit=0",
            "limit=1001",
            "limit=-1",
            "limit=ten",
            "limit=",
            "limit=1.5",
            "limit=99999999999999999999",
            "cursor=",
            "cursor=abc",
            "cursor=-1",
            "cursor=1.thr_1",
            "cursor=%00",
            "limit=1&limit=2",
            "cursor=99999999999999999999.thr_00000000000000000000000000000001",
        ] {
            let detail = refused(app.get(&format!("{list}?{query}")).await, 422, "invalid_request");
            told += &format!("{} ?{query}: {detail}\n", list.rsplit('/').next().unwrap());
        }
    }
    insta::assert_snapshot!(told);
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn unknown_places_and_wrong_methods_are_refused() {
    let app = TestApp::start().await;
    let before = rows(&app);
    let unknown = [
        (Method::GET, "/ui"),
        (Method::GET, "/v1"),
        (Method::GET, "/v1/nothing"),
        (Method::GET, "/v1/apps/"),
        (Method::POST, "/v1/apps/none/runs"),
        (Method::POST, "/none/stream"),
        (Method::POST, "/Test/stream"),
        (Method::POST, "/%ff/stream"),
        (Method::POST, "/v1/stream"),
        (Method::GET, "/v1/apps/none/threads"),
        (Method::POST, "/v1/apps/none/threads"),
        (Method::GET, "/v1/threads/thr_1"),
        (Method::DELETE, "/v1/threads/thr_ffffffffffffffffffffffffffffffff"),
    ];
    let mut told = String::new();
    for (method, path) in unknown {
        let answer = match method.as_str() {
            "POST" => {
                app.post(
                    path,
                    &if path.ends_with("threads") { json!({}) } else { json!({ "message": "hi" }) },
                )
                .await
            }
            _ => app.send(app.request(method.clone(), path)).await,
        };
        told += &format!("{method} {path}: {}\n", refused(answer, 404, "not_found"));
    }
    for (method, path, allow) in [
        (Method::GET, RUNS, "POST"),
        (Method::GET, CHAT, "POST"),
        (Method::PUT, THREADS, "GET,HEAD,POST"),
        (Method::POST, "/v1/apps", "GET,HEAD"),
        (Method::DELETE, "/v1/runs/run_1", "GET,HEAD"),
        (Method::GET, "/v1/runs/run_1/cancel", "POST"),
        (Method::POST, "/v1/threads/thr_1", "GET,HEAD,PATCH,DELETE"),
        (Method::POST, "/healthz", "GET,HEAD"),
    ] {
        let response = app.request(method.clone(), path).send().await.unwrap();
        let mut allowed: Vec<_> = response.headers()["allow"].to_str().unwrap().split(',').collect();
        let mut expected: Vec<_> = allow.split(',').collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!((response.status().as_u16(), allowed), (405, expected), "{method} {path}");
        let answer = app.send(app.request(method.clone(), path)).await;
        told += &format!("{method} {path}: {}\n", refused(answer, 405, "method_not_allowed"));
    }
    insta::assert_snapshot!(told);
    assert_eq!(rows(&app), before);
}

/// A thread belongs to the app it was begun in.
#[tokio::test]
async fn a_thread_of_another_app_is_not_found() {
    let app = TestApp::start().await;
    let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
    app.database().execute("UPDATE threads SET app = 'other'", []).unwrap();
    let before = rows(&app);
    let run = json!({ "message": "hi", "threadId": thread });
    assert_eq!(
        refused(app.post(RUNS, &run).await, 404, "not_found"),
        "there is no such thread, or it is not yours"
    );
    let chat = json!({ "message": "hi", "sessionId": thread });
    refused(app.post(CHAT, &chat).await, 404, "not_found");
    assert_eq!(good(app.get(THREADS).await)["data"], json!([]));
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn an_empty_thread_has_nothing_to_answer_again() {
    let app = TestApp::start().await;
    let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
    let before = rows(&app);
    let body = json!({ "regenerate": true, "threadId": thread });
    let detail = refused(app.post(RUNS, &body).await, 422, "invalid_request");
    assert_eq!(detail, "regenerate: the thread has no message to answer again; send a message first");
    assert_eq!(rows(&app), before);
}

/// The id in a problem is the one in the response's header, and no other request's.
#[tokio::test]
async fn x1_every_response_has_an_id_of_its_own() {
    let app = TestApp::start().await;
    let mut ids = std::collections::BTreeSet::new();
    for path in ["/healthz", THREADS, "/nothing", "/v1/runs/x", RUNS] {
        let response = app.request(Method::GET, path).send().await.unwrap();
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body: Value = response.json().await.unwrap_or_default();
        assert!(body.get("requestId").is_none_or(|named| *named == id.as_str()), "{path}: {body}");
        assert!(ids.insert(id), "{path}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_may_not_act() {
    let app = TestApp::start().await;
    let body = json!({ "message": "hi" });
    let origin = app.request(Method::POST, CHAT).header("origin", "https://evil.example").json(&body);
    refused(app.send(origin).await, 403, "origin_not_allowed");
    let host = app.request(Method::GET, THREADS).header("host", "rebind.example");
    refused(app.send(host).await, 403, "host_not_allowed");
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn headers_are_bounded() {
    let app = TestApp::start().await;
    let fits = app.request(Method::GET, THREADS).header("x-long", "x".repeat(15 * KIB));
    assert_eq!(app.send(fits).await.status, 200);
    let long = app.request(Method::GET, THREADS).header("x-long", "x".repeat(16 * KIB));
    let detail = refused(app.send(long).await, 431, "headers_too_large");
    assert_eq!(detail, "the path, the query and the headers must be at most 16384 bytes");
    let long = app.get(&format!("{THREADS}?cursor={}", "x".repeat(17 * KIB))).await;
    refused(long, 431, "headers_too_large");
}

/// 3.4: a body that announces too much is refused before any of it arrives; one that does not, when it has.
#[tokio::test]
async fn a_body_too_large_is_refused_without_reading_it_all() {
    let app = TestApp::start().await;
    let address = app.url.strip_prefix("http://").unwrap();
    let head = format!("POST {RUNS} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    let announced = format!("{head}content-length: 10737418240\r\n\r\n");
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1024 * KIB));
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(17));
    for request in [announced, chunked] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = vec![0; 12];
        socket.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8(response).unwrap(), "HTTP/1.1 413");
    }
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}
