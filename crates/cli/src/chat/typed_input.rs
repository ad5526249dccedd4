//! Typed input of a chat, and the text that a person at the terminal reads while typing it.

use std::io::{self, Write};

use crate::CommandResult;

/// Stands before a message.
pub(super) const PROMPT: &str = "> ";

/// The input that a person or a program has typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedInput {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Shows a text to the person at the terminal only.
pub(super) fn show(text: &str) -> CommandResult {
    Ok(io::stderr().write_all(text.as_bytes())?)
}
