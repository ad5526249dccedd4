//! Bad input: a 4xx problem document with a stable code and a sentence that helps, and nothing stored (X1, L1, 3.4).

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Answer, TestApp};

use crate::support::{RUNS, THREADS, good, problem, rows, say};

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

/// The largest body, in bytes.
const LARGEST: usize = 2048 * KIB;
/// The largest body with files in it.
const LARGEST_WITH_FILES: usize = 16 * 1024 * KIB;

/// The faults that any body can have, where the largest has this many bytes.
fn garbled(largest: usize) -> Vec<Bad> {
    let json = |name, body: &str| bad(name, body, 400, "invalid_json");
    let deep = format!(r#"{{"message": "hi", "x": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    vec![
        json("nothing", ""),
        json("no JSON", "message=hi"),
        json("cut short", r#"{"message": "hi"#),
        json("two values", r#"{"message": "hi"} {"message": "hi"}"#),
        json("a trailing comma", r#"{"message": "hi",}"#),
        json("single quotes", "{'message': 'hi'}"),
        json("not a number", r#"{"message": NaN}"#),
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
        bad("a byte too many", vec![b' '; largest + 1], 413, "body_too_large"),
        bad("as many spaces as fit", vec![b' '; largest], 400, "invalid_json"),
    ]
}

#[tokio::test]
async fn a_run_asked_for_badly() {
    let app = TestApp::start().await;
    let id = |prefix: &str| format!("{prefix}_{}", "f".repeat(32));
    let mut bodies = garbled(LARGEST_WITH_FILES);
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
        invalid("less than no probability", &json!({ "message": "hi", "settings": { "topP": -0.1 } })),
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
    let mut bodies = garbled(LARGEST);
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
    let message = "word ".repeat(52_428) + "word"; // 262 144 bytes
    assert_eq!(message.len(), 256 * KIB);
    let names = say(&app, &message).await;
    assert_eq!(good(app.get(&names.messages_path()).await)["data"][0]["text"], message.as_str());
    let request = &app.upstream.requests()[0].body;
    assert_eq!(request["messages"][1]["content"], message.as_str());
}
