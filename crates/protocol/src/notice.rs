//! Notices, which the channel of a user sends about all their apps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json_fields::from_name;
use crate::{
    CallId, ClientCallStatus, DocumentId, MemoryId, ProposalId, ProposalStatus, RunId, RunStatus, Seq,
    ThreadId,
};

/// A notice, by its subject.
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
    /// The name of the event of the notice.
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

/// The change of a thread or of memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeChange {
    Created,
    Changed,
    /// The thread or the memories are no longer shown.
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

/// The change of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentChange {
    Added,
    /// Every piece of the document can be found by its meaning.
    Ready,
    Deleted,
}

impl DocumentChange {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Ready => "ready",
            Self::Deleted => "deleted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// `notice:thread`: a thread as it is when the notice is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNotice {
    pub app_id: String,
    pub thread_id: ThreadId,
    pub change: NoticeChange,
    /// The title; null without a title, and for a deleted thread.
    pub title: Option<String>,
    pub pinned: bool,
    pub archived: bool,
    /// The active run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<RunId>,
    /// The newest event; pass it as `after` to follow the thread from here. 0 for a deleted thread.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
}

/// `notice:run`: a run began, waits, continues or has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunNotice {
    pub app_id: String,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// The status that the notice is about. A later notice can be about another status.
    pub status: RunStatus,
}

/// `notice:proposal`: a proposal was made, changed or decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalNotice {
    pub app_id: String,
    pub proposal_id: ProposalId,
    /// The status that the notice is about. A later notice can be about another status.
    pub status: ProposalStatus,
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// `notice:call`: a call that the client makes waits for its result, or no longer waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallNotice {
    pub app_id: String,
    pub call_id: CallId,
    /// The status that the notice is about.
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
    /// The change; `deleted` for memories that are no longer active, for any reason.
    pub change: NoticeChange,
}

/// `notice:document`: a document was added, is ready or was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentNotice {
    pub app_id: String,
    pub document_id: DocumentId,
    /// The change. Without an embedding model a document is ready at once, and `ready` is not sent.
    pub status: DocumentChange,
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
        for change in [DocumentChange::Added, DocumentChange::Ready, DocumentChange::Deleted] {
            assert_eq!(serde_json::to_value(change).unwrap(), change.name());
            assert_eq!(DocumentChange::parse(change.name()), Some(change));
        }
    }
}
