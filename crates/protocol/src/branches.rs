//! Requests and responses about the branches of a thread, and about a search for threads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MessageId, Role, RunId, ThreadView};

/// A page of the messages of all branches of a thread, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTree {
    /// The last message of the branch that is shown.
    pub head_id: Option<MessageId>,
    pub data: Vec<TreeMessage>,
    pub next: Option<String>,
}

/// A message in the tree of its thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeMessage {
    pub id: MessageId,
    pub parent_id: Option<MessageId>,
    pub role: Role,
    /// The beginning of the text.
    pub text: String,
    pub run_id: Option<RunId>,
    pub created_at: Timestamp,
}

/// The choice of the branch of a thread that is shown.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadChoice {
    /// A message of the branch. The newest message that follows it becomes the head.
    pub message_id: MessageId,
}

/// A thread that a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadHit {
    pub thread: ThreadView,
    /// Whether the title of the thread has all words of the search.
    pub title_match: bool,
    /// The messages that match best, best first.
    pub matches: Vec<MessageMatch>,
}

/// A message that a search has found in a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageMatch {
    pub message_id: MessageId,
    pub role: Role,
    /// The part of the message around the first word of the search.
    pub text: String,
    pub created_at: Timestamp,
}
