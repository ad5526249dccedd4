//! Notices: what the channel of a user tells about all their apps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CallId, ClientCallStatus, DocumentId, MemoryId, ProposalId, RunId, RunStatus, Seq, ThreadId};

/// A notice, by what it is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Notice {
    Thread(ThreadNotice),
    Run(RunNotice),
    Proposal(ProposalNotice),
    Call(CallNotice),
    Memory(MemoryNotice),
    Document(DocumentNotice),
}

impl Notice {
    /// The name of the event that brings it.
    pub fn name(&self) -> &'static str {
        match self {
            Notice::Thread(_) => "notice:thread",
            Notice::Run(_) => "notice:run",
            Notice::Proposal(_) => "notice:proposal",
            Notice::Call(_) => "notice:call",
            Notice::Memory(_) => "notice:memory",
            Notice::Document(_) => "notice:document",
        }
    }
}

/// What happened to a thread or to memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeChange {
    Created,
    Changed,
    /// It is not shown any more.
    Deleted,
}

impl NoticeChange {
    pub const ALL: [Self; 3] = [Self::Created, Self::Changed, Self::Deleted];

    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.name() == name)
    }
}

/// `notice:thread`: a thread as it is when the notice is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNotice {
    pub app_id: String,
    pub thread_id: ThreadId,
    pub change: NoticeChange,
    /// Null without a title, and for a deleted thread.
    pub title: Option<String>,
    pub pinned: bool,
    pub archived: bool,
    /// The run that is under way, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<RunId>,
    /// The newest event; pass it as `after` to follow the thread from here. 0 for a deleted thread.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
}

/// `notice:run`: a run began, waits, goes on or has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunNotice {
    pub app_id: String,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// The status that the notice tells of. A later notice may tell of another.
    pub status: RunStatus,
}

/// `notice:proposal`: a proposal was made, changed or decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalNotice {
    pub app_id: String,
    pub proposal_id: ProposalId,
    /// `open`, or how it was decided.
    pub status: String,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// `notice:call`: a call of a tool that the client runs waits for its result, or does not any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallNotice {
    pub app_id: String,
    pub call_id: CallId,
    /// The status that the notice tells of.
    pub status: ClientCallStatus,
    pub name: String,
    pub thread_id: ThreadId,
    pub run_id: RunId,
}

/// `notice:memory`: memories that changed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryNotice {
    pub app_id: String,
    pub memory_ids: Vec<MemoryId>,
    /// `deleted` for memories that are no longer active, for whatever reason.
    pub change: NoticeChange,
}

/// `notice:document`: a document was added, is ready or was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentNotice {
    pub app_id: String,
    pub document_id: DocumentId,
    /// `added`, `ready` once every piece can be found by its meaning, or `deleted`. Without a model for meanings it is ready at
    /// once, and only `added` is told.
    pub status: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_change_is_its_name_in_json() {
        for change in NoticeChange::ALL {
            assert_eq!(serde_json::to_value(change).unwrap(), change.name());
            assert_eq!(NoticeChange::parse(change.name()), Some(change));
        }
    }
}
