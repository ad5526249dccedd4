//! The scripted provider: Chat Completions over HTTP/1.1, in a process of its own.
//!
//! `POST /v1/chat/completions` answers as the script says. `PUT /script` sets the script and clears the counters, and
//! `GET /script` reads the counters. `PUT /script/step` lets a script that goes in step send its next chunk. All bytes of an answer are made before a request comes.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use super::chat_request::{CheckedRequest, check};
use super::figures::percentile;
use super::http1::read_head;
use super::script::{AnswerBytes, AnswerScript, models};

/// The path under which the script is set and its counters are read.
pub(super) const SCRIPT_PATH: &str = "/script";
/// The path under which a client says that it has a chunk.
pub(super) const STEP_PATH: &str = "/script/step";
/// Connections that wait to be accepted when 5,000 come at once.
const BACKLOG: u32 = 8192;
/// 10,000 turns of history in one request have a few megabytes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Measured delays; more say nothing new.
const MAX_DELAYS: usize = 1_000_000;
const CHAT_PATH: &str = "/chat/completions";
const MODELS_PATH: &str = "/models";

/// The requests and answers of the upstream since its script was set.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpstreamCounts {
    /// Good requests.
    pub(super) answered: u64,
    /// Requests that a provider would refuse.
    pub(super) refused: u64,
    pub(super) last_refusal: Option<String>,
    /// How long after their time 99 of 100 chunks were sent.
    pub(super) late_p99_ms: f64,
}

struct UpstreamState {
    answers: Rc<AnswerBytes>,
    counts: UpstreamCounts,
    /// Never starts again, so that ids of calls are unique.
    requests: u64,
    late_ms: Vec<f64>,
    /// One permit for each chunk that a script in step may send.
    steps: Rc<Semaphore>,
}

type SharedState = Rc<RefCell<UpstreamState>>;

/// A listener on loopback with a queue that is long enough for every scenario.
pub(super) fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

/// Serves until the process is killed.
pub(super) async fn serve(port: u16) -> std::io::Result<()> {
    let script = AnswerScript { chunks: 1, first_ms: 0, gap_ms: 0, tools: false, in_step: false };
    let state: SharedState = Rc::new(RefCell::new(UpstreamState {
        answers: Rc::new(AnswerBytes::new(script)),
        counts: UpstreamCounts::default(),
        requests: 0,
        late_ms: Vec::new(),
        steps: Rc::new(Semaphore::new(0)),
    }));
    let listener = listen(port)?;
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let state = state.clone();
        // A connection that breaks is the other side's loss, which the load generator counts.
        connections.spawn_local(async move { drop(converse(stream, state).await) });
    }
}

/// Answers the requests of one connection, one after another.
async fn converse(mut stream: TcpStream, state: SharedState) -> Result<(), String> {
    let mut received = Vec::new();
    loop {
        let head = loop {
            if let Some(head) = read_head(&received)? {
                break head;
            }
            if read(&mut stream, &mut received).await? == 0 {
                return Ok(());
            }
        };
        received.drain(..head.bytes);
        let (mut place, mut body) = (head.body, Vec::new());
        loop {
            let taken = place.decode(&received, &mut body)?;
            received.drain(..taken);
            if place.is_done() {
                break;
            }
            if body.len() > MAX_BODY_BYTES || read(&mut stream, &mut received).await? == 0 {
                return Err("the request is too large or has no end".into());
            }
        }
        answer(&mut stream, &state, &head.first_line, &body).await.map_err(|error| error.to_string())?;
    }
}

async fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> Result<usize, String> {
    stream.read_buf(received).await.map_err(|error| error.to_string())
}

async fn answer(
    stream: &mut TcpStream,
    state: &SharedState,
    first_line: &str,
    body: &[u8],
) -> std::io::Result<()> {
    let mut words = first_line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, answer) = match (method, path) {
        ("PUT", SCRIPT_PATH) => set_script(state, body),
        ("PUT", STEP_PATH) => {
            state.borrow().steps.add_permits(1);
            (200, json!({}))
        }
        ("GET", SCRIPT_PATH) => (200, json!(read_counts(state))),
        ("GET", path) if path.ends_with(MODELS_PATH) => (200, models()),
        ("POST", path) if path.ends_with(CHAT_PATH) => match check(body) {
            Ok(request) => return chat(stream, state, &request).await,
            Err(why) => refuse(state, &why),
        },
        _ => refuse(state, &format!("there is no {method} {path}")),
    };
    let text = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(head.as_bytes()).await
}

fn set_script(state: &SharedState, body: &[u8]) -> (u16, Value) {
    match serde_json::from_slice(body) {
        Ok(script) => {
            let mut state = state.borrow_mut();
            state.answers = Rc::new(AnswerBytes::new(script));
            state.counts = UpstreamCounts::default();
            state.late_ms.clear();
            state.steps = Rc::new(Semaphore::new(0));
            (200, json!({}))
        }
        Err(error) => (400, json!({ "error": { "message": error.to_string() } })),
    }
}

fn read_counts(state: &SharedState) -> UpstreamCounts {
    let mut state = state.borrow_mut();
    state.counts.late_p99_ms = percentile(&mut state.late_ms, 0.99).unwrap_or_default();
    state.counts.clone()
}

fn refuse(state: &SharedState, why: &str) -> (u16, Value) {
    let counts = &mut state.borrow_mut().counts;
    counts.refused += 1;
    counts.last_refusal = Some(why.to_owned());
    (400, json!({ "error": { "message": why, "type": "invalid_request_error", "code": null } }))
}

async fn chat(stream: &mut TcpStream, state: &SharedState, request: &CheckedRequest) -> std::io::Result<()> {
    let (answers, number) = {
        let mut state = state.borrow_mut();
        state.counts.answered += 1;
        state.requests += 1;
        (state.answers.clone(), state.requests)
    };
    if answers.script.first_ms > 0 {
        sleep(answers.script.first_delay()).await;
    }
    if !request.stream {
        let text = answers.complete().to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        return stream.write_all(format!("{head} {}\r\n\r\n{text}", text.len()).as_bytes()).await;
    }
    stream.write_all(&answers.opening).await?;
    if answers.script.tools && request.may_call {
        return write_at_once(stream, &answers.tool_calls(number)).await;
    }
    if answers.script.in_step {
        write_in_step(stream, state, &answers.contents).await?;
    } else if answers.script.gap_ms == 0 {
        write_at_once(stream, &answers.contents).await?;
    } else {
        write_paced(stream, state, &answers).await?;
    }
    write_at_once(stream, &answers.ending).await
}

/// Writes each event by itself, and lets other streams write theirs in between, so that a server cannot read several
/// events of one stream at once.
async fn write_at_once(stream: &mut TcpStream, events: &[Bytes]) -> std::io::Result<()> {
    for event in events {
        stream.write_all(event).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Writes the first event, and each other one when the client has said that it has the one before. So a server cannot
/// join events, even on a busy machine.
async fn write_in_step(stream: &mut TcpStream, state: &SharedState, events: &[Bytes]) -> std::io::Result<()> {
    let steps = Rc::clone(&state.borrow().steps);
    for event in events {
        stream.write_all(event).await?;
        steps.acquire().await.map_err(std::io::Error::other)?.forget();
    }
    Ok(())
}

/// Writes each content chunk at its time, which counts from the first chunk, so that delays do not add up.
async fn write_paced(
    stream: &mut TcpStream,
    state: &SharedState,
    answers: &AnswerBytes,
) -> std::io::Result<()> {
    let mut due = Instant::now();
    for event in &answers.contents {
        sleep_until(due).await;
        stream.write_all(event).await?;
        let late = due.elapsed().as_secs_f64() * 1e3;
        let delays = &mut state.borrow_mut().late_ms;
        if delays.len() < MAX_DELAYS {
            delays.push(late);
        }
        due += answers.script.gap();
    }
    Ok(())
}
