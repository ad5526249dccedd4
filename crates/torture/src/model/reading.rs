//! The wish of a request to the model, told from the request alone.

use serde_json::Value;

use super::background::{MEMORY_PROMPT, SUMMARY_PROMPT, TITLE_PROMPT};
use crate::program::MessageProgram;

#[derive(Debug, PartialEq)]
pub(super) enum Wish {
    Step {
        program: MessageProgram,
        step: usize,
        tools: bool,
    },
    /// A name for a thread that begins with this.
    Title(String),
    /// Memories out of this batch.
    Memories(String),
    /// A summary of these turns.
    Summary(String),
    /// The message is not, or no longer, a program.
    Unreadable,
}

impl Wish {
    /// The tag and step that it is about; none for background work.
    pub(super) fn place(&self) -> (Option<String>, usize) {
        match self {
            Wish::Step { program, step, .. } => (Some(program.tag.clone()), *step),
            Wish::Title(_) | Wish::Memories(_) | Wish::Summary(_) | Wish::Unreadable => (None, 0),
        }
    }
}

pub(super) fn wish(body: &Value) -> Wish {
    let messages = body.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let system = messages.first().map(text).unwrap_or_default();
    let Some(newest) = messages.iter().rposition(|message| has_role(message, "user")) else {
        return Wish::Unreadable;
    };
    let said = messages.get(newest).map(text).unwrap_or_default();
    let asks_for = |prompt: &str| system.starts_with(prompt.trim());
    if asks_for(TITLE_PROMPT) {
        return Wish::Title(said);
    }
    if asks_for(MEMORY_PROMPT) {
        return Wish::Memories(said);
    }
    if asks_for(SUMMARY_PROMPT) {
        return Wish::Summary(said);
    }
    // Texts that were looked up for a message stand before it, and a warning where it reads like orders. The program
    // itself is one line.
    let Some(program) = said.lines().next_back().and_then(MessageProgram::parse) else {
        return Wish::Unreadable;
    };
    let tools = body.get("tools").is_some();
    let since = messages.iter().skip(newest).filter(|message| has_role(message, "assistant")).count();
    // Without tools, what was done stands in the system prompt and not in messages: this is the last word.
    let step = if tools { since } else { program.steps.len() };
    Wish::Step { program, step, tools }
}

fn has_role(message: &Value, role: &str) -> bool {
    message.get("role").and_then(Value::as_str) == Some(role)
}

/// A message's text, whether it is one string or in parts.
fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().concat()
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}
