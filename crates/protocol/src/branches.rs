//! What the API takes and gives of the branches of a thread, and of a search for threads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{MessageId, Role, RunId, ThreadView};

/// A page of all messages of a thread, whatever branch they are on, oldest first.
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
    /// Its beginning.
    pub text: String,
    pub run_id: Option<RunId>,
    pub created_at: Timestamp,
}

/// Which branch of a thread is to be shown.
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
    /// Whether its title has all words of the search.
    pub title_match: bool,
    /// Its messages that match best, best first.
    pub matches: Vec<MessageMatch>,
}

/// A message that a search has found in a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageMatch {
    pub message_id: MessageId,
    pub role: Role,
    /// The part of the message around the first word that was looked for.
    pub text: String,
    pub created_at: Timestamp,
}
