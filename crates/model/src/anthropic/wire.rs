//! The JSON of Messages that is received, as types in which any field may be missing.

use serde_json::Value;

/// One event of a stream.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicEvent {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) message: Option<AnthropicAnswer>,
    pub(super) index: Option<u64>,
    pub(super) content_block: Option<AnthropicReceivedBlock>,
    pub(super) delta: Option<AnthropicDelta>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// The beginning of an answer, or a whole one.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicAnswer {
    pub(super) model: Option<String>,
    pub(super) content: Option<Vec<AnthropicReceivedBlock>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// A block, of which only the fields of its kind are there.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicReceivedBlock {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    /// The content of a block of thinking that must not be read.
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
}

/// More of a block or, at the end, why there is no more of the answer.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicDelta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
}
