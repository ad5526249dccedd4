//! The script of the upstream: the settings of a scenario, and the bytes of every event, made before a request comes.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The tool of the app `studio` that the upstream calls. It only computes.
pub(super) const TOOL: &str = "calculate";
/// Two pieces of the arguments of a call, as a model streams them.
const ARGUMENTS: [&str; 2] = ["{\"expression\":", "\"17.5 / 100 * 2480\"}"];
const CALLS: usize = 2;
/// Stands for the number of the request in the bytes of a tool call; the number has as many digits.
const NUMBER_MARK: &str = "00000000";
const MODEL: &str = "gpt-4o-mini";
const CREATED: u64 = 1_700_000_000;
const PROMPT_TOKENS: usize = 10;

/// The settings that a scenario gives to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerScript {
    pub(super) chunks: usize,
    pub(super) first_ms: u64,
    pub(super) gap_ms: u64,
    /// Whether the first answer of a run is two tool calls.
    pub(super) tools: bool,
    /// Whether each chunk waits until the client has the one before it.
    #[serde(default)]
    pub(super) in_step: bool,
}

impl AnswerScript {
    pub(super) fn first_delay(&self) -> Duration {
        Duration::from_millis(self.first_ms)
    }

    pub(super) fn gap(&self) -> Duration {
        Duration::from_millis(self.gap_ms)
    }

    /// Returns these answers without any delay.
    pub(super) fn at_once(self) -> Self {
        Self { first_ms: 0, gap_ms: 0, in_step: false, ..self }
    }

    /// How long the upstream takes for an answer by itself.
    pub(super) fn ideal_turn(&self) -> Duration {
        let gaps = u32::try_from(self.chunks.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_delay() + self.gap() * gaps
    }
}

/// The bytes of the answers, each event with its frame of HTTP around it.
pub(super) struct AnswerBytes {
    pub(super) script: AnswerScript,
    /// The head of the answer and the chunk with the role.
    pub(super) opening: Bytes,
    pub(super) contents: Vec<Bytes>,
    /// The finish chunk, the usage chunk, and `[DONE]` with the end of the body.
    pub(super) ending: [Bytes; 3],
    calls: Vec<Vec<u8>>,
    calls_ending: [Bytes; 3],
    /// The whole answer, for requests that ask for no stream.
    pub(super) text: String,
}

impl AnswerBytes {
    pub(super) fn new(script: AnswerScript) -> Self {
        let words: Vec<String> = (0..script.chunks).map(|number| format!("w{number} ")).collect();
        let content = |word: &String| event_chunk(&chunk(&json!({ "content": word }), None));
        let opening = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let role = event_chunk(&chunk(&json!({ "role": "assistant", "content": "" }), None));
        Self {
            script,
            opening: [opening.as_bytes(), &role].concat().into(),
            contents: words.iter().map(content).collect(),
            ending: end_events("stop", script.chunks),
            calls: (0..CALLS).flat_map(call_events).map(|event| event_chunk(&event).to_vec()).collect(),
            calls_ending: end_events("tool_calls", CALLS),
            text: words.concat(),
        }
    }

    /// The events of two tool calls, whose ids have the number of the request.
    pub(super) fn tool_calls(&self, request: u64) -> Vec<Bytes> {
        let number = format!("{request:0width$}", width = NUMBER_MARK.len());
        let finder = memchr::memmem::Finder::new(NUMBER_MARK);
        let numbered = self.calls.iter().map(|event| {
            let mut event = event.clone();
            let place = finder.find(&event).and_then(|at| event.get_mut(at..at + NUMBER_MARK.len()));
            if let Some(place) = place.filter(|place| place.len() == number.len()) {
                place.copy_from_slice(number.as_bytes());
            }
            Bytes::from(event)
        });
        numbered.chain(self.calls_ending.iter().cloned()).collect()
    }

    /// The answer to a request without a stream.
    pub(super) fn complete(&self) -> Value {
        json!({
            "id": "chatcmpl-bench", "object": "chat.completion", "created": CREATED, "model": MODEL,
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": self.text }, "finish_reason": "stop",
            }],
            "usage": usage(self.script.chunks),
        })
    }
}

/// The list of models that a provider offers.
pub(super) fn models() -> Value {
    json!({
        "object": "list",
        "data": [{ "id": MODEL, "object": "model", "created": CREATED, "owned_by": "bench" }],
    })
}

fn call_events(index: usize) -> Vec<String> {
    let begin = json!({ "tool_calls": [{
        "index": index, "id": format!("call_{NUMBER_MARK}_{index}"), "type": "function",
        "function": { "name": TOOL, "arguments": "" },
    }]});
    let piece = |text| json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] });
    let pieces = ARGUMENTS.into_iter().map(|text| chunk(&piece(text), None));
    std::iter::once(chunk(&begin, None)).chain(pieces).collect()
}

fn end_events(finish: &str, tokens: usize) -> [Bytes; 3] {
    let usage = json!({
        "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL,
        "choices": [], "usage": usage(tokens),
    });
    let done = [&event_chunk("[DONE]") as &[u8], b"0\r\n\r\n"].concat();
    [event_chunk(&chunk(&json!({}), Some(finish))), event_chunk(&usage.to_string()), done.into()]
}

fn usage(tokens: usize) -> Value {
    json!({
        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens,
    })
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    json!({
        "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL,
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
    })
    .to_string()
}

/// An event, as a chunk of a body.
fn event_chunk(data: &str) -> Bytes {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len()).into()
}
