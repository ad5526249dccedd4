//! What a chat shows: the answer on standard output as it comes, remarks beside it on standard error.

use std::borrow::Cow;
use std::io::Write;

use protocol::{Event, ToolStatus};

use crate::Trouble;

/// Characters of a tool's arguments or of its failure that are shown.
const MAX_SHOWN_CHARS: usize = 200;

#[derive(Default)]
pub(super) struct Screen {
    /// The last text did not end its line.
    mid_line: bool,
}

impl Screen {
    pub(super) fn show(&mut self, event: &Event) -> Result<(), Trouble> {
        match event {
            Event::TextDelta(piece) => self.text(&piece.delta),
            Event::StepReset(reset) => self.note(&format!("{}; this answer begins again", reset.reason)),
            Event::StepRetry(retry) => self.note(&format!("{}; trying again", retry.reason)),
            Event::ToolStart(call) => self.note(&format!("{} {}", call.name, short(&call.input.to_string()))),
            Event::ToolComplete(result) if result.status != ToolStatus::Complete => {
                let output = short(&result.output.to_string()).into_owned();
                self.note(&format!("{} {}: {output}", result.name, result.status.name()))
            }
            Event::ToolComplete(_)
            | Event::StepEnd(_)
            | Event::MessageUser(_)
            | Event::RunStart(_)
            | Event::ContextLoaded(_)
            | Event::StepStart(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StreamComplete(_)
            | Event::RunEnd(_)
            | Event::ThreadNamed(_) => Ok(()),
        }
    }

    /// A remark, on a line of its own.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Trouble> {
        self.end_line()?;
        self.prompt(&format!("[{}]\n", harmless(text)))
    }

    /// For the person at the terminal only.
    pub(super) fn prompt(&mut self, text: &str) -> Result<(), Trouble> {
        Ok(std::io::stderr().write_all(text.as_bytes())?)
    }

    pub(super) fn end_line(&mut self) -> Result<(), Trouble> {
        if self.mid_line { self.text("\n") } else { Ok(()) }
    }

    fn text(&mut self, text: &str) -> Result<(), Trouble> {
        let text = harmless(text);
        let Some(last) = text.chars().next_back() else { return Ok(()) };
        self.mid_line = last != '\n';
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Without the control characters by which a text could command the terminal.
fn harmless(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(commands) { Cow::Owned(text.replace(commands, "")) } else { Cow::Borrowed(text) }
}

fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_command_the_terminal() {
        assert_eq!(harmless("a\tb\nc"), "a\tb\nc");
        assert_eq!(harmless("\u{1b}[2Jx\u{7}\u{9b}31m\r"), "[2Jx31m");
    }

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(short(&"é".repeat(MAX_SHOWN_CHARS)), "é".repeat(MAX_SHOWN_CHARS));
        assert_eq!(short(&"é".repeat(MAX_SHOWN_CHARS + 1)), format!("{}…", "é".repeat(MAX_SHOWN_CHARS)));
    }
}
