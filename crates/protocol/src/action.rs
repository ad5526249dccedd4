//! What tools do and what they work on: effects, actions, proposals, records and files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::from_name;
use crate::{ActionId, CallId, ProposalId, RecordId, RunId, ThreadId};

/// What a call does to the world. It decides what happens after a crash, who is asked first, and what can be undone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    #[default]
    Read,
    /// Changes something, and the same change again changes nothing more.
    Idempotent,
    /// Can be taken back.
    Reversible,
    /// Cannot.
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

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The user said yes.
    Confirmed,
    /// The user said no.
    Rejected,
    /// Nobody said anything in time.
    Expired,
    /// The conversation went on without an answer, or its run ended.
    Superseded,
    /// Whoever proposed it took it back.
    Withdrawn,
}

impl Decision {
    pub fn name(self) -> &'static str {
        match self {
            Decision::Confirmed => "confirmed",
            Decision::Rejected => "rejected",
            Decision::Expired => "expired",
            Decision::Superseded => "superseded",
            Decision::Withdrawn => "withdrawn",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// A tool call as the ledger tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionView {
    pub id: ActionId,
    pub tool: String,
    /// Null once erased.
    pub input: Value,
    /// Null while it is under way, and once erased.
    pub output: Value,
    /// `started`, `complete`, `failed`, `denied`, `cancelled` or `unknown`.
    pub status: String,
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
    /// Whether it was taken back.
    pub undone: bool,
    /// Whether it can be taken back now, as far as is known without trying.
    pub undoable: bool,
    /// The action that undid it.
    pub undone_by: Option<ActionId>,
    /// The action that this one took back.
    pub undo_of: Option<ActionId>,
}

/// What came of undoing all actions of a run, newest first: everything the run did is in one of the three.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoReport {
    /// The actions that were taken back, by the actions that took them back.
    pub undone: Vec<ActionView>,
    /// Those that could not be, and why.
    pub refused: Vec<UndoRefused>,
    /// What the run has proposed and the user has not decided: nothing was done, and a yes would still do it.
    pub proposals: Vec<ProposalView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoRefused {
    pub action_id: ActionId,
    pub tool: String,
    pub reason: String,
}

/// A call that waits for the user's yes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalView {
    pub id: ProposalId,
    pub app_id: String,
    pub tool: String,
    pub input: Value,
    /// Why, in the words of whoever proposed it.
    pub note: Option<String>,
    /// `open`, `confirmed`, `rejected`, `expired`, `superseded` or `withdrawn`.
    pub status: String,
    pub thread_id: Option<ThreadId>,
    /// The run that waits for it; none for one that outlives its run.
    pub run_id: Option<RunId>,
    pub call_id: Option<CallId>,
    /// What it became, once confirmed.
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
    /// Grows with each change, from 1.
    pub version: u64,
    pub data: Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A type of records, with the tools that work on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordTypeView {
    #[serde(rename = "type")]
    pub kind: String,
    /// The JSON Schema of the data.
    #[schema(value_type = Object)]
    pub schema: Value,
    pub tools: Vec<RecordToolView>,
}

/// A tool of an app that works on one type of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordToolView {
    pub name: String,
    /// `search`, `get`, `create`, `update`, `list` or `delete`.
    pub does: String,
}

/// A Markdown file of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileView {
    pub path: String,
    /// Grows with each change, from 1.
    pub version: u64,
    /// Left out in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    pub bytes: u64,
    pub updated_at: Timestamp,
}
