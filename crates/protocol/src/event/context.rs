//! Bodies of events about prompts: the items of a prompt, their costs, and the summaries of older parts of a
//! conversation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json_fields::is_default;
use crate::{Forgetting, MessageId, PinId, Remembered, Seq, SummaryId};

/// The items that were loaded from outside the log, so that the prompt stays a function of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextLoaded {
    /// Ids of the memories in the prompt.
    pub memories: Vec<String>,
    /// Ids of messages of earlier conversations in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<String>,
    /// The request of the message to remember something, and its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Remembered>,
    /// The request of the message to forget something, and its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgetting: Option<Forgetting>,
    /// The request of the message to pin something, and its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
    /// Ids of the summaries in the prompt.
    pub summaries: Vec<String>,
    /// Ids of the pins in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// The persona of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Names of the app's context sections in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<String>,
    /// Ids of the documents with a piece in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// Ids of the app's own documents with a piece in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<String>,
    /// External tools with output in the earlier messages of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// Ids of messages of the user in the prompt with text that reads like instructions to an assistant, such as a
    /// pasted letter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspicious: Vec<String>,
    /// The earlier messages of the path that are in the prompt. Absent in logs of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Stretch>>,
    /// The bytes to which longer messages of these are shortened, if not all of them fit whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_bytes: Option<u64>,
    /// The proposals of this conversation that outlive their runs, with their statuses, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<String>,
    /// The date in the prompt.
    pub date: String,
    /// Ids of memories in the prompt that are due. A memory counts as used once an answer names it or is about it;
    /// until then the next prompt shows it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<String>,
    /// Texts of the prompt from outside the log. They are stored beside it, where they can be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Items that did not fit into the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Requested items that were not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// Messages of a path from one place in the log to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stretch {
    #[schema(value_type = u64)]
    pub from: Seq,
    #[schema(value_type = u64)]
    pub to: Seq,
}

/// A text that is stored beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// The fragment of the prompt that the text belongs to.
    pub fragment: String,
    /// The id of the source. If the source is deleted, so is the text.
    pub source: String,
    /// The hash of the text.
    pub hash: String,
    /// Whether the text reads like instructions to an assistant rather than like data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspicious: bool,
}

/// A warning about a requested item that was not available. The run continued without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    pub code: String,
    pub message: String,
}

/// The outcome of a request to pin something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pinned {
    /// The pin, if there is one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_id: Option<PinId>,
    /// The answer, which no model is needed for.
    pub reply: String,
}

/// An item from outside the conversation that is in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The kind of item, such as `document`.
    pub kind: String,
    pub id: String,
    pub title: String,
    /// The place within the item, for people.
    pub place: String,
}

/// A summary of a part of a path. Its text is stored beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub summary_id: SummaryId,
    /// The level: 0 for a summary of messages. A summary of summaries is one level above the highest of them.
    pub level: u32,
    /// The message before the first one that the summary covers. Another summary can end there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_message_id: Option<MessageId>,
    /// The first message that the summary covers.
    pub from_message_id: MessageId,
    /// The last message that the summary covers.
    pub to_message_id: MessageId,
    /// The place of the first message in the log.
    #[schema(value_type = u64)]
    pub from: Seq,
    /// The place of the last message in the log.
    #[schema(value_type = u64)]
    pub to: Seq,
    /// The number of messages that the summary covers.
    pub messages: u32,
    /// The summaries that this one replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<SummaryId>,
    /// The hash of the text.
    pub hash: String,
}

/// The parts of a prompt, in tokens as they were counted before it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptLedger {
    pub tokens: u64,
    /// The context window of the model, less the room for its answer.
    pub limit: u64,
    /// Whether the tokens were counted as the model counts them, rather than estimated.
    pub exact: bool,
    pub fragments: Vec<FragmentCost>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The bytes to which results of this run's own calls were cut, if that was necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The number of earlier exchanges that were dropped for lack of room, the oldest ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped_exchanges: u64,
    /// The number of images of earlier messages in the prompt, beside those of the message itself. Absent if no image
    /// was in the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_images: Option<u64>,
    /// The names of fragments that were left out completely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// The bytes to which the message itself was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
}

/// The tokens of one fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FragmentCost {
    pub fragment: String,
    pub tokens: u64,
}

/// An item that did not fit into a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    pub fragment: String,
    /// The amount that was left out, for people.
    pub what: String,
    pub tokens: u64,
}
