//! What events say of prompts: what went into one, what it cost, and what stands for the older parts of a conversation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json_fields::is_default;
use crate::{Forgetting, MessageId, PinId, Remembered, Seq, SummaryId};

/// What was loaded from outside the log, so that the prompt stays a function of the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextLoaded {
    /// Ids of the memories in the prompt.
    pub memories: Vec<String>,
    /// Ids of messages of earlier conversations in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<String>,
    /// What the message asked to remember, and what came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Remembered>,
    /// What the message asked to forget, and what came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgetting: Option<Forgetting>,
    /// What the message asked to pin, and what came of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
    /// Ids of the summaries in the prompt.
    pub summaries: Vec<String>,
    /// Ids of the pins in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// The persona that speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Names of the app's context sections in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<String>,
    /// Ids of the documents of which something is in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// Ids of the documents of the app itself of which something is in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<String>,
    /// Tools that reach outside and whose words are in the earlier messages of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// Ids of the user's messages in the prompt, this run's or earlier ones, that hold text which reads like instructions
    /// to an assistant, as a pasted letter may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspicious: Vec<String>,
    /// Which of the earlier messages of the path are in the prompt. Absent in logs of older servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Stretch>>,
    /// Bytes to which longer ones of these messages are shortened, where not all of them fit whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_bytes: Option<u64>,
    /// How the proposals of this conversation that outlive their runs stand, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<String>,
    /// The date the model is told.
    pub date: String,
    /// Ids of memories in the prompt whose day has come. A memory counts as used once an answer names it or speaks of it;
    /// until then the next prompt shows it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<String>,
    /// Texts from outside the log that the prompt is made of. They are kept beside it, where forgetting reaches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// What there was no room for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What was asked for and could not be had.
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

/// A text that is kept beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// The fragment of the prompt it belongs to.
    pub fragment: String,
    /// What it comes from, by id; when that is deleted, so is the text.
    pub source: String,
    /// Names the text.
    pub hash: String,
    /// Whether it reads like instructions to an assistant rather than like data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspicious: bool,
}

/// Something that was asked for and could not be had; the run went on without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    pub code: String,
    pub message: String,
}

/// A message asked to pin something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pinned {
    /// The pin, if there is one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin_id: Option<PinId>,
    /// The answer: no model is needed for one.
    pub reply: String,
}

/// Something from outside the conversation that is in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// Such as `document`.
    pub kind: String,
    pub id: String,
    pub title: String,
    /// Where in it, for people.
    pub place: String,
}

/// A summary of a stretch of a path. Its text is kept beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub summary_id: SummaryId,
    /// 0 for one of messages; one more than the highest of those it is made of for one of summaries.
    pub level: u32,
    /// The message before the first it covers; another summary may end there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_message_id: Option<MessageId>,
    /// The first and the last message it covers.
    pub from_message_id: MessageId,
    pub to_message_id: MessageId,
    /// Their places in the log.
    #[schema(value_type = u64)]
    pub from: Seq,
    #[schema(value_type = u64)]
    pub to: Seq,
    /// How many messages it covers.
    pub messages: u32,
    /// The summaries it takes the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<SummaryId>,
    /// Names its text.
    pub hash: String,
}

/// What a prompt was made of, in tokens as they were counted before it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptLedger {
    pub tokens: u64,
    /// What the model takes, less what its answer may need.
    pub limit: u64,
    /// Whether they were counted as the model counts them, rather than estimated.
    pub exact: bool,
    pub fragments: Vec<FragmentCost>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Bytes to which results of this run's own calls were cut, where that was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Earlier exchanges that were dropped for want of room, the oldest ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped_exchanges: u64,
    /// Images of earlier messages that were shown beside those of the message itself. Absent where no image was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_images: Option<u64>,
    /// Fragments that were left out whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Bytes to which the message itself was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
}

/// What one fragment takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FragmentCost {
    pub fragment: String,
    pub tokens: u64,
}

/// What would have been in a prompt, had there been room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    pub fragment: String,
    /// How much, for people.
    pub what: String,
    pub tokens: u64,
}
