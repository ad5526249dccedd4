//! The least agent server that could work, as a measure of what the task itself costs.
//!
//! One thread reads the history from SQLite, asks the upstream with a stream, and parses every chunk. It runs tool calls
//! in parallel, asks again with their results, and sends every delta on as an event. Each message is one row. Deltas are
//! not stored, so a crash loses the answer.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::{Request, Response, StatusCode};
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::pool::{BoxedError, UpstreamPool, serve_http};
use super::script::TOOL;

/// The path of a turn.
pub(super) const CHAT_PATH: &str = "/chat";
/// Steps of a run, so that an upstream that calls tools without end cannot hold a run forever.
const MAX_STEPS: usize = 10;
/// Events that wait for a slow client.
const MAX_EVENTS: usize = 16;
const SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE message (id INTEGER PRIMARY KEY, thread TEXT NOT NULL, body TEXT NOT NULL);
    CREATE INDEX message_thread ON message (thread, id);";
const TOOLS: &str = r#"[{"type":"function","function":{"name":"calculate","description":"Compute an expression.","parameters":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}}]"#;

struct FloorServer {
    database: Connection,
    upstream: UpstreamPool<Full<Bytes>>,
    runs: TaskTracker,
}

#[derive(Deserialize)]
struct TurnRequest {
    thread: String,
    message: String,
}

#[derive(Deserialize)]
struct Chunk<'c> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'c>>,
}

#[derive(Deserialize)]
struct Choice<'c> {
    #[serde(borrow)]
    delta: ChoiceDelta<'c>,
}

#[derive(Deserialize)]
struct ChoiceDelta<'c> {
    #[serde(borrow)]
    content: Option<Cow<'c, str>>,
    #[serde(default, borrow)]
    tool_calls: Vec<CallPiece<'c>>,
}

#[derive(Deserialize)]
struct CallPiece<'c> {
    index: usize,
    id: Option<String>,
    #[serde(borrow)]
    function: FunctionPiece<'c>,
}

#[derive(Deserialize)]
struct FunctionPiece<'c> {
    name: Option<String>,
    #[serde(default, borrow)]
    arguments: Cow<'c, str>,
}

#[derive(Default)]
struct RequestedCall {
    id: String,
    name: String,
    arguments: String,
}

/// The answer of one step.
#[derive(Default)]
struct StepAnswer {
    text: String,
    calls: Vec<RequestedCall>,
}

/// Serves until the process is killed.
pub(super) async fn serve(port: u16, upstream: SocketAddr, data: &Path) -> Result<(), String> {
    let open = || {
        let database = Connection::open(data.join("floor.db"))?;
        database.execute_batch(SCHEMA)?;
        Ok(database)
    };
    let database = open().map_err(|error: rusqlite::Error| format!("cannot open the database: {error}"))?;
    let server =
        Rc::new(FloorServer { database, upstream: UpstreamPool::new(upstream), runs: TaskTracker::new() });
    serve_http(port, move |request| answer(request, server.clone())).await.map_err(|error| error.to_string())
}

async fn answer(
    request: Request<Incoming>,
    server: Rc<FloorServer>,
) -> Result<Response<impl Body<Data = Bytes, Error = BoxedError>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let turn: TurnRequest = match serde_json::from_slice(&body) {
        Ok(turn) if path == CHAT_PATH => turn,
        Ok(_) | Err(_) => {
            let mut refusal = Response::new(Either::Left(Full::from("not a turn")));
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            return Ok(refusal);
        }
    };
    let (events, mut outgoing) = mpsc::channel(MAX_EVENTS);
    let runs = server.runs.clone();
    runs.spawn_local(async move {
        if let Err(why) = run(&server, turn, &events).await {
            eprintln!("floor: {why}");
            let _ = events.send(Bytes::from_static(b"data: {\"status\":\"failed\"}\n\n")).await;
        }
    });
    let frames = stream::poll_fn(move |context| outgoing.poll_recv(context))
        .map(|event| Ok::<_, Infallible>(Frame::data(event)));
    let mut response = Response::new(Either::Right(StreamBody::new(frames)));
    let kind = hyper::header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

async fn run(server: &FloorServer, turn: TurnRequest, events: &mpsc::Sender<Bytes>) -> Result<(), String> {
    let mut history = server.read_history(&turn.thread)?;
    history.push(server.add(&turn.thread, &json!({ "role": "user", "content": turn.message }))?);
    for _ in 0..MAX_STEPS {
        let answer = server.step(&history, events).await?;
        if answer.calls.is_empty() {
            server.add(&turn.thread, &json!({ "role": "assistant", "content": answer.text }))?;
            let _ = events.send(Bytes::from_static(b"data: [DONE]\n\n")).await;
            return Ok(());
        }
        history.push(server.add(&turn.thread, &call_message(&answer))?);
        let results = join_all(answer.calls.iter().map(|RequestedCall { name, arguments, .. }| {
            let (name, arguments) = (name.clone(), arguments.clone());
            server.runs.spawn_local(async move { call_tool(&name, &arguments) })
        }));
        for (call, result) in answer.calls.iter().zip(results.await) {
            let result = result.map_err(|error| error.to_string())?;
            let message = json!({ "role": "tool", "tool_call_id": call.id, "content": result });
            history.push(server.add(&turn.thread, &message)?);
        }
    }
    Err(format!("the run has more than {MAX_STEPS} steps"))
}

impl FloorServer {
    fn read_history(&self, thread: &str) -> Result<Vec<Box<RawValue>>, String> {
        let read = || {
            let mut statement =
                self.database.prepare_cached("SELECT body FROM message WHERE thread = ?1 ORDER BY id")?;
            let rows = statement.query_map([thread], |row| row.get::<_, String>(0))?;
            rows.collect::<Result<Vec<String>, rusqlite::Error>>()
        };
        let bodies = read().map_err(|error| format!("cannot read the history: {error}"))?;
        bodies
            .into_iter()
            .map(|body| RawValue::from_string(body).map_err(|error| error.to_string()))
            .collect()
    }

    /// Stores a message, and gives it back as the prompt has it.
    fn add(&self, thread: &str, message: &Value) -> Result<Box<RawValue>, String> {
        let body = message.to_string();
        let write = || {
            let mut statement =
                self.database.prepare_cached("INSERT INTO message (thread, body) VALUES (?1, ?2)")?;
            statement.execute((thread, &body))
        };
        write().map_err(|error| format!("cannot store a message: {error}"))?;
        RawValue::from_string(body).map_err(|error| error.to_string())
    }

    /// Asks the upstream once, and sends its text on.
    async fn step(
        &self,
        history: &[Box<RawValue>],
        events: &mpsc::Sender<Bytes>,
    ) -> Result<StepAnswer, String> {
        let messages = serde_json::to_string(history).map_err(|error| error.to_string())?;
        let body = format!(
            "{{\"model\":\"gpt-4o-mini\",\"stream\":true,\"stream_options\":{{\"include_usage\":true}},\
             \"tools\":{TOOLS},\"messages\":{messages}}}"
        );
        let request = Request::post("/v1/chat/completions")
            .header("host", self.upstream.address.to_string())
            .header("content-type", "application/json")
            .body(Full::from(body))
            .map_err(|error| error.to_string())?;
        let response = self.upstream.send(request).await?;
        if !response.status().is_success() {
            return Err(format!("the upstream refused a request: {}", response.status()));
        }
        let (mut body, mut waiting, mut answer) = (response.into_body(), Vec::new(), StepAnswer::default());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            waiting.extend_from_slice(&data);
            let mut begin = 0;
            while let Some(length) = memchr::memchr(b'\n', waiting.get(begin..).unwrap_or_default()) {
                let line = waiting.get(begin..begin + length).unwrap_or_default();
                begin += length + 1;
                answer.take(line, events).await?;
            }
            waiting.drain(..begin);
        }
        Ok(answer)
    }
}

impl StepAnswer {
    /// Adds what one line of the upstream says.
    async fn take(&mut self, line: &[u8], events: &mpsc::Sender<Bytes>) -> Result<(), String> {
        let Some(data) = line.strip_prefix(b"data: ").filter(|data| *data != b"[DONE]") else {
            return Ok(());
        };
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        for Choice { delta } in chunk.choices {
            if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
                self.text.push_str(&text);
                let text = serde_json::to_string(&text).map_err(|error| error.to_string())?;
                let event = format!("data: {{\"delta\":{text}}}\n\n");
                events.send(event.into()).await.map_err(|_| "the client has gone".to_owned())?;
            }
            for piece in delta.tool_calls {
                self.take_call(piece)?;
            }
        }
        Ok(())
    }

    fn take_call(&mut self, piece: CallPiece<'_>) -> Result<(), String> {
        if piece.index == self.calls.len() {
            self.calls.push(RequestedCall::default());
        }
        let call = self.calls.get_mut(piece.index).ok_or("a tool call without its beginning")?;
        call.id = piece.id.unwrap_or_else(|| std::mem::take(&mut call.id));
        call.name = piece.function.name.unwrap_or_else(|| std::mem::take(&mut call.name));
        call.arguments.push_str(&piece.function.arguments);
        Ok(())
    }
}

fn call_message(answer: &StepAnswer) -> Value {
    let calls = answer.calls.iter().map(|RequestedCall { id, name, arguments }| {
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
    });
    json!({ "role": "assistant", "content": answer.text, "tool_calls": calls.collect::<Vec<_>>() })
}

/// The floor has a tool of the same name as the app `studio`. It reads its arguments and knows one answer, because
/// arithmetic is not what is measured.
fn call_tool(name: &str, arguments: &str) -> String {
    let result = match serde_json::from_str::<Value>(arguments) {
        Ok(input) if name == TOOL => json!({ "expression": input.get("expression"), "value": 434 }),
        Ok(_) => json!({ "error": "there is no such tool" }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    result.to_string()
}
