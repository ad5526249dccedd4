//! Turns of a conversation that was held elsewhere: a client sends them with its message, or an import brings them.

use jiff::Timestamp;
use serde_json::Value;

use crate::NewPart;

/// Earlier turns that one request or one imported thread may bring.
pub const MAX_EARLIER_TURNS: usize = 2_000;

/// What the user said, and how it was answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierTurn {
    /// Empty for an answer to nothing, such as a greeting.
    pub text: String,
    pub parts: Vec<NewPart>,
    /// The answer, one entry for each call of a model; none if nobody answered.
    pub steps: Vec<EarlierStep>,
    /// When it was said, if that is known.
    pub at: Option<Timestamp>,
}

/// One call of a model in an earlier answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierStep {
    pub text: String,
    pub calls: Vec<EarlierCall>,
}

/// A tool call of an earlier answer. It was made elsewhere: it is shown to the model, but is no action of the user here.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierCall {
    /// The id that the client or the provider gave it.
    pub id: String,
    pub name: String,
    pub input: Value,
    /// What the tool gave back; none if that was lost.
    pub result: Option<String>,
    pub failed: bool,
}
