//! What the upstream does with a request.

mod render;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Holds a reply back until the test lets it go on, so that no test needs to sleep.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    reached: CancellationToken,
    open: CancellationToken,
}

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the reply go on, now or when it comes here.
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
pub struct Call {
    name: String,
    arguments: String,
    id: Option<String>,
    indexed: bool,
    fragment: usize,
}

impl Call {
    /// `arguments` is sent as it is, valid JSON or not. The id is `call_0`, `call_1` and so on unless one is given.
    pub fn new(name: &str, arguments: &str) -> Self {
        Self { name: name.into(), arguments: arguments.into(), id: None, indexed: true, fragment: usize::MAX }
    }

    /// Any id, also an empty one, which is sent as null.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..self }
    }

    /// Leaves out the index, as some servers do.
    #[must_use]
    pub fn without_index(self) -> Self {
        Self { indexed: false, ..self }
    }

    /// Sends the arguments in fragments of so many characters.
    #[must_use]
    pub fn fragments(self, characters: usize) -> Self {
        Self { fragment: characters.max(1), ..self }
    }

    fn deltas(self, index: usize) -> Vec<Value> {
        let characters: Vec<char> = self.arguments.chars().collect();
        let mut fragments = characters.chunks(self.fragment).map(String::from_iter);
        let id = self.id.unwrap_or_else(|| format!("call_{index}"));
        let id = Some(id).filter(|id| !id.is_empty());
        let first =
            if self.fragment == usize::MAX { fragments.next().unwrap_or_default() } else { String::new() };
        let mut calls =
            vec![json!({"id": id, "type": "function", "function": {"name": self.name, "arguments": first}})];
        calls.extend(fragments.map(|arguments| json!({"function": {"arguments": arguments}})));
        let delta = |mut call: Value| {
            if let Some(call) = call.as_object_mut().filter(|_| self.indexed) {
                call.insert("index".into(), index.into());
            }
            json!({"tool_calls": [call]})
        };
        calls.into_iter().map(delta).collect()
    }
}

/// One reply. A stream is built from left to right and ends by itself with a finish reason, usage and `[DONE]`:
///
/// ```
/// # use testkit::upstream::{Call, Gate, Reply};
/// let gate = Gate::new();
/// Reply::stream().reasoning("Hm.").text("Hel").wait(&gate).text("lo").finish("length");
/// Reply::stream().call(Call::new("search", r#"{"query":"x"}"#).fragments(3)).usage(100, 20);
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
    calls: usize,
    tail: Option<Tail>,
    splits: Vec<usize>,
    cut: Option<(usize, Act)>,
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
    /// A chunk of a stream.
    Chunk(Value),
    Wait(Gate),
    Stall,
}

/// How a stream ends, and which model it names.
#[derive(Debug, Clone)]
struct Tail {
    model: Option<String>,
    finish: Option<String>,
    usage: Option<(u64, u64)>,
    done: bool,
    whole: bool,
}

/// What the socket is told to do.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Write(Vec<u8>),
    Wait(Gate),
    Stall,
    Close,
    Reset,
}

impl Reply {
    /// An empty stream, to be filled.
    pub fn stream() -> Self {
        let tail = Tail { model: None, finish: None, usage: Some((10, 5)), done: true, whole: true };
        let reply = Self { tail: Some(tail), ..Self::bare(200, Framing::Chunked) };
        reply.header("content-type", "text/event-stream")
    }

    /// A stream that says this and stops.
    pub fn says(text: &str) -> Self {
        Self::stream().text(text)
    }

    /// An error without a body; give it one with [`Self::body`] or [`Self::error`].
    pub fn status(status: u16) -> Self {
        Self::bare(status, Framing::Length)
    }

    /// One JSON text with status 200.
    pub fn json(body: &Value) -> Self {
        Self::status(200).header("content-type", "application/json").body(body.to_string())
    }

    /// An event stream of exactly these bytes.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::bare(200, Framing::Chunked).header("content-type", "text/event-stream").body(body)
    }

    /// Exactly these bytes on the socket, head and all, then the end of the connection.
    pub fn raw(response: impl Into<Vec<u8>>) -> Self {
        Self::bare(200, Framing::Raw).body(response)
    }

    /// Nothing at all until the client goes away.
    pub fn silence() -> Self {
        Self::stream().stall()
    }

    fn bare(status: u16, framing: Framing) -> Self {
        let (headers, steps, splits) = (Vec::new(), Vec::new(), Vec::new());
        Self { status, headers, framing, steps, calls: 0, tail: None, splits, cut: None }
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

    /// An error body as OpenAI writes it.
    #[must_use]
    pub fn error(self, kind: &str, code: Option<&str>, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// More text, as a chunk of its own.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.delta(json!({"content": text}))
    }

    /// Reasoning, in the field most servers use for it.
    #[must_use]
    pub fn reasoning(self, text: &str) -> Self {
        self.delta(json!({"reasoning_content": text}))
    }

    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        let deltas = call.deltas(self.calls);
        self.calls += 1;
        deltas.into_iter().fold(self, Self::delta)
    }

    /// Any `delta`.
    #[must_use]
    pub fn delta(self, delta: Value) -> Self {
        let mut choice = Map::from_iter([("index".into(), 0.into()), ("finish_reason".into(), Value::Null)]);
        choice.insert("delta".into(), delta);
        self.chunk(json!({"choices": [choice]}))
    }

    /// Any chunk; `id`, `object`, `created` and `model` are added unless given.
    #[must_use]
    pub fn chunk(self, chunk: Value) -> Self {
        self.step(Step::Chunk(chunk))
    }

    /// The reason to end with; without this it is `tool_calls` if there are calls and `stop` if not.
    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.tail(|tail| tail.finish = Some(reason.to_owned()))
    }

    /// Tokens of the prompt and of the answer; 10 and 5 unless given.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.tail(|tail| tail.usage = Some((input, output)))
    }

    #[must_use]
    pub fn without_usage(self) -> Self {
        self.tail(|tail| tail.usage = None)
    }

    /// Leaves out `[DONE]`.
    #[must_use]
    pub fn without_done(self) -> Self {
        self.tail(|tail| tail.done = false)
    }

    /// Ends the body in good order, but without a finish reason, usage or `[DONE]`.
    #[must_use]
    pub fn without_end(self) -> Self {
        self.tail(|tail| tail.whole = false)
    }

    /// Names another model than the one asked for.
    #[must_use]
    pub fn model(self, name: &str) -> Self {
        self.tail(|tail| tail.model = Some(name.to_owned()))
    }

    /// Holds here until the gate is opened.
    #[must_use]
    pub fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
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

    /// Closes the connection (FIN) after so many bytes of the body. The body is then one that ends with the connection,
    /// so to the client the cut looks like an orderly end.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        Self { framing: Framing::Close, cut: Some((bytes, Act::Close)), ..self }
    }

    /// Resets the connection (RST) after so many bytes of the body.
    #[must_use]
    pub fn reset_after(self, bytes: usize) -> Self {
        Self { framing: Framing::Close, cut: Some((bytes, Act::Reset)), ..self }
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn tail(mut self, change: impl FnOnce(&mut Tail)) -> Self {
        if let Some(tail) = &mut self.tail {
            change(tail);
        }
        self
    }
}
