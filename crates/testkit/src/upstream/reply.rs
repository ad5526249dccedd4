//! The upstream's reply to a request, before it is known in which wire.

mod anthropic;
mod chat;
mod ollama;
mod render;
mod responses;
mod speech;

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Holds a reply back until the test releases it, so that no test needs to sleep.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    reached: CancellationToken,
    open: CancellationToken,
}

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the reply, now or when it comes here.
    pub fn open(&self) {
        self.open.cancel();
    }

    /// Waits until a reply stands here: everything scripted before it has been written.
    pub async fn reached(&self) {
        self.reached.cancelled().await;
    }

    pub(crate) async fn pass(&self) {
        self.reached.cancel();
        self.open.cancelled().await;
    }
}

/// A tool call as the model would write it.
#[derive(Debug, Clone)]
pub struct ScriptedCall {
    name: String,
    arguments: String,
    id: Option<String>,
    indexed: bool,
    fragment: usize,
}

impl ScriptedCall {
    /// `arguments` is sent as it is, valid JSON or not. The id is `call_0`, `call_1` and so on unless one is given.
    pub fn new(name: &str, arguments: &str) -> Self {
        Self { name: name.into(), arguments: arguments.into(), id: None, indexed: true, fragment: usize::MAX }
    }

    /// Any id, also an empty one, which is sent as what the wire has for none.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..self }
    }

    /// Leaves out the index, as some servers of Chat Completions do.
    #[must_use]
    pub fn without_index(self) -> Self {
        Self { indexed: false, ..self }
    }

    /// Sends the arguments in fragments of this many characters, where the wire can.
    #[must_use]
    pub fn fragments(self, characters: usize) -> Self {
        Self { fragment: characters.max(1), ..self }
    }

    fn id_at(&self, index: usize) -> String {
        self.id.clone().unwrap_or_else(|| format!("call_{index}"))
    }

    fn is_split(&self) -> bool {
        self.fragment < usize::MAX
    }

    /// The arguments in fragments, none if they are empty.
    fn parts(&self) -> Vec<String> {
        let characters: Vec<char> = self.arguments.chars().collect();
        characters.chunks(self.fragment).map(String::from_iter).collect()
    }
}

/// One reply. A stream is built from left to right and ends by itself with a finish reason, usage and a farewell. It is
/// put into the words of the wire that the request came by, as one JSON text if the request wants no stream:
///
/// ```
/// # use testkit::upstream::{ScriptedCall, Gate, Reply};
/// let gate = Gate::new();
/// Reply::stream().reasoning("Hm.").text("Hel").wait(&gate).text("lo").finish("length");
/// Reply::stream().call(ScriptedCall::new("search", r#"{"query":"x"}"#).fragments(3)).usage(100, 20);
/// Reply::says("Hello").reset_after(200);
/// Reply::status(429).header("retry-after", "2");
/// ```
///
/// The head goes out with the first bytes, so a wait or a stall that comes first holds back everything.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    framing: Framing,
    steps: Vec<Step>,
    tail: Option<ReplyTail>,
    splits: Vec<usize>,
    cut: Option<(usize, ReplyAct)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Each step is an HTTP chunk of its own, which clients read one by one.
    Chunked,
    Length,
    /// The end of the body is the end of the connection.
    Close,
    /// The steps are the whole response, head included.
    Raw,
}

#[derive(Debug, Clone)]
enum Step {
    Head,
    Bytes(Vec<u8>),
    Part(ReplyPart),
    Fault(StreamFault),
    Wait(Gate),
    Pause(Duration),
    Stall,
}

/// Something the model says.
#[derive(Debug, Clone)]
enum ReplyPart {
    Text(String),
    Reasoning(String),
    Call(ScriptedCall),
    /// Said in Chat Completions already.
    Chunk(Value),
}

/// An error as the provider would name it.
#[derive(Debug, Clone)]
struct StreamFault {
    kind: String,
    code: Option<String>,
    message: String,
}

/// How a stream ends, and which model it names.
#[derive(Debug, Clone)]
struct ReplyTail {
    model: Option<String>,
    finish: Option<String>,
    usage: Option<(u64, u64)>,
    done: bool,
    whole: bool,
}

/// The acts of the socket.
#[derive(Debug, Clone)]
pub(super) enum ReplyAct {
    Write(Vec<u8>),
    Wait(Gate),
    Pause(Duration),
    Stall,
    Close,
    Reset,
}

impl Reply {
    /// An empty stream, to be filled.
    pub fn stream() -> Self {
        let tail = ReplyTail { model: None, finish: None, usage: Some((10, 5)), done: true, whole: true };
        Self { tail: Some(tail), ..Self::with_status(200, Framing::Chunked) }
    }

    /// A stream that says this and stops.
    pub fn says(text: &str) -> Self {
        Self::stream().text(text)
    }

    /// An error without a body; give it one with [`Self::body`] or [`Self::error`].
    pub fn status(status: u16) -> Self {
        Self::with_status(status, Framing::Length)
    }

    /// One JSON text with status 200.
    pub fn json(body: &Value) -> Self {
        Self::status(200).header("content-type", "application/json").body(body.to_string())
    }

    /// An event stream of exactly these bytes.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::with_status(200, Framing::Chunked).header("content-type", "text/event-stream").body(body)
    }

    /// A stream of lines of exactly these bytes.
    pub fn ndjson(body: impl Into<Vec<u8>>) -> Self {
        Self::with_status(200, Framing::Chunked).header("content-type", "application/x-ndjson").body(body)
    }

    /// Exactly these bytes on the socket, head and all, then the end of the connection.
    pub fn raw(response: impl Into<Vec<u8>>) -> Self {
        Self::with_status(200, Framing::Raw).body(response)
    }

    /// Nothing at all until the client goes away.
    pub fn silence() -> Self {
        Self::stream().stall()
    }

    fn with_status(status: u16, framing: Framing) -> Self {
        let (headers, steps, splits) = (Vec::new(), Vec::new(), Vec::new());
        Self { status, headers, framing, steps, tail: None, splits, cut: None }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Raw bytes of the body.
    #[must_use]
    pub fn body(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Bytes(bytes.into()))
    }

    /// An error as the provider writes it: the body of a status, or the last event of a stream that had begun well.
    /// Anthropic has no codes, and Ollama nothing but the message.
    #[must_use]
    pub fn error(self, kind: &str, code: Option<&str>, message: &str) -> Self {
        let fault = StreamFault { kind: kind.into(), code: code.map(Into::into), message: message.into() };
        let reply = if self.tail.is_some() {
            self.without_end()
        } else {
            self.header("content-type", "application/json")
        };
        reply.step(Step::Fault(fault))
    }

    /// More text, as an event of its own.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.step(Step::Part(ReplyPart::Text(text.into())))
    }

    /// Reasoning; in Chat Completions, in the field most servers use for it.
    #[must_use]
    pub fn reasoning(self, text: &str) -> Self {
        self.step(Step::Part(ReplyPart::Reasoning(text.into())))
    }

    #[must_use]
    pub fn call(self, call: ScriptedCall) -> Self {
        self.step(Step::Part(ReplyPart::Call(call)))
    }

    /// Any `delta` of Chat Completions.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "so that a test can write the JSON in place")]
    pub fn delta(self, delta: Value) -> Self {
        self.chunk(chat::delta(&delta))
    }

    /// Any chunk of Chat Completions; `id`, `object`, `created` and `model` are added unless given.
    #[must_use]
    pub fn chunk(self, chunk: Value) -> Self {
        self.step(Step::Part(ReplyPart::Chunk(chunk)))
    }

    /// The reason to end with, in the words of Chat Completions: `stop`, `length`, `tool_calls` or `content_filter`, or
    /// one of the wire's own. Without this it is `tool_calls` if there are calls and `stop` if not.
    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.change_tail(|tail| tail.finish = Some(reason.to_owned()))
    }

    /// Tokens of the prompt and of the answer; 10 and 5 unless given.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.change_tail(|tail| tail.usage = Some((input, output)))
    }

    #[must_use]
    pub fn without_usage(self) -> Self {
        self.change_tail(|tail| tail.usage = None)
    }

    /// Leaves out the farewell: `[DONE]`, or Anthropic's `message_stop`. The other wires have none.
    #[must_use]
    pub fn without_done(self) -> Self {
        self.change_tail(|tail| tail.done = false)
    }

    /// Ends the body in good order, but without a finish reason, usage or farewell.
    #[must_use]
    pub fn without_end(self) -> Self {
        self.change_tail(|tail| tail.whole = false)
    }

    /// Names another model than the one asked for.
    #[must_use]
    pub fn model(self, name: &str) -> Self {
        self.change_tail(|tail| tail.model = Some(name.to_owned()))
    }

    /// Holds here until the gate is opened.
    #[must_use]
    pub fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    /// Continues after a pause. Tests wait at a gate instead; this is for a model that writes as slowly as a real one.
    #[must_use]
    pub fn pause(self, time: Duration) -> Self {
        self.step(Step::Pause(time))
    }

    /// Holds here until the client goes away.
    #[must_use]
    pub fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Sends the head alone.
    #[must_use]
    pub fn head(self) -> Self {
        self.step(Step::Head)
    }

    /// Splits the body at these positions, each part a chunk of its own.
    #[must_use]
    pub fn split_at(mut self, positions: impl IntoIterator<Item = usize>) -> Self {
        self.splits.extend(positions);
        self.splits.sort_unstable();
        self
    }

    /// Closes the connection (FIN) after this many bytes of the body. The body is then one that ends with the
    /// connection, so to the client the cut looks like an orderly end.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        Self { framing: Framing::Close, cut: Some((bytes, ReplyAct::Close)), ..self }
    }

    /// Resets the connection (RST) after this many bytes of the body.
    #[must_use]
    pub fn reset_after(self, bytes: usize) -> Self {
        Self { framing: Framing::Close, cut: Some((bytes, ReplyAct::Reset)), ..self }
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn change_tail(mut self, change: impl FnOnce(&mut ReplyTail)) -> Self {
        if let Some(tail) = &mut self.tail {
            change(tail);
        }
        self
    }
}

/// A chunk in another wire than its own is a mistake of the test, which ends the connection.
#[expect(clippy::panic, reason = "the test must hear of it")]
fn refuse_chunk(chunk: &Value) {
    panic!("this chunk belongs to Chat Completions: {chunk}");
}
