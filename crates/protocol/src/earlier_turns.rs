//! Turns of a conversation of another system: a client sends them with its message, or an import brings them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{NewPart, ThreadId};

/// Earlier turns that one request or one imported thread may bring.
pub const MAX_EARLIER_TURNS: usize = 2_000;

/// A message of the user, and its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierTurn {
    /// The text of the user; empty for an answer without a question, such as a greeting.
    pub text: String,
    pub parts: Vec<NewPart>,
    /// The answer: one entry for each model call, none without an answer.
    pub steps: Vec<EarlierStep>,
    /// The time of the turn, if it is known.
    pub at: Option<Timestamp>,
}

/// One model call of an earlier answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EarlierStep {
    pub text: String,
    pub calls: Vec<EarlierCall>,
}

/// A tool call of an earlier answer. Another system made it: the model sees it, but it is not an action here.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierCall {
    /// The id from the client or the provider.
    pub id: String,
    pub name: String,
    pub input: Value,
    /// The result of the tool; none if it was lost.
    pub result: Option<String>,
    pub failed: bool,
}

/// A conversation of another system, to be stored as a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadToImport {
    /// The id of the conversation in the other system, in at most 256 bytes. A second import of the same id changes
    /// nothing.
    pub source_id: String,
    /// The title; the first words of the conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The time at which the conversation began; the time of the first turn when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The turns, oldest first, at most 2,000.
    pub turns: Vec<ImportedTurn>,
}

/// A message of the user in an imported conversation, and its answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedTurn {
    /// The text of the user; empty for an answer without a question, such as a greeting.
    #[serde(default)]
    pub text: String,
    /// The answer: one entry for each model call, none without an answer.
    #[serde(default)]
    pub steps: Vec<ImportedStep>,
    /// The time of the turn; the time of the import when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// One model call of an imported answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedStep {
    #[serde(default)]
    pub text: String,
    /// The tool calls, at most 32.
    #[serde(default)]
    pub calls: Vec<ImportedCall>,
}

/// A tool call of an imported answer. Another system made it, so it is not an action here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedCall {
    /// The id of the call in the other system.
    #[serde(default)]
    pub id: String,
    pub name: String,
    /// The arguments of the call.
    #[serde(default)]
    pub input: Value,
    /// The result of the tool; absent if it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the call failed.
    #[serde(default)]
    pub failed: bool,
}

/// The thread of an imported conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedThread {
    pub thread_id: ThreadId,
    /// Whether the conversation was imported before. If so, nothing has changed.
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
