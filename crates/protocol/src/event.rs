//! The events of a thread's log. They are stored, clients read them, and a run is rebuilt from them.
//!
//! One list names them all. An event is stored as its name and a JSON body, and those same bytes go to clients, so
//! there is one encoding. A stored row that cannot be read again is [`Unreadable`], never a panic.

mod context;
mod memory_requests;
mod start;
mod waiting_calls;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use context::{
    ContextLoaded, FragmentCost, LeftOut, Part, Pinned, PromptLedger, Source, Stretch, Summary, Warning,
};
pub use memory_requests::{Forgetting, ForgettingOutcome, MemoryUpdate, Remembered, RememberedOutcome};
pub use start::RunStart;
pub use waiting_calls::{CallOpen, ProposalClosed, ProposalOpen};

use crate::json_fields::{from_name, is_default};
use crate::{CallId, Effect, MessageId, MessagePart, RunId, Seq, ThreadId, ToolStatus, Usage};

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// The name of an event, as in `event:` on the wire and `kind` in the log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($variant),*
        }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name),*
                }
            }

            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Kind::$variant),)*
                    _ => None,
                }
            }
        }

        /// One durable fact in a thread's log.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $variant($variant)),*
        }

        impl Event {
            pub fn kind(&self) -> Kind {
                match self {
                    $(Event::$variant(_) => Kind::$variant),*
                }
            }

            /// The JSON body, as stored and as sent.
            pub fn body(&self) -> String {
                let body = match self {
                    $(Event::$variant(body) => serde_json::to_string(body)),*
                };
                body.unwrap_or_else(|_| String::from("{}")) // string keys only: serialising cannot fail
            }

            /// Reads a stored event back.
            pub fn read(kind: &str, body: &str) -> Result<Self, Unreadable> {
                match kind {
                    $($name => serde_json::from_str(body).map(Event::$variant).map_err(|_| Unreadable::Body),)*
                    _ => Err(Unreadable::Kind),
                }
            }
        }
    };
}

events! {
    MessageUser = "message:user",
    RunStart = "run:start",
    ContextLoaded = "context:loaded",
    StepStart = "step:start",
    TextDelta = "text:delta",
    ReasoningDelta = "reasoning:delta",
    ToolInput = "tool:input",
    /// The whole step, committed with its calls.
    StepEnd = "step:end",
    /// The model is asked again before anything of the answer arrived.
    StepRetry = "step:retry",
    /// The streamed pieces of this step are void; the step starts again.
    StepReset = "step:reset",
    ToolStart = "tool:start",
    ToolComplete = "tool:complete",
    /// A call waits for the user's approval.
    ProposalOpen = "proposal:open",
    ProposalClosed = "proposal:closed",
    /// A call waits for its result from the client.
    CallOpen = "call:open",
    /// An item from outside the conversation that is in the prompt, so that an answer can cite it.
    Source = "source",
    StreamComplete = "stream:complete",
    /// The end of a run, which is always its last event.
    RunEnd = "run:end",
    ThreadNamed = "thread:named",
    /// Another branch of the thread is shown.
    ThreadHead = "thread:head",
    /// The thread was pinned or archived, or no longer is.
    ThreadChanged = "thread:changed",
    /// Messages of the thread have changed memories.
    MemoryUpdate = "memory:update",
    /// A part of the conversation was summarised.
    Summary = "summary",
}

impl Kind {
    /// Whether others may rely on the event once it is committed: messages, actions, and ends. All other events are
    /// made again after a power failure.
    pub fn is_promise(self) -> bool {
        match self {
            Kind::MessageUser
            | Kind::RunStart
            | Kind::StepEnd
            | Kind::ToolStart
            | Kind::ToolComplete
            | Kind::ProposalOpen
            | Kind::ProposalClosed
            | Kind::CallOpen
            | Kind::StreamComplete
            | Kind::RunEnd
            | Kind::ThreadNamed
            | Kind::ThreadHead
            | Kind::ThreadChanged
            | Kind::MemoryUpdate
            | Kind::Summary => true,
            Kind::ContextLoaded
            | Kind::Source
            | Kind::StepStart
            | Kind::TextDelta
            | Kind::ReasoningDelta
            | Kind::ToolInput
            | Kind::StepRetry
            | Kind::StepReset => false,
        }
    }

    /// Deltas are streamed and may be pruned once their run has ended; everything else is a fact and stays.
    pub fn is_delta(self) -> bool {
        matches!(self, Kind::TextDelta | Kind::ReasoningDelta | Kind::ToolInput)
    }
}

/// The reason why a stored row is not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The name is unknown.
    Kind,
    /// The body is not the JSON of this kind.
    Body,
}

/// An event as the log holds it: committed, numbered, encoded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub thread: ThreadId,
    pub seq: Seq,
    /// The run of the event; none for facts about the thread itself.
    pub run: Option<RunId>,
    pub kind: Cow<'static, str>,
    pub body: Arc<str>,
}

/// A piece of a streaming step, before it is an event: the writer joins neighbours of the same kind. As JSON it is the body
/// of that event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Delta {
    Text {
        step: u32,
        delta: String,
    },
    Reasoning {
        step: u32,
        delta: String,
    },
    ToolInput {
        step: u32,
        #[serde(rename = "callId")]
        call: CallId,
        name: Arc<str>,
        delta: String,
    },
}

impl Delta {
    pub fn kind(&self) -> Kind {
        match self {
            Delta::Text { .. } => Kind::TextDelta,
            Delta::Reasoning { .. } => Kind::ReasoningDelta,
            Delta::ToolInput { .. } => Kind::ToolInput,
        }
    }

    /// Appends the body of the event this becomes to `buffer`, borrowing everything: this runs for every token.
    pub fn write_body(&self, buffer: &mut Vec<u8>) {
        let written = serde_json::to_writer(buffer, self);
        debug_assert!(written.is_ok(), "a vector takes every byte");
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageUser {
    pub message_id: MessageId,
    pub parent_id: Option<MessageId>,
    pub text: String,
    /// Images and documents that go with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<MessagePart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepStart {
    pub step: u32,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TextDelta {
    pub step: u32,
    pub delta: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReasoningDelta {
    pub step: u32,
    pub delta: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInput {
    pub step: u32,
    pub call_id: CallId,
    pub name: String,
    pub delta: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepEnd {
    pub step: u32,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    pub calls: Vec<Call>,
    pub usage: Usage,
    pub finish: Finish,
    /// The failure of the step, if `finish` is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The model that answered, if the provider names another one than the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The names of the calls beyond the limit of a step, which were not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Opaque data that the provider needs back unchanged, such as signed thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
    /// The fallback model that was called, because the run's own model had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The answer as an object, if the app asks for one. `text` is then its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Structured>,
    /// The parts of the prompt, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptLedger>,
}

/// A structured answer that was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Structured {
    /// The memories that the answer refers to. All of them are in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories_referenced: Vec<String>,
    /// The number of references to anything else, which were dropped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped: u32,
    /// The whole object, if the app has a schema of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A tool call as the model requested it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub id: CallId,
    pub name: String,
    /// The arguments; null when they were not valid JSON.
    pub input: Value,
    /// The arguments as sent, kept when they do not parse. A call whose arguments do not parse is never executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The provider's own id, unique within the step only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// The reason for the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// The user cancelled the run. The step has the text up to then.
    Cancelled,
    /// The provider failed for good. The step has the text up to then.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepRetry {
    pub step: u32,
    pub reason: String,
    /// The milliseconds until the next attempt.
    pub after: u64,
    /// The model of the next attempt, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepReset {
    pub step: u32,
    pub reason: String,
    /// The model of the next attempt, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usage of the void part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStart {
    pub call_id: CallId,
    pub name: String,
    pub input: Value,
    #[serde(default)]
    pub effect: Effect,
    /// A text that contracts without events put before the answer, such as a note that the web is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolComplete {
    pub call_id: CallId,
    pub name: String,
    pub status: ToolStatus,
    /// The output for the model: the result, or the reason why there is none.
    pub output: Value,
    pub duration_ms: u64,
    /// Whether the output came from an external source, so that it can contain the words of anybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// Whether the output reads like instructions to an assistant rather than like data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspicious: bool,
    /// The sender of the result of a client's call, as `ACTOR for USER`, if an acting key spoke for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamComplete {
    pub message_id: MessageId,
    /// The answer: the last step's text.
    pub text: String,
    pub memories_referenced: Vec<String>,
    /// The answer as an object, if the app has a schema of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEnd {
    pub run_id: RunId,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The message with the text of a run that was cut short, if there was any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
}

/// The status of a run. The last four are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Queued,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
    Interrupted,
}

impl RunStatus {
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Queued => "queued",
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Interrupted => "interrupted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }

    pub fn is_terminal(self) -> bool {
        match self {
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => false,
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled | RunStatus::Interrupted => true,
        }
    }
}

/// The reason why a run did not complete: a stable code and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadNamed {
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadHead {
    /// The last message of the branch that is shown.
    pub head_id: MessageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadChanged {
    pub pinned: bool,
    pub archived: bool,
}

/// The state of a run up to `id`, for a reader whose place in the log is gone. A snapshot is sent and never stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub run_id: RunId,
    pub thread_id: ThreadId,
    pub status: RunStatus,
    /// The answer, or the part of it that exists.
    pub text: String,
    /// The message of the answer, once the run has ended with one. The message has the calls and their results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories_referenced: Vec<String>,
    /// The answer as an object, if the app has a schema of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_reads_back_from_its_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()), Some(*kind));
        }
        assert_eq!(Kind::parse("no:such"), None);
    }

    #[test]
    fn a_delta_is_written_as_its_event() {
        let call = CallId::new(uuid::Uuid::nil());
        let delta = String::from("\"a\\\n\u{1}é\u{2028}");
        let mut buffer = Vec::new();
        Delta::Text { step: 3, delta: delta.clone() }.write_body(&mut buffer);
        assert_eq!(buffer, Event::TextDelta(TextDelta { step: 3, delta: delta.clone() }).body().into_bytes());
        buffer.clear();
        Delta::ToolInput { step: 1, call, name: "x".into(), delta: delta.clone() }.write_body(&mut buffer);
        let event = ToolInput { step: 1, call_id: call, name: "x".into(), delta };
        assert_eq!(buffer, Event::ToolInput(event).body().into_bytes());
    }

    #[test]
    fn an_event_reads_back_as_written() {
        let event = Event::ToolComplete(ToolComplete {
            call_id: CallId::new(uuid::Uuid::nil()),
            name: "calculate".into(),
            status: ToolStatus::Unknown,
            output: serde_json::json!({"a": [1, "\u{2028}"]}),
            duration_ms: 3,
            outside: false,
            suspicious: false,
            by: None,
        });
        assert_eq!(Event::read(event.kind().name(), &event.body()), Ok(event));
        assert_eq!(Event::read("tool:complete", "{"), Err(Unreadable::Body));
        assert_eq!(Event::read("tool:finished", "{}"), Err(Unreadable::Kind));
    }
}
