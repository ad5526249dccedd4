//! The form that all wires have in common: an answer is parts, then an end, and each wire has its own words for them.

use serde_json::{Value, json};

use super::anthropic::Anthropic;
use super::chat::ChatSpeech;
use super::ollama::OllamaSpeech;
use super::responses::ResponsesSpeech;
use super::{ReplyPart, ReplyTail, StreamFault};
use crate::upstream::wire::Wire;

/// Seconds; every scripted answer was made at this time.
pub(super) const CREATED: u64 = 1_763_172_000;

/// One answer being put into the words of a wire. Each inner list is an event as bytes.
pub(super) trait Speech {
    fn content_type(&self) -> &'static str;
    fn part(&mut self, part: ReplyPart) -> Vec<Vec<u8>>;
    /// A failure after the answer has begun.
    fn fault(&mut self, fault: &StreamFault) -> Vec<Vec<u8>>;
    fn end(&mut self, tail: &ReplyTail) -> Vec<Vec<u8>>;
    /// All that was said as one JSON text, for a request that wants no stream. Asked for after the end.
    fn complete_body(&self) -> Value;
}

pub(super) fn speech(wire: Wire, model: String, tail: &ReplyTail) -> Box<dyn Speech> {
    match wire {
        Wire::Chat | Wire::Embeddings => Box::new(ChatSpeech::new(model)),
        Wire::Responses => Box::new(ResponsesSpeech::new(model)),
        Wire::Anthropic => Box::new(Anthropic::new(model, tail.usage)),
        Wire::Ollama => Box::new(OllamaSpeech::new(model)),
    }
}

impl ReplyTail {
    /// The reason to end with, in the words of Chat Completions.
    pub(super) fn reason(&self, has_calls: bool) -> &str {
        self.finish.as_deref().unwrap_or(if has_calls { "tool_calls" } else { "stop" })
    }
}

impl StreamFault {
    /// As the body of a response.
    pub(super) fn body(&self, wire: Wire) -> Value {
        let Self { kind, code, message } = self;
        match wire {
            Wire::Chat | Wire::Responses | Wire::Embeddings => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Wire::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Wire::Ollama => json!({"error": message}),
        }
    }
}

/// A server-sent event whose name is also in its data.
pub(super) fn named_event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// The arguments of a call as JSON; what is not JSON stays the text it is.
pub(super) fn arguments(text: &str) -> Value {
    if text.is_empty() { json!({}) } else { serde_json::from_str(text).unwrap_or_else(|_| text.into()) }
}
