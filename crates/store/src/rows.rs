//! Rows as the rest of the program sees them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use protocol::{
    AnswerSchema, ClientTool, DocumentId, Event, Failure, JobId, MessageId, MessagePart, OnBusy, RunId,
    RunStatus, Scope, Seq, Settings, StepEnd, Stored, ThreadId, ToolComplete, Usage, Used, UserLimits,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JobStatus, MessageRole, Stop};

#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    pub id: ThreadId,
    pub scope: Scope,
    pub title: Option<String>,
    pub head: Option<MessageId>,
    pub model: Option<String>,
    /// The persona that answers in it unless a run says otherwise.
    pub persona: Option<String>,
    pub message_count: u64,
    pub active_run: Option<RunId>,
    pub pinned: bool,
    pub archived: bool,
    pub last_seq: Seq,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThreadRow {
    pub id: ThreadId,
    pub title: Option<String>,
    pub persona: Option<String>,
}

/// A change of a thread; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadEdit {
    pub title: Option<String>,
    /// `Some(None)` removes the persona.
    pub persona: Option<Option<String>>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
}

/// Which threads to list. An absent field does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    pub archived: Option<bool>,
    pub pinned: Option<bool>,
}

/// The title of a thread, for a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTitle {
    pub id: ThreadId,
    pub title: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub id: RunId,
    pub thread: ThreadId,
    pub scope: Scope,
    /// The actor who spoke for the user, if it was not the user.
    pub actor: Option<String>,
    /// The user message it answers.
    pub message: MessageId,
    pub status: RunStatus,
    pub model: Option<String>,
    pub error: Option<Failure>,
    pub usage: Usage,
    /// How it was told to end before its time.
    pub stop: Option<Stop>,
    /// Grows with each owner; writes of an earlier one are refused.
    pub epoch: u64,
    /// The node that has it under way, if several servers share the database.
    pub owner: Option<i64>,
    /// Its first event; none while it is queued.
    pub start_seq: Option<Seq>,
    /// Its `run:end`.
    pub end_seq: Option<Seq>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Stop {
    /// How a run ends that was told to stop.
    pub fn status(self) -> RunStatus {
        match self {
            Stop::Cancelled => RunStatus::Cancelled,
            Stop::Interrupted => RunStatus::Interrupted,
        }
    }

    /// Whether an event comes too late for a run that was told to stop: it would begin something, or end the run in
    /// another way.
    pub(crate) fn forbids(self, event: &Event) -> bool {
        let begins = matches!(
            event,
            Event::ContextLoaded(_)
                | Event::StepStart(_)
                | Event::ToolStart(_)
                | Event::ProposalOpen(_)
                | Event::CallOpen(_)
        );
        begins || matches!(event, Event::RunEnd(end) if end.status != self.status())
    }
}

/// The end of a run that no process can drive, and the results of its calls that have none.
#[derive(Debug, Clone, PartialEq)]
pub struct ForcedEnd {
    pub status: RunStatus,
    pub error: Failure,
    /// The id of the answer, if anything was said.
    pub message: MessageId,
    /// The output of a call that was not begun.
    pub cancelled: Value,
    /// The output of a call that was begun, and whose result is unknown.
    pub unknown: Value,
}

/// A row of the log as found, readable or not.
#[derive(Debug, Clone, PartialEq)]
pub struct RawEvent {
    pub seq: Seq,
    pub kind: String,
    pub body: String,
}

/// A message with the rows it is made of, uninterpreted: reading them is the engine's work, and never fails.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRow {
    pub id: MessageId,
    pub role: MessageRole,
    pub parent: Option<MessageId>,
    pub run: Option<RunId>,
    pub model: Option<String>,
    /// The event that holds its text.
    pub said: Option<RawEvent>,
    /// The `step:end`s of its run, for an answer.
    pub steps: Vec<RawEvent>,
    /// The `tool:complete`s of its run, at most [`MessageRow::MAX_RESULTS`].
    pub results: Vec<RawEvent>,
    /// How many `tool:complete`s the log holds for its run.
    pub results_total: u64,
    /// Its place in the log, and so in the path.
    pub seq: Seq,
    pub created_at: Timestamp,
}

impl MessageRow {
    /// More results than this for one message are not read: no run makes more calls, so such rows are corrupt.
    pub const MAX_RESULTS: usize = 256;
}

/// A message as it is shown, with what its thread and its run say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownMessage {
    pub row: MessageRow,
    /// The messages with its parent and its role, itself included, oldest first. Empty if there is no other, and where all
    /// branches are read.
    pub siblings: Vec<MessageId>,
    /// The thoughts of the model, step by step; for an answer.
    pub reasoning: Vec<String>,
    /// The `source`s of its run, for an answer.
    pub sources: Vec<RawEvent>,
    /// The run of an answer; of a user's message, the run that ended without an answer.
    pub run: Option<AnswerRun>,
}

/// A run as the message that it made tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRun {
    pub status: RunStatus,
    /// Why it failed.
    pub error: Option<Failure>,
    pub usage: Usage,
    /// The time of its first event.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

/// A message in the tree of its thread.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeRow {
    pub id: MessageId,
    pub role: MessageRole,
    pub parent: Option<MessageId>,
    pub run: Option<RunId>,
    /// The beginning of its text; none if its event cannot be read.
    pub text: Option<String>,
    pub seq: Seq,
    pub created_at: Timestamp,
}

/// A page: what comes after a cursor, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOf<C> {
    pub after: Option<C>,
    pub limit: usize,
}

/// The rows of a page: as many as were asked for, or fewer where those have [`crate::MAX_BYTES_PER_PAGE`] bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRows<T> {
    pub rows: Vec<T>,
    /// Whether there are more after the last.
    pub more: bool,
}

/// A validated request for a run.
#[derive(Debug, Clone)]
pub struct Submission {
    pub scope: Scope,
    pub thread: Target,
    pub run: RunId,
    pub on_busy: OnBusy,
    pub once: Option<IdempotencyClaim>,
    /// Nothing new may begin; only what was asked before under the same key is found again.
    pub replay_only: bool,
    /// Limits of the user. A replay under the same key is not held against them.
    pub limits: UserLimits,
    pub request: RunRequest,
}

/// The request of a run; for a queued run it waits in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    pub ask: RunInput,
    pub model: Option<String>,
    pub settings: Settings,
    pub system_prompt: Option<String>,
    /// The persona that answers; where the run begins a thread, there from then on.
    pub persona: Option<String>,
    pub documents: Option<Vec<DocumentId>>,
    pub app_revision: String,
    /// Fields of the request that answers in another contract repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Value>,
    /// The actor who speaks for the user, if it is not the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The tools of the request, whose calls the client makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// The names of the app's own tools whose calls the client makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<String>,
    /// The form of the answer, in place of the app's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Runs that were made elsewhere. They are written before its message, and the message follows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRun>,
    /// Work that its message causes, once that is in the log.
    #[serde(default)]
    pub jobs: Vec<RunJob>,
}

/// A run that was made elsewhere, and is written down as a complete one. Nothing of it was called or paid for here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierRun {
    pub id: RunId,
    /// The message of the user. Its text is empty where an answer answers nothing, such as a greeting.
    pub message: MessageId,
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
    /// None if the message has no answer.
    pub answer: Option<EarlierAnswer>,
    /// When it was said, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A conversation that was held elsewhere, as a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadImport {
    /// Follows from the conversation, so that a second import finds the thread.
    pub id: ThreadId,
    pub title: Option<String>,
    pub created_at: Option<Timestamp>,
    pub runs: Vec<EarlierRun>,
    pub app_revision: String,
    /// The actor who speaks for the user, if it is not the user.
    pub actor: Option<String>,
}

/// The answer of a run that was made elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlierAnswer {
    pub message: MessageId,
    /// Each with the results of its calls.
    pub steps: Vec<(StepEnd, Vec<ToolComplete>)>,
}

/// A job whose key is the message that causes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    pub id: JobId,
    pub kind: String,
    /// How much later than the message it is due.
    pub delay_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Begin a conversation under this id.
    New(ThreadId),
    /// Begin a conversation under this id, or continue it if it is there: the id follows from something else, and may
    /// have been made before.
    Ensured(ThreadId),
    Existing(ThreadId),
}

impl Target {
    pub fn id(self) -> ThreadId {
        match self {
            Self::New(id) | Self::Ensured(id) | Self::Existing(id) => id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RunInput {
    /// Say something new, after `parent` or the thread's head.
    Say {
        id: MessageId,
        text: String,
        parent: Option<MessageId>,
        /// Images and documents that go with the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<MessagePart>,
    },
    /// Answer a message again: this one, or the thread's head.
    Again { of: Option<MessageId> },
}

/// A run that waits for its thread, and its question.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedRun {
    pub run: RunId,
    pub ask: RunInput,
    pub created_at: Timestamp,
}

/// A key under which something happens once, and what exactly was asked under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyClaim {
    pub key: String,
    pub fingerprint: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmittedRun {
    pub thread: ThreadId,
    pub run: RunId,
    pub admitted: RunAcceptance,
}

/// A run that began with its request, as it was stored: who drives it need not read it.
#[derive(Debug, Clone)]
pub struct BegunRun {
    pub row: RunRow,
    /// Its first events.
    pub facts: Vec<Arc<Stored>>,
    /// Use of the user's limits, with this run.
    pub used: Used,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunAcceptance {
    /// The run is under way.
    Running,
    /// The run waits; the run before it was told to stop, if one is named. `resumed` says that the run before it waited
    /// for a decision or a result, and continues without it.
    Queued { interrupted: Option<RunId>, resumed: bool },
    /// The request came before under the same key.
    Replayed,
}

/// Work to be done later, once per kind and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    pub kind: &'static str,
    pub key: String,
    /// How much later than now it is due.
    pub delay: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    pub id: JobId,
    pub kind: String,
    pub key: String,
    pub scope: Scope,
    pub thread: Option<ThreadId>,
    pub status: JobStatus,
    /// Times it was begun.
    pub attempts: u32,
    pub epoch: u64,
    pub run_at: Timestamp,
    /// Why the last attempt failed.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The future of a job that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    At(Timestamp),
    /// The attempt does not count, because it could not be made.
    Uncounted(Timestamp),
    Never,
}

/// Usage of a model call outside a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUsage {
    pub model: String,
    pub usage: Usage,
}
