//! Tools: what they are, which of them an app has, and the one path every call takes.
//!
//! A call is looked up, its arguments are checked against the tool's JSON Schema, policy says whether it may run, and it
//! runs within a time-out, with its output capped and its panics caught. Whatever goes wrong is an answer to the model,
//! never an error of the program. A tool of ours never writes: it says what is to be written, and that is committed
//! together with its result.

mod adjusted;
mod builtin;
mod catalog;
pub mod files;
mod outside;
mod policy;
mod registry;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::memory::recall::Recall;
use app::Flow;
use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{CallId, Effect, Ids, RunId, Scope, Source, ThreadId, ToolStatus};
use serde_json::Value;
use store::{Store, Write};
use tokio_util::sync::CancellationToken;

pub use builtin::{Reference, known_already, references};
pub use catalog::Catalog;
pub use model::ToolSpec;
pub use outside::{
    Allowed, Egress, Health, Hub, NotAllowable, Outside, Search, Secrets, Server, Tavily, Vault,
    mcp_tool_name,
};
pub use policy::{Policy, Ruling};
pub use registry::{MAX_OUTPUT_BYTES, Prepared, Registry};

/// Something a model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What the model is told of it. The schema is what arguments are checked against.
    fn spec(&self) -> ToolSpec;

    /// What a call does to the world.
    fn effect(&self) -> Effect {
        Effect::Read
    }

    /// Whether it acts, or looks, beyond this server. Then nobody can know what became of a call that was cut, and its
    /// output may hold anybody's words.
    fn is_outside(&self) -> bool {
        false
    }

    /// Whether it changes what later prompts are made of, such as memories and files.
    fn is_lasting(&self) -> bool {
        false
    }

    /// What the app or the tool itself says about asking first.
    fn policy(&self) -> Policy {
        Policy::ByEffect
    }

    /// What may cause a call once words from outside are in the prompt.
    fn flows(&self) -> &[Flow] {
        &[]
    }

    /// A text that stands for a call where there are no events to tell of it.
    fn marker(&self) -> Option<&str> {
        None
    }

    /// The longest that a call may take, tries again included, where that is less than the app allows.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Whether this very call needs the user's yes, though calls of this tool usually do not.
    fn is_unusual(&self, _input: &Value) -> bool {
        false
    }

    /// Calls of one run that name the same thing here are made one after the other.
    fn exclusive(&self) -> Option<&str> {
        None
    }

    /// Looks at what the schema cannot say, before anybody is asked for a yes and before anything is begun.
    async fn check(&self, _calling: &Calling<'_>) -> Result<(), Failed> {
        Ok(())
    }

    /// Does it. The arguments have passed the schema. `stop` is cancelled when nobody wants the result any more; a few
    /// seconds later the future is dropped.
    async fn call(&self, calling: Calling<'_>) -> Result<Done, Failed>;

    /// What taking back a call does to the world, for a tool that acts outside and has an undo of its own.
    fn undo_effect(&self) -> Option<Effect> {
        None
    }

    /// Takes back a call that had this output. The input is the call's; the key is the undo's own.
    async fn undo(&self, _calling: Calling<'_>, _output: &Value) -> Result<Done, Failed> {
        Err(Failed::new("cannot_undo", "the tool has no undo"))
    }
}

/// Whose words from outside are in the prompt: the names of tools, and `documents`.
pub type Taint = BTreeSet<String>;

/// A call on its way to a tool. Who is speaking comes from here, never from the arguments.
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
    /// Where the user lives.
    pub zone: TimeZone,
    pub stop: &'a CancellationToken,
}

impl Calling<'_> {
    /// The same for every attempt at this call, so that whoever gets it twice can tell.
    pub fn key(&self) -> String {
        self.id.to_string()
    }
}

/// What a call has come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    pub output: Value,
    /// To be committed with the result, or not at all.
    pub writes: Vec<Write>,
    /// What the output is taken from.
    pub sources: Vec<Source>,
}

impl Done {
    /// A result that is committed with what it writes.
    pub fn writing(output: Value, write: Write) -> Self {
        Self { output, writes: vec![write], sources: Vec::new() }
    }
}

impl From<Value> for Done {
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
    /// What was asked for may have happened all the same.
    pub uncertain: bool,
    /// Another try may do, after this long; it is made where that does no harm.
    pub again: Option<Duration>,
}

impl Failed {
    /// The error of a call that nobody waits for any more.
    pub const CANCELLED: &'static str = "cancelled";

    pub fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), uncertain: false, again: None }
    }

    /// The same where nobody can say that nothing has happened.
    pub fn uncertain(error: &'static str, message: impl Into<String>) -> Self {
        Self { uncertain: true, ..Self::new(error, message) }
    }

    /// The same for a connection that broke in the middle of a call, which another try may mend.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self { again: Some(Duration::ZERO), ..Self::uncertain("broken", message) }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.message)
    }
}

/// What is said of a call that may or may not have happened.
const UNKNOWN: &str =
    "it is not known whether this call took effect; do not repeat it without asking the user";

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: ToolStatus,
    /// The result, or `{error, message}`.
    pub output: Value,
    pub writes: Vec<Write>,
    pub sources: Vec<Source>,
    /// Somebody else's words may be in it.
    pub outside: bool,
}

impl Outcome {
    /// A call that came to nothing.
    pub fn refused(status: ToolStatus, error: &str, message: &str) -> Self {
        let output = serde_json::json!({ "error": error, "message": message });
        Self { status, output, writes: Vec::new(), sources: Vec::new(), outside: false }
    }

    /// A call that may or may not have happened.
    pub fn unknown() -> Self {
        Self::refused(ToolStatus::Unknown, "unknown", UNKNOWN)
    }

    /// The same, with why nobody knows.
    pub fn unknown_because(reason: &str) -> Self {
        Self::refused(ToolStatus::Unknown, "unknown", &format!("{UNKNOWN} ({reason})"))
    }
}

impl From<Failed> for Outcome {
    fn from(failed: Failed) -> Self {
        let status =
            if failed.error == Failed::CANCELLED { ToolStatus::Cancelled } else { ToolStatus::Failed };
        Self::refused(status, failed.error, &failed.message)
    }
}
