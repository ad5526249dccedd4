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
