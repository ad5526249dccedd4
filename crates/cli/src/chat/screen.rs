//! The output of a chat: the answer on standard output as it comes, remarks beside it on standard error.

use std::io::Write;

use protocol::{Event, ToolStatus};

use crate::CommandResult;
use crate::terminal_text::{printable, shorten};

#[derive(Default)]
pub(super) struct ChatScreen {
    /// The last text did not end its line.
    mid_line: bool,
}

impl ChatScreen {
    pub(super) fn show(&mut self, event: &Event) -> CommandResult {
        match event {
            Event::TextDelta(piece) => self.text(&piece.delta),
            Event::StepReset(reset) => self.note(&format!("{}; the answer starts again", reset.reason)),
            Event::StepRetry(retry) => self.note(&format!("{}; trying again", retry.reason)),
            Event::ToolStart(call) => {
                self.note(&format!("{} {}", call.name, shorten(&call.input.to_string())))
            }
            Event::ToolComplete(result) if result.status != ToolStatus::Complete => {
                let output = shorten(&result.output.to_string()).into_owned();
                self.note(&format!("{} {}: {output}", result.name, result.status.name()))
            }
            Event::ProposalClosed(closed) => self.note(closed.decision.name()),
            Event::Source(source) => self.note(&format!("from {}, {}", source.title, source.place)),
            Event::ContextLoaded(loaded) => {
                loaded.warnings.iter().try_for_each(|warning| self.note(&warning.message))
            }
            // Whoever shows it also asks.
            Event::ProposalOpen(_)
            | Event::ToolComplete(_)
            | Event::StepEnd(_)
            | Event::MessageUser(_)
            | Event::RunStart(_)
            | Event::StepStart(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StreamComplete(_)
            | Event::RunEnd(_)
            | Event::ThreadNamed(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => Ok(()),
        }
    }

    /// A remark, on a line of its own.
    pub(super) fn note(&mut self, text: &str) -> CommandResult {
        self.end_line()?;
        self.prompt(&format!("[{}]\n", printable(text)))
    }

    /// For the person at the terminal only.
    pub(super) fn prompt(&mut self, text: &str) -> CommandResult {
        Ok(std::io::stderr().write_all(text.as_bytes())?)
    }

    pub(super) fn end_line(&mut self) -> CommandResult {
        if self.mid_line { self.text("\n") } else { Ok(()) }
    }

    fn text(&mut self, text: &str) -> CommandResult {
        let text = printable(text);
        let Some(last) = text.chars().next_back() else { return Ok(()) };
        self.mid_line = last != '\n';
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}
