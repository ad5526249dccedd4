//! Bad input: a 4xx problem document with a stable code and a sentence that helps, and nothing stored (X1, L1, 3.4).

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Answer, TestApp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{RUNS, THREADS, good, problem, refused, rows, say};

const KIB: usize = 1024;
const CHAT: &str = "/test/stream";

/// A body, and the status and code it is refused with.
struct Bad {
    name: &'static str,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
}

fn bad(name: &'static str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Bad {
    Bad { name, body: body.into(), status, code }
}

fn invalid(name: &'static str, body: &Value) -> Bad {
    bad(name, body.to_string(), 422, "invalid_request")
}

async fn send(app: &TestApp, method: Method, path: &str, body: Vec<u8>) -> Answer {
    app.send(app.request(method, path).header("content-type", "application/json").body(body)).await
}

/// Sends each body, checks its refusal, and gives back what clients are told, a line each.
async fn refusals(app: &TestApp, method: Method, path: &str, bodies: Vec<Bad>) -> String {
    let before = rows(app);
    let mut told = String::new();
    for Bad { name, body, status, code } in bodies {
        let answer = send(app, method.clone(), path, body).await;
        let problem = problem(answer);
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(status), &json!(code)),
            "{name}: {problem}"
        );
        assert_eq!(rows(app), before, "{name} left something behind");
        told += &format!("{name}: {status} {code}: {}\n", problem["detail"].as_str().unwrap());
    }
    assert_eq!(app.upstream.requests().len(), 0);
    told
}

/// What any body can do wrong. `{}` stands for what a good one begins with.
fn garbled() -> Vec<Bad> {
    let json = |name, body: &str| bad(name, body, 400, "invalid_json");
    let deep = format!(r#"{{"message": "hi", "x": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    vec![
        json("nothing", ""),
        json("no JSON", "message=hi"),
        json("cut short", r#"{"message": "hi"#),
        json("two values", r#"{"message": "hi"} {"message": "hi"}"#),
        json("a trailing comma", r#"{"message": "hi",}"#),
        json("single quotes", "{'message': 'hi'}"),
        json("not a number", r#"{"message": "hi", "temperature": NaN}"#),
        json("a lone surrogate", r#"{"message": "\ud83d"}"#),
        json("surrogates in the wrong order", r#"{"message": "\ude00\ud83d"}"#),
        json("a raw control character", "{\"message\": \"a\u{1}b\"}"),
        json("a byte order mark", "\u{feff}{\"message\": \"hi\"}"),
        json("a depth bomb", &deep),
        json("an unclosed depth bomb", &"[".repeat(1_000_000)),
        bad("no UTF-8", &b"{\"message\": \"\xff\xfe\"}"[..], 400, "invalid_utf8"),
        bad("UTF-8 cut short", &b"{\"message\": \"\xc3\"}"[..], 400, "invalid_utf8"),
        bad("UTF-16", &b"\xff\xfe{\0}\0"[..], 400, "invalid_utf8"),
        bad("a list", r#"["hi"]"#, 422, "invalid_request"),
        bad("a string", r#""hi""#, 422, "invalid_request"),
        bad("null", "null", 422, "invalid_request"),
        bad("a field given twice", r#"{"message": "a", "message": "b"}"#, 422, "invalid_request"),
        bad("a body of 2 MiB and a byte", vec![b' '; 2048 * KIB + 1], 413, "body_too_large"),
        bad("spaces, 2 MiB of them", vec![b' '; 2048 * KIB], 400, "invalid_json"),
    ]
}

#[tokio::test]
async fn a_run_asked_for_badly() {
    let app = TestApp::start().await;
    let id = |prefix: &str| format!("{prefix}_{}", "f".repeat(32));
    let mut bodies = garbled();
    bodies.extend([
        invalid("no message", &json!({})),
        invalid("an empty message", &json!({ "message": "" })),
        invalid("a blank message", &json!({ "message": " \n\t\u{a0}" })),
        invalid("a message that is null", &json!({ "message": null })),
        invalid("a message that is a number", &json!({ "message": 5 })),
        invalid("a message that is an object", &json!({ "message": { "text": "hi" } })),
        invalid("an unknown field", &json!({ "message": "hi", "temprature": 1 })),
        invalid("an unknown setting", &json!({ "message": "hi", "settings": { "heat": 1 } })),
        invalid("settings that are a list", &json!({ "message": "hi", "settings": [1] })),
        invalid("too cold", &json!({ "message": "hi", "settings": { "temperature": -0.1 } })),
        invalid("too hot", &json!({ "message": "hi", "settings": { "temperature": 2.1 } })),
        invalid("hot in words", &json!({ "message": "hi", "settings": { "temperature": "hot" } })),
        bad("endlessly hot", r#"{"message": "hi", "settings": {"temperature": 1e999}}"#, 400, "invalid_json"),
        invalid("no tokens", &json!({ "message": "hi", "settings": { "maxTokens": 0 } })),
        invalid("half a token", &json!({ "message": "hi", "settings": { "maxTokens": 0.5 } })),
        invalid(
            "too many tokens",
            &json!({ "message": "hi", "settings": { "maxTokens": 4_294_967_296_u64 } }),
        ),
        invalid("no probability", &json!({ "message": "hi", "settings": { "topP": 0 } })),
        invalid("too much probability", &json!({ "message": "hi", "settings": { "topP": 1.01 } })),
        invalid("a model without a name", &json!({ "message": "hi", "model": "" })),
        invalid("a model with a blank name", &json!({ "message": "hi", "model": "  " })),
        invalid("a model with two lines", &json!({ "message": "hi", "model": "a\nb" })),
        invalid("a model of a megabyte", &json!({ "message": "hi", "model": "m".repeat(1024 * KIB) })),
        invalid("a thread that is a word", &json!({ "message": "hi", "threadId": "mine" })),
        invalid("a thread that is a run", &json!({ "message": "hi", "threadId": id("run") })),
        invalid("a parent without a thread", &json!({ "message": "hi", "parentId": id("msg") })),
        invalid(
            "both message and regenerate",
            &json!({ "message": "hi", "threadId": id("thr"), "regenerate": true }),
        ),
        invalid("regenerate without a thread", &json!({ "regenerate": true })),
        invalid("regenerate that says no", &json!({ "regenerate": false, "threadId": id("thr") })),
        invalid("regenerate that is a number", &json!({ "regenerate": 1, "threadId": id("thr") })),
        invalid("regenerate that is a word", &json!({ "regenerate": "last", "threadId": id("thr") })),
        invalid("stream that is a word", &json!({ "message": "hi", "stream": "no" })),
        bad(
            "a thread nobody has",
            json!({ "message": "hi", "threadId": id("thr") }).to_string(),
            404,
            "not_found",
        ),
        bad("a message too long", message_of(256 * KIB + 1), 413, "too_large"),
        bad("a message of a megabyte", message_of(1024 * KIB), 413, "too_large"),
        bad("a long system prompt", long_system_prompt(), 413, "too_large"),
    ]);
    insta::assert_snapshot!(refusals(&app, Method::POST, RUNS, bodies).await);
}

fn message_of(bytes: usize) -> String {
    json!({ "message": "x".repeat(bytes) }).to_string()
}

fn long_system_prompt() -> String {
    json!({ "message": "hi", "systemPrompt": "x".repeat(64 * KIB + 1) }).to_string()
}

#[tokio::test]
async fn a_chat_message_sent_badly() {
    let app = TestApp::start().await;
    let mut bodies = garbled();
    bodies.extend([
        invalid("no message", &json!({})),
        invalid("an empty message", &json!({ "message": "" })),
        invalid("a message that is null", &json!({ "message": null })),
        invalid("a native field", &json!({ "message": "hi", "threadId": format!("thr_{}", "f".repeat(32)) })),
        invalid("an unknown field", &json!({ "message": "hi", "toolResults": [] })),
        invalid("too cold", &json!({ "message": "hi", "temperature": -0.1 })),
        invalid("too hot", &json!({ "message": "hi", "temperature": 2.1 })),
        invalid("hot in words", &json!({ "message": "hi", "temperature": "hot" })),
        bad("endlessly hot", r#"{"message": "hi", "temperature": 1e999}"#, 400, "invalid_json"),
        invalid("a model without a name", &json!({ "message": "hi", "model": "" })),
        invalid("a model of a megabyte", &json!({ "message": "hi", "model": "m".repeat(1024 * KIB) })),
        invalid("a session that is a number", &json!({ "message": "hi", "sessionId": 7 })),
        invalid("a session that is a word", &json!({ "message": "hi", "sessionId": "mine" })),
        bad(
            "a session nobody has",
            json!({ "message": "hi", "sessionId": format!("thr_{}", "f".repeat(32)) }).to_string(),
            404,
            "not_found",
        ),
        bad("a message too long", message_of(256 * KIB + 1), 413, "too_large"),
    ]);
    insta::assert_snapshot!(refusals(&app, Method::POST, CHAT, bodies).await);
}

#[tokio::test]
async fn a_thread_named_badly() {
    let app = TestApp::start().await;
    let thread = good(app.post(THREADS, &json!({ "title": "Good" })).await);
    let titles = || {
        vec![
            invalid("a title that is a number", &json!({ "title": 5 })),
            invalid("an empty title", &json!({ "title": "" })),
            invalid("a blank title", &json!({ "title": " \t" })),
            invalid("two lines", &json!({ "title": "a\nb" })),
            invalid("an unknown field", &json!({ "title": "a", "name": "b" })),
            bad("a title too long", json!({ "title": "é".repeat(251) }).to_string(), 413, "too_large"),
            bad("no JSON", "title", 400, "invalid_json"),
        ]
    };
    let made = refusals(&app, Method::POST, THREADS, titles()).await;
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    let mut changes = titles();
    changes.push(invalid("no title", &json!({})));
    changes.push(bad("nothing", "", 400, "invalid_json"));
    let changed = refusals(&app, Method::PATCH, &path, changes).await;
    insta::assert_snapshot!(format!("new:\n{made}\nrenamed:\n{changed}"));
    assert_eq!(good(app.get(&path).await), thread);
    let longest = json!({ "title": "é".repeat(250) });
    assert_eq!(good(crate::support::patch(&app, &path, &longest).await)["title"], longest["title"]);
}

/// L1, at the limit: the longest message is taken, stored and sent whole.
#[tokio::test]
async fn l1_a_message_of_256_kib_is_taken() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Long.")]);
    let message = "é".repeat(128 * KIB);
    let names = say(&app, &message).await;
    assert_eq!(good(app.get(&names.messages_path()).await)["data"][0]["text"], message.as_str());
    let request = &app.upstream.requests()[0].body;
    assert_eq!(request["messages"][1]["content"], message.as_str());
}

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
        (Method::GET, "/"),
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
    assert_eq!(detail, "address and headers must be at most 16384 bytes");
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
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(3));
    for request in [announced, chunked] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = vec![0; 12];
        socket.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8(response).unwrap(), "HTTP/1.1 413");
    }
    assert!(rows(&app).iter().all(|(_, count)| *count == 0));
}
