//! What the native API takes and gives, in camelCase.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::{deserialize_present, from_object};
use crate::{
    AnswerSchema, CallId, ClientCallView, ClientTool, DocumentId, EarlierTurn, Failure, JobId, MessageId,
    MessagePart, NewPart, PersonaSettings, ProposalView, RunId, RunStatus, Seq, Source, ThreadId, ToolStatus,
    Usage, Warning,
};

/// A page of a list. `next` is the cursor of the following page.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub data: Vec<T>,
    pub next: Option<String>,
}

/// A request for a run: a new message, or another answer to an old one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRun {
    /// What the user says. Required unless `regenerate` is given or `parts` has an entry.
    pub message: Option<String>,
    /// Images and documents that go with the message: at most 8 of each.
    #[serde(default)]
    pub parts: Vec<NewPart>,
    /// The conversation; a new one is begun when absent.
    pub thread_id: Option<ThreadId>,
    /// The new conversation's id, where a contract lets clients name their chats; one that is there already is gone on
    /// with. No request says this.
    #[serde(skip)]
    #[schema(ignore)]
    pub chat: Option<ThreadId>,
    /// The message this one follows; the thread's head when absent.
    pub parent_id: Option<MessageId>,
    pub regenerate: Option<Regenerate>,
    /// A model by name; the app's when absent.
    pub model: Option<String>,
    /// Added to the app's instructions for this run.
    pub system_prompt: Option<String>,
    /// With `model`, which counts where the field beside them is absent.
    #[serde(default, deserialize_with = "from_object")]
    pub settings: PersonaSettings,
    /// Who answers: a persona of the app or of the user. The one that the thread was given when absent.
    pub persona_id: Option<String>,
    /// Documents to answer from; none for an empty list. Absent, what the app says.
    pub document_ids: Option<Vec<DocumentId>>,
    /// Tools of this run whose calls the client makes. It answers them with `POST /v1/calls/{call}/result`.
    #[serde(default)]
    pub tools: Vec<ClientTool>,
    /// The form of the answer for this run: a JSON object that the schema describes. The app's own form when absent.
    pub answer_schema: Option<AnswerSchema>,
    /// Turns that the client has and the thread has not; they are stored before the message. No request says this by
    /// itself: contracts whose clients send the whole conversation do.
    #[serde(skip)]
    #[schema(ignore)]
    pub earlier: Vec<EarlierTurn>,
    /// Fields of the request that answers in another contract repeat. No request says this by itself.
    #[serde(skip)]
    #[schema(ignore)]
    pub echo: Option<Value>,
    /// What to do when the thread is still answering.
    #[serde(default)]
    pub on_busy: OnBusy,
    /// Server-sent events when true (the default), one JSON answer at the end when false.
    pub stream: Option<bool>,
}

impl NewRun {
    /// The model that it names, in either of the two places.
    pub fn wanted_model(&self) -> Option<&str> {
        self.model.as_deref().or(self.settings.model.as_deref())
    }
}

/// What becomes of a message to a thread that is still answering.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It waits its turn.
    #[default]
    Queue,
    /// It is refused with 409.
    Reject,
    /// The run under way is stopped, and this message is next.
    Interrupt,
}

/// Which message to answer again: `true` for the one at the thread's head (or at `parentId`), or a message's id.
/// An answer's id stands for the user message it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected true, or the id of a message: msg_ and 32 hexadecimal digits")]
pub enum Regenerate {
    Last(bool),
    Message(MessageId),
}

/// The answer to a run that was not streamed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    pub status: RunStatus,
    pub reply: String,
    /// All tokens of the run together; null when no model was called.
    pub token_usage: Option<u64>,
    /// Whether any part of that number is our estimate, because a provider did not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_usage_estimated: bool,
    pub usage: Usage,
    pub tool_calls: Vec<ToolCallView>,
    pub tool_results: Vec<ToolResultView>,
    pub memories_referenced: Vec<String>,
    /// The answer as the object the app's schema describes, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What the run waits for, when its status is `waiting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<ProposalView>,
    /// The calls that the client has to answer, when the status is `waiting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_calls: Vec<ClientCallView>,
    /// What was asked for and could not be had, such as a persona that is not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub id: RunId,
    pub thread_id: ThreadId,
    pub app_id: String,
    /// The user message it answers.
    pub message_id: MessageId,
    pub status: RunStatus,
    pub model: Option<String>,
    pub error: Option<Failure>,
    pub usage: Usage,
    pub cancel_requested: bool,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewThread {
    pub title: Option<String>,
    /// Who answers in it unless a run says otherwise.
    pub persona_id: Option<String>,
}

/// What is absent stays as it is.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadChange {
    pub title: Option<String>,
    /// Null for none.
    #[serde(default, deserialize_with = "deserialize_present")]
    pub persona_id: Option<Option<String>>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadView {
    pub id: ThreadId,
    pub app_id: String,
    pub title: Option<String>,
    /// The newest message of the path that is shown.
    pub head_id: Option<MessageId>,
    pub message_count: u64,
    /// The model that answered last.
    pub model: Option<String>,
    /// Who answers in it unless a run says otherwise.
    pub persona_id: Option<String>,
    /// The run that is under way, if one is.
    pub active_run_id: Option<RunId>,
    /// Whether the user has put it above the others.
    #[serde(default)]
    pub pinned: bool,
    /// Whether the user has put it away; lists leave it out unless they are asked for it.
    #[serde(default)]
    pub archived: bool,
    /// The newest event; pass it as `after` to follow the thread from here.
    #[schema(value_type = u64)]
    pub last_seq: Seq,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

/// The messages with the parent and the role of a message, itself included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Siblings {
    /// Oldest first.
    pub ids: Vec<MessageId>,
    /// The place of the message among them, from 0.
    pub index: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    pub text: String,
    /// Images and documents that go with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    pub parent_id: Option<MessageId>,
    pub run_id: Option<RunId>,
    pub model: Option<String>,
    pub tool_calls: Vec<ToolCallView>,
    pub tool_results: Vec<ToolResultView>,
    pub memories_referenced: Vec<String>,
    /// Absent if the message has no sibling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Siblings>,
    /// What the model thought before it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Items from outside the conversation that were in the prompt of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// What the answer used; absent if no model was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// From the start of the answer's run to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How the answer's run stands or ended, unless it is `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallView {
    pub id: CallId,
    pub name: String,
    pub input: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultView {
    pub call_id: CallId,
    pub name: String,
    pub result: Value,
    pub success: bool,
    pub status: ToolStatus,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AppView {
    pub id: String,
    pub name: String,
    pub description: String,
    pub model: Option<String>,
    /// The models that a request, a persona or a thread may choose; `*` alone for all.
    #[serde(default)]
    pub models: Vec<String>,
    pub tools: Vec<String>,
    /// First messages that a front end can offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starters: Vec<String>,
    /// Why its folder, as it is now, cannot be served, and the version before it is; or why one of its documents is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Work in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    pub id: JobId,
    pub kind: String,
    /// `ready`, `running`, `done` or `dead`.
    pub status: String,
    /// Times it was begun.
    pub attempts: u32,
    pub app_id: String,
    pub user_id: String,
    pub thread_id: Option<ThreadId>,
    /// When it is due.
    pub run_at: Timestamp,
    /// Why the last attempt failed.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A model that apps and requests may name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelView {
    pub id: String,
    pub provider: String,
    /// `cloud` or `local`.
    pub kind: String,
    /// Whether it answers when nobody asks for another.
    pub default: bool,
    pub streaming: bool,
    pub tools: bool,
    /// How it takes a JSON Schema for its answer: `with_tools`, `alone` or `prompt`.
    pub structured: String,
    pub vision: bool,
    /// In tokens, prompt and answer together.
    pub context_window: u32,
    /// In tokens.
    pub max_output: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceView>,
    /// False while its provider is being left alone after failures.
    pub available: bool,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceView {
    pub input: f64,
    pub cached_input: f64,
    pub output: f64,
}

/// What a user has used, by day (UTC), app and model, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    pub data: Vec<UsageView>,
    /// Always null: a report is one page.
    pub next: Option<String>,
    /// All of `data` together.
    pub total: Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// Such as `2026-11-15`.
    pub date: String,
    pub app_id: String,
    pub model: String,
    /// Model calls.
    pub calls: u64,
    #[serde(flatten)]
    pub usage: Usage,
}
