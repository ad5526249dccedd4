//! What a message asks of the model, as a small program inside the message: the model has no state, and derives the step
//! from the conversation it is shown, so that retries and restarts are consistent by themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The text of a message is this as JSON, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Names the message, and its run, for ever.
    pub(crate) tag: String,
    /// The user's word.
    pub(crate) canary: String,
    pub(crate) steps: Vec<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<Fault>,
    /// Milliseconds between two pieces of a reply.
    pub(crate) pace: u64,
}

/// One answer of the model: so many words, then these calls. A step without calls is the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) say: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<(String, Value)>,
}

/// What goes wrong upstream, on the first attempt at a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) step: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FaultKind {
    /// 429 with `retry-after: 0`.
    RateLimited,
    /// 503.
    Unavailable,
    /// The connection is cut half-way.
    Cut,
    /// An error event half-way.
    ErrorEvent,
}

impl Program {
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.trim()).ok()
    }
}
