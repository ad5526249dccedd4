//! Helpers that these tests share: small readings of answers, streams and rows.

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::Reply;
use testkit::{Answer, Frame, Frames, TestApp};

pub(crate) const RUNS: &str = "/v1/apps/test/runs";
pub(crate) const THREADS: &str = "/v1/apps/test/threads";

/// A run as the headers of its stream name it.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) run: String,
    pub(crate) thread: String,
}

impl Names {
    pub(crate) fn of(stream: &Frames) -> Self {
        Self { run: stream.header("x-run-id"), thread: stream.header("x-thread-id") }
    }

    pub(crate) fn run_path(&self) -> String {
        format!("/v1/runs/{}", self.run)
    }

    pub(crate) fn events_path(&self) -> String {
        format!("/v1/runs/{}/events", self.run)
    }

    pub(crate) fn thread_path(&self) -> String {
        format!("/v1/threads/{}", self.thread)
    }

    pub(crate) fn channel_path(&self) -> String {
        format!("/v1/threads/{}/events", self.thread)
    }

    pub(crate) fn messages_path(&self) -> String {
        format!("/v1/threads/{}/messages", self.thread)
    }
}

/// Says something in a new thread and reads the run to its end; what it causes in the background is done, too.
pub(crate) async fn say(app: &TestApp, message: &str) -> Names {
    told(app, json!({ "message": message })).await
}

/// Says something in a thread and reads the run to its end.
pub(crate) async fn say_in(app: &TestApp, thread: &str, message: &str) -> Names {
    told(app, json!({ "message": message, "threadId": thread })).await
}

pub(crate) async fn told(app: &TestApp, body: Value) -> Names {
    let stream = app.stream(RUNS, &body).await;
    let names = Names::of(&stream);
    let frames = stream.all().await;
    assert_eq!(status_of(&frames), "completed", "{frames:?}");
    app.service.idle().await;
    names
}

/// The status in a run's last event, which must be `run:end`.
pub(crate) fn status_of(frames: &[Frame]) -> String {
    let last = frames.last().expect("there are events");
    assert_eq!(last.event, "run:end");
    last.data["status"].as_str().unwrap().to_owned()
}

pub(crate) async fn delete(app: &TestApp, path: &str) -> Answer {
    app.send(app.request(Method::DELETE, path)).await
}

pub(crate) async fn patch(app: &TestApp, path: &str, body: &Value) -> Answer {
    app.send(app.request(Method::PATCH, path).json(body)).await
}

/// Sends a request, under a key if one is given; without a body where that is null.
pub(crate) async fn keyed(
    app: &TestApp,
    key: Option<&str>,
    method: Method,
    (path, body): (&str, &Value),
) -> Answer {
    let mut request = app.request(method, path);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    if !body.is_null() {
        request = request.json(body);
    }
    app.send(request).await
}

/// The token of a user of the app `test`.
pub(crate) async fn token(app: &TestApp, user: &str) -> String {
    let key = NewKey { user: user.into(), app: Some("test".into()), admin: false, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

/// Sends a request as the user with this token; without a body where that is null.
pub(crate) async fn send_as(
    app: &TestApp,
    token: &str,
    method: Method,
    (path, body): (&str, &Value),
) -> Answer {
    let mut request = app.request(method, path).bearer_auth(token);
    if !body.is_null() {
        request = request.json(body);
    }
    app.send(request).await
}

/// The instructions and all else that the model was told in request `index` before the conversation.
pub(crate) fn system(app: &TestApp, index: usize) -> String {
    let request = &app.upstream.requests()[index];
    let messages = request.body["messages"].as_array().unwrap();
    let told = messages.iter().filter(|message| message["role"] == "system");
    told.map(|message| message["content"].as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The body of an answer that must be a success.
pub(crate) fn good(answer: Answer) -> Value {
    assert!((200..300).contains(&answer.status), "{answer:?}");
    assert_eq!(answer.content_type, "application/json");
    answer.body
}

/// The problem an answer must hold, without its request id, once its form has been checked.
pub(crate) fn problem(answer: Answer) -> Value {
    let Answer { status, content_type, mut body } = answer;
    assert_eq!(content_type, "application/problem+json", "{status} {body}");
    assert_eq!(body["status"], status, "{body}");
    assert_eq!(body["type"], "about:blank", "{body}");
    for sentence in ["title", "detail", "code"] {
        assert!(body[sentence].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    }
    let id = body.as_object_mut().unwrap().remove("requestId");
    let id = id.as_ref().and_then(Value::as_str).unwrap_or_default();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?}");
    body
}

/// A problem of this status and code; gives back its detail.
pub(crate) fn refused(answer: Answer, status: u16, code: &str) -> String {
    let problem = problem(answer);
    assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)), "{problem}");
    problem["detail"].as_str().unwrap().to_owned()
}

/// An empty thread.
pub(crate) async fn thread(app: &TestApp) -> String {
    good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned()
}

/// Reads streams to their ends, all at once.
pub(crate) async fn to_the_end(streams: Vec<Frames>) -> Vec<Vec<Frame>> {
    join_all(streams.into_iter().map(Frames::all)).await
}

/// The texts of a thread's messages, each after its role.
pub(crate) async fn said(app: &TestApp, thread: &str) -> Vec<String> {
    let page = good(app.get(&format!("/v1/threads/{thread}/messages")).await);
    let line = |message: &Value| {
        format!("{}: {}", message["role"].as_str().unwrap(), message["text"].as_str().unwrap())
    };
    page["data"].as_array().unwrap().iter().map(line).collect()
}

/// The results of calls without how long they took, which is not for a snapshot to say.
pub(crate) fn timeless(mut answer: Value) -> Value {
    let results = |message: &mut Value| {
        for result in message["toolResults"].as_array_mut().into_iter().flatten() {
            assert!(result["durationMs"].is_u64(), "{result}");
            result["durationMs"] = json!("…");
        }
    };
    match answer.get_mut("data").and_then(Value::as_array_mut) {
        Some(messages) => messages.iter_mut().for_each(results),
        None => results(&mut answer),
    }
    answer
}

/// A model that answers with what it was told last.
pub(crate) fn repeating(request: &Value) -> Reply {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    Reply::says(&format!("Re: {}", last.and_then(|message| message["content"].as_str()).unwrap_or_default()))
}

/// How many rows each table has, of events those of runs: a job names a thread when it comes to it.
pub(crate) fn rows(app: &TestApp) -> Vec<(&'static str, i64)> {
    let tables =
        ["threads", "runs", "messages", "events WHERE run IS NOT NULL", "tool_calls", "tool_results"];
    tables.map(|table| (table, app.count(&format!("SELECT count(*) FROM {table}")))).to_vec()
}

/// One event exactly as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wire {
    pub(crate) id: u64,
    pub(crate) text: String,
}

/// Event streams as text: `retry:` first, then events, each in its own block.
pub(crate) fn blocks(text: &str) -> Vec<Wire> {
    let mut blocks = text.split_inclusive("\n\n");
    let retry = blocks.next().and_then(|block| block.strip_prefix("retry: ")?.strip_suffix("\n\n"));
    let retry: u64 = retry.and_then(|number| number.parse().ok()).expect("a stream begins with retry:");
    assert!((500..=2500).contains(&retry), "{retry}");
    let block = |block: &str| {
        let id = block.lines().find_map(|line| line.strip_prefix("id: ")).expect("an event has an id");
        Wire { id: id.parse().unwrap(), text: block.to_owned() }
    };
    blocks.map(block).collect()
}

/// A stream that ends, exactly as it was sent. `after` goes into the header.
pub(crate) async fn wire(app: &TestApp, path: &str, after: Option<u64>) -> Vec<Wire> {
    let mut request = app.request(Method::GET, path);
    if let Some(id) = after {
        request = request.header("last-event-id", id);
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200, "{path} after {after:?}");
    blocks(&response.text().await.unwrap())
}

/// The status of a GET with this `Last-Event-ID`, and what came with it.
pub(crate) async fn get_after(app: &TestApp, path: &str, after: &str) -> Answer {
    app.send(app.request(Method::GET, path).header("last-event-id", after)).await
}

/// Returns the messages of request `index` to the model, a line a message, without the instructions.
pub(crate) fn prompt(app: &TestApp, index: usize) -> Vec<String> {
    let request = &app.upstream.requests()[index];
    let messages = request.body["messages"].as_array().unwrap();
    let line = |message: &Value| {
        let text = message["content"].as_str().unwrap_or("-");
        format!("{}: {text}", message["role"].as_str().unwrap())
    };
    messages.iter().filter(|message| message["role"] != "system").map(line).collect()
}
