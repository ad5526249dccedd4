//! Responses about earlier states: versions of records and files, and previews of an undo.

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
    /// The data; null if the record was deleted.
    pub data: Option<Value>,
    pub deleted: bool,
    /// The time of this version.
    pub updated_at: Timestamp,
    /// The action that made this version; absent if the user made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
}

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileVersionView {
    pub version: u64,
    /// The content; null if the file was deleted.
    pub content: Option<String>,
    pub deleted: bool,
    /// The time of this version.
    pub updated_at: Timestamp,
    /// The action that made this version; absent if the user made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
}

/// A preview of the undo of one action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoPreview {
    pub action_id: ActionId,
    pub tool: String,
    pub possible: bool,
    /// The reason why the undo is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The changes in the order in which they would be made. Empty if the undo is not possible.
    pub changes: Vec<UndoChange>,
}

/// A preview of the undo of all actions of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunUndoPreview {
    /// Whether the undo of at least one action is possible.
    pub possible: bool,
    /// The reason why no undo is possible before the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The actions, newest first, as they would be undone. Actions that changed nothing are left out.
    pub actions: Vec<UndoPreview>,
}

/// One change that an undo would make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoChange {
    /// The kind of object: `record`, `file`, `memory`, `profile` or `external`.
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
    /// Whether the contents are left out, because all of them together are too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contents_left_out: bool,
}
