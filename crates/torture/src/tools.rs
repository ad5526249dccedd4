//! The tools: one server, a path a tool. Every request that arrives is written down before anything is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::listen::{RawRequest, Reader, Watched, header, listen};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::task::JoinSet;

use crate::private_words::PrivateWords;
use crate::record::{Book, ToolRequestRecord, Trigger};
use crate::stage::Moments;

/// How long a reply is held back when a kill is about to follow, so that it comes before it.
const HELD: Duration = Duration::from_millis(100);
/// The shortest and the longest wait of `slow`.
const SLOW_MS: (u64, u64) = (200, 800);
/// Bytes of the answer of `huge`: more than any reader takes.
const HUGE: usize = 11 * 1024 * 1024;
/// Bytes that are written at once.
const CHUNK: usize = 64 * 1024;
/// Tools that change something: a kill around one of them hurts most.
const ACTING: [&str; 5] = ["put", "pay", "book", "unbook", "ask"];
/// A line of what `huge` answers.
const LINE: &str = "There is more where this comes from, and nobody has asked for any of it.\n";
/// One of this number of answers repeats the secret that came with its request.
const ECHOES: u64 = 5;

/// Dropping it closes its socket and every connection.
pub(crate) struct ToolServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) book: Book,
    pub(crate) moments: Moments,
    pub(crate) private_words: PrivateWords,
    /// The secret that a request must come with.
    pub(crate) secret: String,
}

impl ToolServer {
    pub(crate) async fn start(bench: Bench) -> Self {
        let shared = Arc::new(Watched::<()>::default());
        let serve = move |stream, _| serve(stream, bench.clone());
        let (address, tasks) = listen(&shared, serve).await;
        Self { address, _tasks: tasks }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(mut stream: TcpStream, bench: Bench) {
    let (reader, mut writer) = stream.split();
    let mut reader = Reader::new(reader);
    while let Some(request) = reader.request().await {
        if !bench.answer(&request, &mut writer).await {
            return;
        }
    }
}

/// The answer to a call.
struct ToolAnswer {
    kind: &'static str,
    body: Vec<u8>,
}

impl Bench {
    /// Takes note of a request and answers it. False if the client is gone.
    async fn answer(&self, request: &RawRequest, writer: &mut WriteHalf<'_>) -> bool {
        let tool = request.target.trim_start_matches('/').to_owned();
        let input: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let authorization = header(&request.headers, "authorization").unwrap_or_default();
        let is_known = authorization.strip_prefix("Bearer ") == Some(self.secret.as_str());
        let number = self.note_arrival(&tool, request, &input);
        let acts = ACTING.contains(&tool.as_str());
        if acts && self.moments.is_wanted(Trigger::ToolArrived) {
            self.moments.note(Trigger::ToolArrived, self.owner(&input));
            tokio::time::sleep(HELD).await;
        }
        let n = input.get("n").and_then(Value::as_u64).unwrap_or_default();
        if tool == "slow" {
            let (least, most) = SLOW_MS;
            tokio::time::sleep(Duration::from_millis(least + n.wrapping_mul(137) % (most - least))).await;
        }
        if !is_known {
            self.book.note_complaint(format!("{tool} was asked without its secret"));
        }
        let key = header(&request.headers, "idempotency-key").unwrap_or_default();
        let echo = n.is_multiple_of(ECHOES).then_some(authorization);
        let sent = send(writer, &result(&tool, (&input, n), key, echo)).await;
        if sent {
            self.book.note_tool_reply(number);
            if acts {
                self.moments.note(Trigger::ToolReplied, self.owner(&input));
            }
        }
        sent
    }

    /// The node whose request this is, as far as the model knows.
    fn owner(&self, input: &Value) -> usize {
        self.book.owner(input.get("tag").and_then(Value::as_str).unwrap_or_default())
    }

    fn note_arrival(&self, tool: &str, request: &RawRequest, input: &Value) -> usize {
        let body = String::from_utf8_lossy(&request.body);
        self.book.note_tool_request(ToolRequestRecord {
            tool: tool.to_owned(),
            key: header(&request.headers, "idempotency-key").unwrap_or_default().to_owned(),
            tag: input.get("tag").and_then(Value::as_str).unwrap_or_default().to_owned(),
            arguments: spelt_arguments(input),
            at: self.book.now(),
            replied: None,
            canaries: self.private_words.owners(&body),
        })
    }
}

/// The arguments that every tool has, always in the same words.
fn spelt_arguments(input: &Value) -> String {
    let of = |name: &str| input.get(name).unwrap_or(&Value::Null);
    json!({"tag": of("tag"), "n": of("n"), "canary": of("canary")}).to_string()
}

fn result(tool: &str, (input, n): (&Value, u64), key: &str, echo: Option<&str>) -> ToolAnswer {
    match tool {
        "huge" => ToolAnswer { kind: "text/plain; charset=utf-8", body: huge_output() },
        "garbage" if n.is_multiple_of(2) => {
            ToolAnswer { kind: "application/json", body: b"{\"a\": [1, ".to_vec() }
        }
        "garbage" => {
            ToolAnswer { kind: "text/plain; charset=utf-8", body: vec![b'a', 0xff, 0xfe, 0xc3, b'b'] }
        }
        _ => {
            let mut answer = json!({"tool": tool, "tag": input.get("tag"), "n": n, "booking": key});
            if let (Some(object), Some(echo)) = (answer.as_object_mut(), echo) {
                object.insert("echo".into(), echo.into());
            }
            ToolAnswer { kind: "application/json", body: answer.to_string().into_bytes() }
        }
    }
}

fn huge_output() -> Vec<u8> {
    LINE.bytes().cycle().take(HUGE).collect()
}

async fn send(writer: &mut WriteHalf<'_>, answer: &ToolAnswer) -> bool {
    let (kind, length) = (answer.kind, answer.body.len());
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    let whole = [head.as_bytes(), &answer.body].concat();
    for chunk in whole.chunks(CHUNK) {
        if writer.write_all(chunk).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_spelt_the_same_whatever_their_order() {
        let one = json!({"n": 3, "tag": "a"});
        let two = json!({"tag": "a", "n": 3, "booking": "x"});
        assert_eq!(spelt_arguments(&one), spelt_arguments(&two));
        assert_ne!(spelt_arguments(&one), spelt_arguments(&json!({"tag": "a", "n": 4})));
    }

    #[test]
    fn what_is_booked_can_be_named_and_garbage_is_garbage() {
        let input = json!({"tag": "a", "n": 5});
        let booked = result("book", (&input, 5), "call_1", Some("Bearer x"));
        let booked: Value = serde_json::from_slice(&booked.body).unwrap();
        assert_eq!((&booked["booking"], &booked["echo"]), (&json!("call_1"), &json!("Bearer x")));
        assert!(serde_json::from_slice::<Value>(&result("garbage", (&input, 2), "", None).body).is_err());
        assert!(String::from_utf8(result("garbage", (&input, 1), "", None).body).is_err());
        assert_eq!(result("huge", (&input, 1), "", None).body.len(), HUGE);
    }
}
