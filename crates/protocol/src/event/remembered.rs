//! What events say of memories.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::MemoryId;

/// A message asked to remember something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub outcome: RememberedOutcome,
    /// The memory that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_id: Option<MemoryId>,
    /// What was to be remembered; empty where it must not be repeated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The answer, where no model is needed for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

/// What came of a request to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RememberedOutcome {
    Saved,
    /// It was known already.
    Known,
    /// It holds a secret.
    Refused,
    /// There was nothing to save, or too much.
    NotSaid,
}

/// A message asked to forget something, or answered whether it is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forgetting {
    pub outcome: ForgettingOutcome,
    /// The memories it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryId>,
    /// The language of the request, such as `en`: its answer is in the same.
    pub language: String,
    /// The answer: no model is needed for one.
    pub reply: String,
}

/// What came of a request to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForgettingOutcome {
    /// The user is asked whether these are meant; nothing is forgotten yet.
    Asked,
    /// The user said yes.
    Forgotten,
    /// The user said no.
    Kept,
    /// Nothing is remembered that could be meant.
    NothingFound,
}

/// What looking at messages has changed, by the ids of the memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryUpdate {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<MemoryId>,
    /// Those whose place another one has taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MemoryId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expired: Vec<MemoryId>,
}
