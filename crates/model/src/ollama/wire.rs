//! The JSON of Ollama's chat that is received. Its fields are plain values, because a field of an odd type must not
//! cost the answer.

use serde_json::Value;

/// One line of a stream, or a whole answer, which is a single line.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct OllamaChunk {
    pub(super) model: Value,
    pub(super) message: Value,
    pub(super) done: Value,
    pub(super) done_reason: Value,
    /// Tokens of the prompt.
    pub(super) prompt_eval_count: Value,
    /// Tokens of the answer.
    pub(super) eval_count: Value,
    pub(super) error: Value,
}
