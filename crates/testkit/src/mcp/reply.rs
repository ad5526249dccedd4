//! The answers of a scripted server of tools.

use serde_json::{Value, json};

use super::McpArrival;
use crate::upstream::Gate;

/// Bytes of an answer that has no end, as far as any client is concerned: a gibibyte.
pub(super) const ENDLESS_BYTES: u64 = 1 << 30;

/// An answer to one request. It is one JSON text, or, where something is said before or after it, a stream of events.
#[derive(Debug, Clone)]
pub struct McpReply {
    kind: McpReplyKind,
    headers: Vec<(String, String)>,
    /// The messages before the answer, within its stream.
    before: Vec<Before>,
    gate: Option<Gate>,
    twice: bool,
    streamed: bool,
}

#[derive(Debug, Clone)]
enum McpReplyKind {
    Usual,
    Result(Value),
    Error { code: i64, message: String },
    Garbage,
    Status(u16),
    BreaksOff,
    Never,
    Endless,
}

#[derive(Debug, Clone)]
enum Before {
    Message(Value),
    Progress,
    /// The answer, to another question.
    OtherId,
}

/// The acts on the wire.
pub(super) enum McpAct {
    Write(Vec<u8>),
    Wait(Gate),
    Stall,
    Endless,
    Close,
}

impl McpReply {
    /// The answer that it would give without a script, to be held back or told in another way.
    pub fn usual() -> Self {
        Self::of(McpReplyKind::Usual)
    }

    /// Any result at all.
    pub fn result(result: Value) -> Self {
        Self::of(McpReplyKind::Result(result))
    }

    /// A tool's answer in words.
    pub fn text(text: &str) -> Self {
        Self::result(json!({ "content": [{ "type": "text", "text": text }] }))
    }

    /// A tool's answer as data, and the same in words.
    pub fn structured(value: &Value) -> Self {
        let text = value.to_string();
        Self::result(json!({ "content": [{ "type": "text", "text": text }], "structuredContent": value }))
    }

    /// A tool that says it has failed.
    pub fn tool_error(text: &str) -> Self {
        Self::result(json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
    }

    /// An error of JSON-RPC.
    pub fn rpc_error(code: i64, message: &str) -> Self {
        Self::of(McpReplyKind::Error { code, message: message.to_owned() })
    }

    /// A success whose body is not JSON.
    pub fn garbage() -> Self {
        Self::of(McpReplyKind::Garbage)
    }

    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self::of(McpReplyKind::Status(status))
    }

    /// Reads the request and closes the connection.
    pub fn breaks_off() -> Self {
        Self::of(McpReplyKind::BreaksOff)
    }

    /// Reads the request and stays silent until the client goes.
    pub fn no_answer() -> Self {
        Self::of(McpReplyKind::Never)
    }

    /// A gibibyte of a JSON text that never ends.
    pub fn endless() -> Self {
        Self::of(McpReplyKind::Endless)
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Holds the answer back, but not what is said before it, until the gate is opened.
    pub fn wait(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// As a stream of events, even where one JSON text would do.
    pub fn streamed(mut self) -> Self {
        self.streamed = true;
        self
    }

    /// Says a message first, such as a notification.
    pub fn after_message(self, message: Value) -> Self {
        self.preceded_by(Before::Message(message))
    }

    /// Tells of progress first, under the token that came with the request.
    pub fn after_progress(self) -> Self {
        self.preceded_by(Before::Progress)
    }

    /// Gives the same answer first to a question that was not asked.
    pub fn after_other_id(self) -> Self {
        self.preceded_by(Before::OtherId)
    }

    /// Gives the answer twice.
    pub fn twice(mut self) -> Self {
        self.twice = true;
        self.streamed()
    }

    fn of(kind: McpReplyKind) -> Self {
        Self { kind, headers: Vec::new(), before: Vec::new(), gate: None, twice: false, streamed: false }
    }

    fn preceded_by(mut self, before: Before) -> Self {
        self.before.push(before);
        self.streamed()
    }

    pub(super) fn is_usual(&self) -> bool {
        matches!(self.kind, McpReplyKind::Usual)
    }

    /// Returns this reply with the contents of another one.
    pub(super) fn with_contents_of(mut self, usual: Self) -> Self {
        self.kind = usual.kind;
        self.headers.extend(usual.headers);
        self
    }

    pub(super) fn acts(self, arrival: &McpArrival) -> Vec<McpAct> {
        if self.streamed { self.events(arrival) } else { self.at_once(arrival) }
    }

    fn at_once(self, arrival: &McpArrival) -> Vec<McpAct> {
        let mut acts: Vec<McpAct> = self.gate.into_iter().map(McpAct::Wait).collect();
        acts.push(match (self.kind.text(&arrival.id()), &self.kind) {
            (_, McpReplyKind::Status(status)) => with_length(*status, &self.headers, b""),
            (Ok(text), _) => json_answer(200, &self.headers, &text),
            (Err(fault), _) => fault,
        });
        acts
    }

    fn events(self, arrival: &McpArrival) -> Vec<McpAct> {
        let headers = lines(&self.headers);
        let head = format!(
            "HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream\r\n{headers}transfer-encoding: chunked\r\n\r\n"
        );
        let mut acts = vec![McpAct::Write(head.into_bytes())];
        for before in &self.before {
            let text = match before {
                Before::Message(message) => Ok(message.to_string()),
                Before::Progress => Ok(progress(&arrival.meta("progressToken"))),
                Before::OtherId => self.kind.text(&json!("nobody-asked")),
            };
            acts.push(text.map_or_else(|fault| fault, |text| event(&text)));
        }
        acts.extend(self.gate.map(McpAct::Wait));
        for _ in 0..=usize::from(self.twice) {
            acts.push(self.kind.text(&arrival.id()).map_or_else(|fault| fault, |text| event(&text)));
        }
        acts.push(McpAct::Write(b"0\r\n\r\n".to_vec()));
        acts
    }
}

impl McpReplyKind {
    /// The text of the answer, or what happens in its place.
    fn text(&self, id: &Value) -> Result<String, McpAct> {
        match self {
            McpReplyKind::Result(result) => {
                Ok(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
            }
            McpReplyKind::Error { code, message } => Ok(error_text(id, *code, message)),
            McpReplyKind::Garbage => Ok("{\"jsonrpc\": \"2.0\", \"id\"".to_owned()),
            McpReplyKind::Usual | McpReplyKind::Status(_) | McpReplyKind::BreaksOff => Err(McpAct::Close),
            McpReplyKind::Never => Err(McpAct::Stall),
            McpReplyKind::Endless => Err(McpAct::Endless),
        }
    }
}

/// Requests without a token for progress hear of something else.
fn progress(token: &Value) -> String {
    if token.is_null() {
        let params = json!({ "level": "info", "data": "half of it" });
        return json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }).to_string();
    }
    let params = json!({ "progressToken": token, "progress": 1, "total": 2 });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string()
}

pub(super) fn error_text(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

pub(super) fn json_answer(status: u16, headers: &[(String, String)], text: &str) -> McpAct {
    let mut headers = headers.to_vec();
    headers.push(("content-type".into(), "application/json".into()));
    with_length(status, &headers, text.as_bytes())
}

pub(super) fn status_answer(status: u16) -> McpAct {
    with_length(status, &[], b"")
}

fn with_length(status: u16, headers: &[(String, String)], body: &[u8]) -> McpAct {
    let headers = lines(headers);
    let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}content-length: {}\r\n\r\n", body.len());
    McpAct::Write([head.as_bytes(), body].concat())
}

fn lines(headers: &[(String, String)]) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// An event in an HTTP chunk of its own.
fn event(text: &str) -> McpAct {
    let event = format!("event: message\ndata: {text}\n\n");
    McpAct::Write(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes())
}
