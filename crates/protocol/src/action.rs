//! The changes by tools, and their objects: effects, actions, proposals, records and files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{ActionId, ActionStatus, CallId, ProposalId, ProposalStatus, RecordId, RunId, ThreadId};

/// The kind of change that a call makes. Recovery after a crash, approval and undo depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    #[default]
    Read,
    /// Changes something, and has no further effect if it is repeated.
    Idempotent,
    /// Can be undone.
    Reversible,
    /// Cannot be undone.
    Irreversible,
}

impl Effect {
    pub const ALL: [Effect; 4] = [Effect::Read, Effect::Idempotent, Effect::Reversible, Effect::Irreversible];

    pub fn name(self) -> &'static str {
        match self {
            Effect::Read => "read",
            Effect::Idempotent => "idempotent",
            Effect::Reversible => "reversible",
            Effect::Irreversible => "irreversible",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.name() == name)
    }
}

/// A tool call as the ledger has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionView {
    pub id: ActionId,
    pub tool: String,
    /// The arguments; null once erased.
    pub input: Value,
    /// The result; null until the call has ended, and once erased.
    pub output: Value,
    pub status: ActionStatus,
    pub effect: Effect,
    pub started_at: Timestamp,
    pub duration_ms: Option<u64>,
    pub user_id: String,
    /// The holder of the acting key that spoke for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    pub app_id: String,
    pub thread_id: Option<ThreadId>,
    pub run_id: Option<RunId>,
    pub step: Option<u32>,
    /// Whether the action was undone.
    pub undone: bool,
    /// Whether the action can be undone now, as far as this is known without a try.
    pub undoable: bool,
    /// The action that undid this action.
    pub undone_by: Option<ActionId>,
    /// The action that this action undid.
    pub undo_of: Option<ActionId>,
}

/// The result of the undo of a run. Each change that the run made or proposed is in one of the three lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoReport {
    /// The actions that were undone, in the order in which they were undone.
    pub undone: Vec<ActionView>,
    /// The actions that could not be undone, with the reasons.
    pub refused: Vec<UndoRefused>,
    /// Open proposals of the run. They changed nothing yet; an approval still runs them.
    pub proposals: Vec<ProposalView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoRefused {
    pub action_id: ActionId,
    pub tool: String,
    pub reason: String,
}

/// A tool call that waits for the user's approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalView {
    pub id: ProposalId,
    pub app_id: String,
    pub tool: String,
    pub input: Value,
    /// The reason that was given with the proposal.
    pub note: Option<String>,
    pub status: ProposalStatus,
    pub thread_id: Option<ThreadId>,
    /// The run that waits for the decision; null for a proposal that outlives its run.
    pub run_id: Option<RunId>,
    pub call_id: Option<CallId>,
    /// The action of the proposal, once it is confirmed.
    pub action_id: Option<ActionId>,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    pub decided_at: Option<Timestamp>,
}

/// A typed object of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordView {
    pub id: RecordId,
    #[serde(rename = "type")]
    pub kind: String,
    /// The version, which grows with each change, from 1.
    pub version: u64,
    pub data: Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A type of records, with the tools for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordTypeView {
    #[serde(rename = "type")]
    pub kind: String,
    /// The JSON Schema of the data.
    #[schema(value_type = Object)]
    pub schema: Value,
    pub tools: Vec<RecordToolView>,
}

/// A tool of an app for one type of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordToolView {
    pub name: String,
    /// The operation: `search`, `get`, `create`, `update`, `list` or `delete`.
    pub does: String,
}

/// A Markdown file of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileView {
    pub path: String,
    /// The version, which grows with each change, from 1.
    pub version: u64,
    /// The content, which lists leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    pub bytes: u64,
    pub updated_at: Timestamp,
}
