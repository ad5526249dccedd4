//! Tools: what they are, which of them an app has, and the one path every call takes.
//!
//! A call is looked up, its arguments are checked against the tool's JSON Schema, and it runs within a time-out, with
//! its output capped and its panics caught. Whatever goes wrong is an answer to the model, never an error of the
//! program.

mod builtin;
mod catalog;
mod registry;

use std::fmt;

use async_trait::async_trait;
use protocol::ToolStatus;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use catalog::Catalog;
pub use model::ToolSpec;
pub use registry::{MAX_OUTPUT_BYTES, Registry};

/// Something a model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What the model is told of it. The schema is what arguments are checked against.
    fn spec(&self) -> ToolSpec;

    /// Does it. The arguments have passed the schema. `stop` is cancelled when nobody wants the result any more; a few
    /// seconds later the future is dropped.
    async fn call(&self, input: Value, stop: &CancellationToken) -> Result<Value, Failed>;
}

/// Why a tool could not do what was asked, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// A stable word, such as `timeout`.
    pub error: &'static str,
    pub message: String,
}

impl Failed {
    pub fn new(error: &'static str, message: impl Into<String>) -> Self {
        Self { error, message: message.into() }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error, self.message)
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub status: ToolStatus,
    /// The result, or `{error, message}`.
    pub output: Value,
}
