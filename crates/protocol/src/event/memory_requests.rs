//! Bodies of events about memories.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::MemoryId;

/// The outcome of a request to remember something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub outcome: RememberedOutcome,
    /// The memory with this fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<MemoryId>,
    /// The text to remember; empty if it must not be repeated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The answer, if no model is needed for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

/// The kind of outcome of a request to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RememberedOutcome {
    Saved,
    /// The fact was known already.
    Known,
    /// The text contains a secret.
    Refused,
    /// The request had nothing to save, or too much.
    NotSaid,
}

/// The outcome of a request to forget something, or of the user's answer to the question about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forgetting {
    pub outcome: ForgettingOutcome,
    /// The memories that the request is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryId>,
    /// The language of the request and of its answer, such as `en`.
    pub language: String,
    /// The answer, which no model is needed for.
    pub reply: String,
}

/// The kind of outcome of a request to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForgettingOutcome {
    /// The user is asked to confirm these memories. Nothing is forgotten yet.
    Asked,
    /// The user confirmed, and the memories are forgotten.
    Forgotten,
    /// The user declined, and the memories are kept.
    Kept,
    /// No memory matches the request.
    NothingFound,
}

/// The changes by an extraction from messages, with the ids of the memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryUpdate {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<MemoryId>,
    /// Memories that another one has replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expired: Vec<MemoryId>,
}
