//! What an app is, once its folder has been read and found in order.

use std::path::PathBuf;
use std::time::Duration;

use protocol::{AppId, Cost, Settings};
use serde_json::Value;

use crate::{Problem, Ranges};

/// An agent as its folder defines it. Never changed: an edited folder is another `App` with another revision.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// The folder's name.
    pub id: AppId,
    pub name: String,
    pub description: String,
    /// Names the content of the folder: equal content, equal revision.
    pub revision: String,
    /// The server's default model when absent.
    pub model: Option<String>,
    /// Asked in this order when the model before them fails.
    pub fallbacks: Vec<String>,
    pub settings: Settings,
    pub ranges: Ranges,
    pub answer: Answer,
    pub memory: Memory,
    pub budget: Budget,
    /// The system prompt. Never empty.
    pub instructions: String,
    /// How the model is told to name a thread; without it, a thread is named by its first words.
    pub title: Option<String>,
    pub limits: LoopLimits,
    pub history: History,
    /// Each name once, in the order they are offered to the model. Whether a tool of that name exists is for the
    /// registry to say, through [`ToolRef::problem`].
    pub tools: Vec<ToolRef>,
}

/// The bounds of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopLimits {
    /// Model calls before the run must end.
    pub max_steps: u32,
    pub at_limit: AtLimit,
    /// What the user reads under [`AtLimit::Reply`].
    pub limit_reply: String,
    /// What the user reads when every model has failed; without it the run fails.
    pub failure_reply: Option<String>,
    /// Calls of one step that are under way at once.
    pub max_parallel_tools: usize,
    pub tool_timeout: Duration,
    pub run_timeout: Duration,
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self {
            max_steps: 10,
            at_limit: AtLimit::Answer,
            limit_reply: "I reached the limit of steps for this request before I could finish it. \
                          Please ask again, perhaps for a smaller part of it."
                .into(),
            failure_reply: None,
            max_parallel_tools: 8,
            tool_timeout: Duration::from_secs(60),
            run_timeout: Duration::from_secs(15 * 60),
        }
    }
}

/// How a run ends when its steps are used up. Either way there is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// The model is called once more, without tools, and answers from what it has.
    Answer,
    /// The app's fixed sentence is the answer.
    Reply,
}

/// What an answer is.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Text,
    /// A text with the memories it refers to.
    Structured,
    /// An object of the app's own; where it has a text called `response`, that is what streams.
    Schema {
        name: String,
        schema: Value,
    },
}

/// What the model is told of the user's memories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    pub inject: Inject,
    /// At most so many in a prompt.
    pub limit: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { inject: Inject::None, limit: 50 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inject {
    None,
    /// All of them, the newest up to the limit.
    All,
}

/// What may be spent; a run ends with the step that goes beyond.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    pub run_tokens: Option<u64>,
    pub run_cost: Option<Cost>,
    /// Of one user in one day (UTC).
    pub day_tokens: Option<u64>,
    pub day_cost: Option<Cost>,
}

/// How much of the conversation the model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In tokens; what the model's window leaves when absent.
    pub budget: Option<u32>,
}

/// A tool by name, with the place that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRef {
    pub name: String,
    pub file: PathBuf,
    pub line: usize,
    pub column: usize,
}

impl ToolRef {
    /// A problem with this tool, pointing at the line that names it.
    pub fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem {
            file: self.file.clone(),
            line: Some(self.line),
            column: Some(self.column),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}
