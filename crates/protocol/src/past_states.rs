//! What the API gives of earlier states: versions of records and files, and what an undo would bring back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::ActionId;

/// A version of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordVersionView {
    pub version: u64,
    /// Null if the record was deleted.
    pub data: Option<Value>,
    pub deleted: bool,
    /// When this version was made.
    pub updated_at: Timestamp,
    /// The action that made it; absent if the user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
}

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileVersionView {
    pub version: u64,
    /// Null if the file was deleted.
    pub content: Option<String>,
    pub deleted: bool,
    /// When this version was made.
    pub updated_at: Timestamp,
    /// The action that made it; absent if the user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
}

/// What an undo of one action would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoPreview {
    pub action_id: ActionId,
    pub tool: String,
    pub possible: bool,
    /// Why it is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In the order in which they would be made. Empty if the undo is not possible.
    pub changes: Vec<UndoChange>,
}

/// What an undo of all actions of a run would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunUndoPreview {
    /// Whether the undo of at least one action is possible.
    pub possible: bool,
    /// Why nothing is possible before the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Newest first, as they would be undone. Actions that changed nothing are left out.
    pub actions: Vec<UndoPreview>,
}

/// One change that an undo would make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoChange {
    /// `record`, `file`, `memory`, `profile` or `external`.
    pub kind: String,
    /// The id of a record or a memory, the path of a file, `profile`, or the name of the tool.
    pub id: String,
    /// The type of a record, or the method and the address of the request to an external system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The content as it is now; null if there is none.
    pub before: Value,
    /// The content after the undo; null if there is none. For `external`, the request without its headers.
    pub after: Value,
    /// True if the contents are left out, because all of them together are too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contents_left_out: bool,
}
