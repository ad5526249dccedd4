//! Tools: what they are, which of them an app has, and the one path every call takes.
//!
//! A call is looked up, its arguments are checked against the tool's JSON Schema, policy says whether it may run, and
//! it runs within a time-out, with its output capped and its panics caught. A failure of any kind is an answer to the
//! model, never an error of the program. A tool of ours never writes: it says what is to be written, and that is
//! committed together with its result.

mod builtin;
mod catalog;
mod client;
mod external;
mod facts;
pub mod files;
mod policy;
mod registry;
mod schema_size;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::memory::recall::Recall;
use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{CallId, Effect, Ids, RunId, Scope, Source, ThreadId, ToolStatus};
use serde_json::Value;
use store::{Store, Write};
use tokio_util::sync::CancellationToken;

pub use builtin::{ASK_USER, CREATE_PROPOSAL, Reference, SEARCH_DOCUMENTS, known_already, references};
pub use catalog::Catalog;
pub use client::{
    ClientAnswer, ClientResultRefusal, MAX_CLIENT_RESULT_BYTES, MAX_CLIENT_TOOLS, check_client_tools,
    checked_answer_schema, client_outcome, earlier_outcome,
};
pub use external::{
    Allowed, Egress, ExternalAccess, McpHealth, McpHub, McpServerHandle, NotAllowable, Secrets, TavilyConfig,
    UndeliveredWebhook, Vault, WebSearchConfig, WebhookMessage, deliver_webhook, mcp_tool_name,
};
pub use facts::ToolFacts;
pub use model::ToolSpec;
pub use policy::Ruling;
pub use registry::{MAX_OUTPUT_BYTES, PreparedCall, RegisteredTool, ToolRegistry};

/// Something a model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Checks what the schema cannot say, before the user is asked for approval and before anything begins.
    async fn check(&self, _calling: &Calling<'_>) -> Result<(), Failed> {
        Ok(())
    }

    /// Runs the call. The arguments have passed the schema. `stop` is cancelled when the result is not needed any more;
    /// a few seconds later the future is dropped.
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed>;
}

/// A tool as an app offers it to the model.
#[derive(Clone)]
pub struct OfferedTool {
    pub spec: ToolSpec,
    pub facts: ToolFacts,
    /// None where a call that acted outside cannot be undone by another call.
    pub undo: Option<ToolUndo>,
    tool: Arc<dyn Tool>,
}

impl OfferedTool {
    pub fn new(spec: ToolSpec, tool: impl Tool, facts: ToolFacts) -> Self {
        Self { spec, facts, undo: None, tool: Arc::new(tool) }
    }
}

/// The undo of a tool that acts outside.
#[derive(Clone)]
pub struct ToolUndo {
    /// The effect of an undo on the world.
    pub effect: Effect,
    pub call: Arc<dyn UndoCall>,
}

/// A call that undoes another one outside.
#[async_trait]
pub trait UndoCall: Send + Sync + 'static {
    /// Undoes a call that had this output. The input is the call's; the key is the undo's own.
    async fn undo(&self, calling: Calling<'_>, output: &Value) -> Result<ToolOutput, Failed>;

    /// Says which request [`UndoCall::undo`] would make, without secrets. Nothing is sent.
    async fn describe(&self, calling: Calling<'_>, output: &Value) -> Result<Value, Failed>;
}

/// The sources of words from outside that are in the prompt: the names of tools, and `documents`.
pub type Taint = BTreeSet<String>;

/// A call on its way to a tool. The speaker comes from here, never from the arguments.
#[derive(Clone)]
pub struct Calling<'a> {
    pub id: CallId,
    pub input: Value,
    pub scope: &'a Scope,
    pub thread: Option<ThreadId>,
    pub run: Option<RunId>,
    /// For reading.
    pub store: &'a Store,
    /// For the user's own credentials.
    pub vault: &'a Arc<dyn Vault>,
    /// For looking up what is known of the user.
    pub recall: &'a Arc<Recall>,
    pub ids: &'a Arc<dyn Ids>,
    pub now: Timestamp,
    /// The time zone in which the user lives.
    pub zone: TimeZone,
    pub stop: &'a CancellationToken,
}

impl Calling<'_> {
    /// The key of the call, which every attempt at it has, so that a server that gets it twice can tell.
    pub fn key(&self) -> String {
        self.id.to_string()
    }
}

/// The output of a call that succeeded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    pub output: Value,
    /// To be committed with the result, or not at all.
    pub writes: Vec<Write>,
    /// The sources of the output.
    pub sources: Vec<Source>,
}

impl ToolOutput {
    /// A result that is committed with what it writes.
    pub fn with_write(output: Value, write: Write) -> Self {
        Self { output, writes: vec![write], sources: Vec::new() }
    }
}

impl From<Value> for ToolOutput {
    /// A result that changes nothing.
    fn from(output: Value) -> Self {
        Self { output, ..Self::default() }
    }
}

/// Why a tool could not do what was asked, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// A stable word, such as `timeout`.
    pub error: &'static str,
    pub message: String,
    /// The call may have had its effect all the same.
    pub uncertain: bool,
    /// Another try may do, after this long; it is made where that does no harm.
    pub again: Option<Duration>,
}

impl Failed {
    /// The error of a call whose caller has gone.
    pub const CANCELLED: &'static str = "cancelled";

    pub fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), uncertain: false, again: None }
    }

    /// A failure after which the call may still have had its effect.
    pub fn uncertain(error: &'static str, message: impl Into<String>) -> Self {
        Self { uncertain: true, ..Self::new(error, message) }
    }

    /// A call of the client that would be made here: no run waits for its result.
    pub(crate) fn client_only() -> Self {
        Self::new("client_only", "only the client can run this tool, and only while a run waits for it")
    }

    /// A failure of a connection that broke in the middle of a call, which another try may mend.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self { again: Some(Duration::ZERO), ..Self::uncertain("broken", message) }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.message)
    }
}

/// The message for a call that may or may not have happened.
const UNKNOWN: &str =
    "it is not known whether this call took effect; do not repeat it without asking the user";

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    pub status: ToolStatus,
    /// The result, or `{error, message}`.
    pub output: Value,
    pub writes: Vec<Write>,
    pub sources: Vec<Source>,
    /// Foreign text may be in it.
    pub outside: bool,
}

impl CallOutcome {
    /// A call that came to nothing.
    pub fn refused(status: ToolStatus, error: &str, message: &str) -> Self {
        let output = serde_json::json!({ "error": error, "message": message });
        Self { status, output, writes: Vec::new(), sources: Vec::new(), outside: false }
    }

    /// A call that may or may not have happened.
    pub fn unknown() -> Self {
        Self::refused(ToolStatus::Unknown, "unknown", UNKNOWN)
    }

    /// A call that may or may not have happened, with the reason.
    pub fn unknown_because(reason: &str) -> Self {
        Self::refused(ToolStatus::Unknown, "unknown", &format!("{UNKNOWN} ({reason})"))
    }

    /// The outcome of a call that was begun before, by a process that died. If the second try did not succeed, it is
    /// not known whether the first did.
    #[must_use]
    pub fn of_second_try(self) -> Self {
        if matches!(self.status, ToolStatus::Complete | ToolStatus::Unknown) {
            return self;
        }
        let reason = self.output.get("message").and_then(Value::as_str).unwrap_or("the second try failed");
        Self { outside: self.outside, ..Self::unknown_because(reason) }
    }
}

impl From<Failed> for CallOutcome {
    fn from(failed: Failed) -> Self {
        let status =
            if failed.error == Failed::CANCELLED { ToolStatus::Cancelled } else { ToolStatus::Failed };
        Self::refused(status, failed.error, &failed.message)
    }
}
