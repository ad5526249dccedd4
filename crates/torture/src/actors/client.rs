//! Asking the server for something until the answer is definite: under one key, with one body, over its deaths.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::Actor;
use crate::record::{Micros, Op, OperationOutcome, Trigger, What};

/// How long an answer is insisted on.
pub(super) const INSISTENCE: Duration = Duration::from_secs(60);
/// How long one attempt may take to be answered.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(20);
/// Milliseconds between two attempts at first, and at most; each is drawn from half to all of it.
const FIRST_PAUSE: u64 = 20;
const LONGEST_PAUSE: u64 = 400;
/// The status of an answer that asks to try again later.
const UNAVAILABLE: u16 = 503;
/// One of this number of actors asks the same node first every time.
const STEADY: usize = 3;
/// An answer has at most this many bytes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A request, the same in every attempt.
pub(super) struct ClientRequest {
    method: Method,
    path: String,
    body: Option<Value>,
    /// None for what changes nothing.
    key: Option<String>,
    last_event: Option<u64>,
    /// The moment to announce when it is granted.
    moment: Option<Trigger>,
    shape: Shape,
}

/// Whether the answer is read here, or event by event by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Whole,
    Stream,
}

impl ClientRequest {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let (path, shape) = (path.into(), Shape::Whole);
        Self { method, path, body: None, key: None, last_event: None, moment: None, shape }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn body(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(super) fn key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(super) fn after_event(self, last_event: Option<u64>) -> Self {
        Self { last_event, ..self }
    }

    pub(super) fn moment(self, moment: Trigger) -> Self {
        Self { moment: Some(moment), ..self }
    }

    pub(super) fn streamed(self) -> Self {
        Self { shape: Shape::Stream, ..self }
    }
}

/// The outcome of all attempts.
pub(super) struct Told {
    pub(super) outcome: OperationOutcome,
    pub(super) attempts: Vec<u16>,
    pub(super) answered: Option<Micros>,
    /// The node of the last answer.
    pub(super) node: Option<usize>,
    /// Every run and thread that an answer named, each once.
    pub(super) runs: Vec<String>,
    pub(super) threads: Vec<String>,
    /// Null where there was none.
    pub(super) body: Value,
    /// The stream that answers, not read yet.
    pub(super) opened: Option<OpenedStream>,
}

/// A response whose headers have come.
pub(super) struct OpenedStream {
    pub(super) response: Response,
    pub(super) began: Micros,
    /// Of the server, when the request was sent.
    pub(super) start: u32,
    /// The node that answers.
    pub(super) node: usize,
}

/// The outcome of asking one node.
enum Asked {
    Answered(OpenedStream),
    /// The node takes no connections, so it has done nothing.
    Refused,
    /// The node has the request, or may have it, and gives no answer.
    Broken,
}

impl Told {
    pub(super) fn is_ok(&self) -> bool {
        self.outcome == OperationOutcome::Ok
    }

    pub(super) fn is_gone(&self) -> bool {
        self.outcome == OperationOutcome::Fail && self.attempts.last() == Some(&404)
    }

    pub(super) fn text(&self, field: &str) -> Option<String> {
        text(&self.body, field)
    }

    /// The items of a list.
    pub(super) fn list(&self) -> &[Value] {
        self.body.get("data").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn note(&mut self, response: &Response) {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        for (name, known) in [("x-run-id", &mut self.runs), ("x-thread-id", &mut self.threads)] {
            if let Some(id) = header(name).filter(|id| !known.iter().any(|other| other == id)) {
                known.push(id.to_owned());
            }
        }
    }
}

pub(super) fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// The meaning of a status for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Done,
    Refused,
    /// The request may have been done or not, or may be done later.
    Again,
}

fn verdict(status: u16) -> Verdict {
    match status {
        200..=299 => Verdict::Done,
        408 | 429 => Verdict::Again,
        400..=499 => Verdict::Refused,
        _ => Verdict::Again,
    }
}

impl Actor {
    /// Asks until the answer is definite. A request that was granted once is granted, even if the rest of the answer
    /// never comes.
    pub(super) async fn ask_until_definite(&self, ask: &ClientRequest, rng: &mut Rng) -> Told {
        let mut told = Told {
            outcome: OperationOutcome::Unknown,
            attempts: Vec::new(),
            answered: None,
            node: None,
            runs: Vec::new(),
            threads: Vec::new(),
            body: Value::Null,
            opened: None,
        };
        let (deadline, mut pauses) = (Instant::now() + INSISTENCE, Pauses::default());
        while !self.attempt(ask, &mut told).await && Instant::now() < deadline {
            pauses.wait(rng).await;
        }
        told
    }

    /// Asks once. True if there is no more to ask for.
    async fn attempt(&self, ask: &ClientRequest, told: &mut Told) -> bool {
        let Some(opened) = self.open(ask).await else {
            told.attempts.push(0);
            return false;
        };
        let status = opened.response.status().as_u16();
        told.attempts.push(status);
        told.node = Some(opened.node);
        told.note(&opened.response);
        let verdict = verdict(status);
        if verdict == Verdict::Done {
            told.outcome = OperationOutcome::Ok;
            told.answered.get_or_insert(self.stage.book.now());
            if ask.shape == Shape::Stream {
                told.opened = Some(opened);
                return true;
            }
        }
        let body = self.read_body(opened.response, &ask.path).await;
        match verdict {
            Verdict::Done => match body {
                Some(body) => {
                    told.body = body;
                    true
                }
                None => false,
            },
            Verdict::Refused => {
                if told.outcome == OperationOutcome::Unknown {
                    told.outcome = OperationOutcome::Fail;
                    told.answered = Some(self.stage.book.now());
                    told.body = body.unwrap_or_default();
                }
                true
            }
            Verdict::Again => false,
        }
    }

    /// Sends the request and waits for the head of an answer. A node that refuses connections, or cannot serve just now,
    /// is passed over, as a load balancer does.
    pub(super) async fn open(&self, ask: &ClientRequest) -> Option<OpenedStream> {
        let mut unavailable = None;
        for node in self.stage.balancer.order(self.first_node()) {
            match self.open_at(node, ask).await {
                Asked::Answered(opened) if opened.response.status().as_u16() == UNAVAILABLE => {
                    unavailable = Some(opened);
                }
                Asked::Answered(opened) => return Some(opened),
                Asked::Refused => {}
                Asked::Broken => return None,
            }
        }
        unavailable
    }

    /// The node that is asked first: by some actors always the same, by others whichever.
    fn first_node(&self) -> usize {
        if self.number.is_multiple_of(STEADY) {
            return self.number / STEADY;
        }
        let (asked, number) = (self.asked.fetch_add(1, Ordering::Relaxed), self.number as u64);
        Rng::with_seed(self.stage.seed ^ number << 32 ^ asked).usize(..)
    }

    async fn open_at(&self, node: usize, ask: &ClientRequest) -> Asked {
        let url = format!("{}{}", self.stage.balancer.url(node), ask.path);
        let mut request = self.http.request(ask.method.clone(), url).bearer_auth(&self.user.key);
        if let Some(key) = &ask.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(last) = ask.last_event {
            request = request.header("last-event-id", last.to_string());
        }
        if let Some(body) = &ask.body {
            request = request.json(body);
        }
        let (began, start) = (self.stage.book.now(), self.stage.starts.number());
        let response = tokio::select! {
            answer = timeout(ATTEMPT_PATIENCE, request.send()) => match answer {
                Ok(Ok(response)) => response,
                Ok(Err(error)) if error.is_connect() => return Asked::Refused,
                Ok(Err(_)) | Err(_) => return Asked::Broken,
            },
            () = self.stage.balancer.give_up(node) => return Asked::Broken,
        };
        if response.status().as_u16() == UNAVAILABLE && !response.headers().contains_key("retry-after") {
            self.stage.book.note_bare_refusal(format!("{} {} at {began} µs", ask.method, ask.path));
        }
        if let Some(moment) = ask.moment.filter(|_| response.status().is_success()) {
            self.stage.moments.note(moment, node);
        }
        Asked::Answered(OpenedStream { response, began, start, node })
    }

    /// The body of an answer; none if it broke off.
    async fn read_body(&self, mut response: Response, path: &str) -> Option<Value> {
        let read = async {
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.ok()? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > MAX_BODY_BYTES {
                    return None;
                }
            }
            Some(bytes)
        };
        let bytes = timeout(ATTEMPT_PATIENCE, read).await.ok()??;
        self.look_for_leaks(path, &bytes);
        Some(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Notes it if another user's word is among what this one received.
    pub(super) fn look_for_leaks(&self, path: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for other in self.stage.users.iter().filter(|other| other.canary != self.user.canary) {
            if text.contains(&other.canary) {
                let (user, app) = (&self.user.name, &self.user.app);
                let begin: String = text.chars().take(300).collect();
                self.stage.book.note_leak(format!(
                    "{user} of {app} received the word of {} of {} from {path}: {begin}",
                    other.name, other.app
                ));
            }
        }
    }

    /// Writes down what came of an operation.
    pub(super) fn record(&self, (key, began): (&str, Micros), what: What, told: &Told) {
        self.stage.book.note_op(Op {
            actor: self.number,
            user: self.user.name.clone(),
            app: self.user.app.clone(),
            key: key.to_owned(),
            what,
            began,
            ended: self.stage.book.now(),
            outcome: told.outcome,
            attempts: told.attempts.clone(),
            answered: told.answered,
            node: told.node,
        });
    }
}

/// Growing pauses, drawn at random so that clients do not come back in the same instant.
pub(super) struct Pauses {
    milliseconds: u64,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { milliseconds: FIRST_PAUSE }
    }
}

impl Pauses {
    pub(super) async fn wait(&mut self, rng: &mut Rng) {
        let longest = self.milliseconds;
        self.milliseconds = (longest * 3 / 2).min(LONGEST_PAUSE);
        sleep(Duration::from_millis(rng.u64(longest / 2..=longest))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_says_so_is_definite() {
        for (status, expected) in [
            (200, Verdict::Done),
            (204, Verdict::Done),
            (404, Verdict::Refused),
            (409, Verdict::Refused),
            (422, Verdict::Refused),
            (408, Verdict::Again),
            (429, Verdict::Again),
            (500, Verdict::Again),
            (502, Verdict::Again),
            (503, Verdict::Again),
            (504, Verdict::Again),
            (507, Verdict::Again),
        ] {
            assert_eq!(verdict(status), expected, "{status}");
        }
    }
}
