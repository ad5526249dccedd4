//! The JSON of Responses that is received. Its fields are plain values, because a field of an odd type must not cost
//! the answer.

use serde_json::Value;

/// One event of a stream.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent {
    #[serde(rename = "type")]
    pub(super) kind: Value,
    pub(super) item_id: Value,
    pub(super) output_index: Value,
    pub(super) delta: Value,
    pub(super) arguments: Value,
    pub(super) item: Value,
    /// The answer so far, or as it ended.
    pub(super) response: Value,
    pub(super) error: Value,
}
