//! Requests and responses of the native API, in camelCase.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::{deserialize_present, from_object};
use crate::{
    AnswerSchema, CallId, ClientCallView, ClientTool, DocumentId, EarlierTurn, Failure, JobId, JobStatus,
    MessageId, MessagePart, NewPart, PersonaSettings, ProposalView, RunId, RunStatus, Seq, Source, ThreadId,
    ToolStatus, Usage, Warning,
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
    /// The text of the user. Required unless `regenerate` is given or `parts` has an entry.
    pub message: Option<String>,
    /// Images and documents that go with the message: at most 8 of each.
    #[serde(default)]
    pub parts: Vec<NewPart>,
    /// The thread; a new thread when absent.
    pub thread_id: Option<ThreadId>,
    /// The id of the thread, where a contract lets clients name their chats. An existing thread is continued. No
    /// request has this field.
    #[serde(skip)]
    #[schema(ignore)]
    pub chat: Option<ThreadId>,
    /// The parent of the message; the head of the thread when absent.
    pub parent_id: Option<MessageId>,
    pub regenerate: Option<Regenerate>,
    /// The name of a model; the app's model when absent.
    pub model: Option<String>,
    /// A text that is added to the app's instructions for this run.
    pub system_prompt: Option<String>,
    /// Settings of the model for this run. The `model` in them counts if the field `model` of the request is absent.
    #[serde(default, deserialize_with = "from_object")]
    pub settings: PersonaSettings,
    /// A persona of the app or of the user; the persona of the thread when absent.
    pub persona_id: Option<String>,
    /// Documents to answer from; none for an empty list, the choice of the app when absent.
    pub document_ids: Option<Vec<DocumentId>>,
    /// Tools of this run whose calls the client makes. It answers them with `POST /v1/calls/{call}/result`.
    #[serde(default)]
    pub tools: Vec<ClientTool>,
    /// The form of the answer for this run: a JSON object that the schema describes. The app's own form when absent.
    pub answer_schema: Option<AnswerSchema>,
    /// Turns that the client has and the thread does not have. They are stored before the message. No request has this
    /// field: contracts with clients that send the whole conversation set it.
    #[serde(skip)]
    #[schema(ignore)]
    pub earlier: Vec<EarlierTurn>,
    /// Fields of the request that answers in another contract repeat. No request has this field.
    #[serde(skip)]
    #[schema(ignore)]
    pub echo: Option<Value>,
    /// The treatment of the message if the thread has an active run.
    #[serde(default)]
    pub on_busy: OnBusy,
    /// True (the default) for server-sent events, false for one JSON answer at the end.
    pub stream: Option<bool>,
}

impl NewRun {
    /// The model that the request names, in either of the two fields.
    pub fn wanted_model(&self) -> Option<&str> {
        self.model.as_deref().or(self.settings.model.as_deref())
    }
}

/// The treatment of a message to a thread that has an active run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// The message waits in the queue of the thread.
    #[default]
    Queue,
    /// The message is refused with 409.
    Reject,
    /// The active run is stopped, and this message is next.
    Interrupt,
}

/// The message to answer again: `true` for the head of the thread (or for `parentId`), or the id of a message. The id
/// of an answer stands for the user message that it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected true, or the id of a message: msg_ and 32 hexadecimal digits")]
pub enum Regenerate {
    Last(bool),
    Message(MessageId),
}

/// The result of a run that was not streamed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    pub status: RunStatus,
    pub reply: String,
    /// The sum of all tokens of the run; null when no model was called.
    pub token_usage: Option<u64>,
    /// Whether a part of `tokenUsage` is an estimate, because a provider did not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_usage_estimated: bool,
    pub usage: Usage,
    pub tool_calls: Vec<ToolCallView>,
    pub tool_results: Vec<ToolResultView>,
    pub memories_referenced: Vec<String>,
    /// The answer as an object, if the app has a schema for its answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The proposals that the run waits for, when its status is `waiting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<ProposalView>,
    /// The calls that the client has to answer, when the status is `waiting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_calls: Vec<ClientCallView>,
    /// Requested items that were not available, such as an unknown persona.
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
    /// The user message that the run answers.
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
    /// The persona that answers, unless a run names another one.
    pub persona_id: Option<String>,
}

/// A change of a thread. Absent fields stay as they are.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadChange {
    pub title: Option<String>,
    /// The persona of the thread; null removes it.
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
    /// The persona that answers, unless a run names another one.
    pub persona_id: Option<String>,
    /// The active run, if there is one.
    pub active_run_id: Option<RunId>,
    /// Whether the user has pinned the thread above the others.
    #[serde(default)]
    pub pinned: bool,
    /// Whether the user has archived the thread. Lists leave it out by default.
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

/// The messages with the parent and the role of a message, including that message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Siblings {
    /// The ids of the messages, oldest first.
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
    /// The siblings of the message; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Siblings>,
    /// The reasoning of the model before its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Items from outside the conversation that were in the prompt of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The usage of the answer; absent if no model was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The milliseconds from the start of the answer's run to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The status of the answer's run, unless it is `completed`. On a message of the user, the status of its run if
    /// that run ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The failure of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub created_at: Timestamp,
}

/// A message that waits until its thread is free.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMessage {
    /// The run that will answer the message. Cancel this run to withdraw the message.
    pub run_id: RunId,
    /// The text of the message; empty if an earlier message is to be answered again.
    pub text: String,
    /// Images and documents that go with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
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
    /// A problem with the present folder of the app, so that the version before it is served, or with one of its
    /// documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A background job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    pub id: JobId,
    pub kind: String,
    pub status: JobStatus,
    /// The number of attempts that were begun.
    pub attempts: u32,
    pub app_id: String,
    pub user_id: String,
    pub thread_id: Option<ThreadId>,
    /// The time at which the job is due.
    pub run_at: Timestamp,
    /// The error of the last attempt.
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
    /// The kind of model: `cloud` or `local`.
    pub kind: String,
    /// Whether this is the default model.
    pub default: bool,
    pub streaming: bool,
    pub tools: bool,
    /// The way in which the model takes a JSON Schema for its answer: `with_tools`, `alone` or `prompt`.
    pub structured: String,
    pub vision: bool,
    /// The context window in tokens, for prompt and answer together.
    pub context_window: u32,
    /// The longest answer in tokens.
    pub max_output: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceView>,
    /// Whether the model can be called. False while its provider is paused after failures.
    pub available: bool,
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceView {
    pub input: f64,
    pub cached_input: f64,
    pub output: f64,
}

/// The usage of a user by day (UTC), app and model, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    pub data: Vec<UsageView>,
    /// The cursor, which is always null: a report is one page.
    pub next: Option<String>,
    /// The sum of all entries.
    pub total: Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// The day (UTC), such as `2026-11-15`.
    pub date: String,
    pub app_id: String,
    pub model: String,
    /// The number of model calls.
    pub calls: u64,
    #[serde(flatten)]
    pub usage: Usage,
}
