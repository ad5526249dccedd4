//! Turns of a conversation that was held elsewhere: a client sends them with its message, or an import brings them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{NewPart, ThreadId};

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

/// A conversation that was held elsewhere, to be stored as a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadToImport {
    /// Names the conversation where it comes from, in at most 256 bytes. A second import of the same id changes nothing.
    pub source_id: String,
    /// The first words of the conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The time of the first turn when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Oldest first, at most 2,000.
    pub turns: Vec<ImportedTurn>,
}

/// What the user said in an imported conversation, and how it was answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedTurn {
    /// Empty for an answer to nothing, such as a greeting.
    #[serde(default)]
    pub text: String,
    /// The answer, one entry for each call of a model; none if nobody answered.
    #[serde(default)]
    pub steps: Vec<ImportedStep>,
    /// When it was said; the time of the import when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// One call of a model in an imported answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedStep {
    #[serde(default)]
    pub text: String,
    /// At most 32.
    #[serde(default)]
    pub calls: Vec<ImportedCall>,
}

/// A tool call of an imported answer. It was made elsewhere, so it is no action here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedCall {
    /// The id that it had there.
    #[serde(default)]
    pub id: String,
    pub name: String,
    /// The arguments.
    #[serde(default)]
    pub input: Value,
    /// What the tool gave back; absent if that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the call failed.
    #[serde(default)]
    pub failed: bool,
}

/// The thread that an imported conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedThread {
    pub thread_id: ThreadId,
    /// Whether the conversation was imported before; then nothing has changed.
    pub already_there: bool,
}

impl From<ImportedTurn> for EarlierTurn {
    fn from(ImportedTurn { text, steps, at }: ImportedTurn) -> Self {
        let step = |ImportedStep { text, calls }| EarlierStep {
            text,
            calls: calls.into_iter().map(EarlierCall::from).collect(),
        };
        Self { text, parts: Vec::new(), steps: steps.into_iter().map(step).collect(), at }
    }
}

impl From<ImportedCall> for EarlierCall {
    fn from(ImportedCall { id, name, input, result, failed }: ImportedCall) -> Self {
        Self { id, name, input, result, failed }
    }
}
