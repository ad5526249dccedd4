//! The output of a chat: the answer on standard output as it comes, remarks beside it on standard error.

use std::io::Write;
use std::time::{Duration, Instant};

use protocol::{Event, ToolComplete, ToolStatus};

use super::chat_terminal::ChatTerminal;
use super::markdown::{MarkdownStream, REMARK};
use crate::CommandResult;
use crate::terminal_text::{printable, shorten};

/// Turns while nothing else moves.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A longer wait is shown in seconds beside the spinner.
const SHORT_WAIT: Duration = Duration::from_secs(2);

const CLEAR_LINE: &str = "\r\u{1b}[K";

pub(super) struct ChatScreen {
    terminal: ChatTerminal,
    /// The text that is being shown, on a terminal.
    markdown: Option<MarkdownStream>,
    /// The last text did not end its line. Elsewhere than on a terminal, text is printed as it is.
    mid_line: bool,
    spinner: Option<Spinner>,
}

/// The spinner on the screen.
struct Spinner {
    since: Instant,
    turns: usize,
}

impl ChatScreen {
    pub(super) fn new(terminal: ChatTerminal) -> Self {
        Self { terminal, markdown: None, mid_line: false, spinner: None }
    }

    pub(super) fn show(&mut self, event: &Event) -> CommandResult {
        match event {
            Event::TextDelta(piece) => self.text(&piece.delta),
            Event::StepReset(reset) => self.note(&format!("{}; the answer starts again", reset.reason)),
            Event::StepRetry(retry) => self.note(&format!("{}; trying again", retry.reason)),
            Event::ToolStart(call) => {
                self.note(&format!("{} {}", call.name, shorten(&call.input.to_string())))
            }
            Event::ToolComplete(result) => self.show_result(result),
            Event::ProposalClosed(closed) => self.note(closed.decision.name()),
            Event::Source(source) => self.note(&format!("from {}, {}", source.title, source.place)),
            Event::ContextLoaded(loaded) => {
                loaded.warnings.iter().try_for_each(|warning| self.note(&warning.message))
            }
            // The caller that shows these also asks.
            Event::ProposalOpen(_)
            | Event::CallOpen(_)
            | Event::StepEnd(_)
            | Event::MessageUser(_)
            | Event::RunStart(_)
            | Event::StepStart(_)
            | Event::ReasoningDelta(_)
            | Event::ToolInput(_)
            | Event::StreamComplete(_)
            | Event::RunEnd(_)
            | Event::ThreadNamed(_)
            | Event::ThreadHead(_)
            | Event::ThreadChanged(_)
            | Event::MemoryUpdate(_)
            | Event::Summary(_) => Ok(()),
        }
    }

    /// A person sees every result, and a program's log those that are no success.
    fn show_result(&mut self, result: &ToolComplete) -> CommandResult {
        let (name, output) = (&result.name, result.output.to_string());
        let output = shorten(&output);
        match result.status {
            ToolStatus::Complete if !self.terminal.has_remarks => Ok(()),
            ToolStatus::Complete => {
                self.note(&format!("{name}: {output}, {}", duration_text(result.duration_ms)))
            }
            ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled | ToolStatus::Unknown => {
                self.note(&format!("{name} {}: {output}", result.status.name()))
            }
        }
    }

    /// A remark, on a line of its own.
    pub(super) fn note(&mut self, text: &str) -> CommandResult {
        let note = format!("[{}]", printable(text));
        let look = self.terminal.look().filter(|_| self.terminal.has_remarks);
        self.print(&look.map_or_else(|| note.clone(), |look| look.paint(REMARK, &note)))
    }

    /// A line for the person at the terminal, beside the answers. It holds no text of others that is not made printable.
    pub(super) fn print(&mut self, line: &str) -> CommandResult {
        self.end_line()?;
        write_error(&format!("{line}\n"))
    }

    /// A question to the person who types. They must see it, also if standard error goes elsewhere.
    pub(super) fn question(&mut self, line: &str) -> CommandResult {
        if !self.terminal.has_editor() || self.terminal.has_remarks {
            return self.print(line);
        }
        self.end_line()?;
        self.write(&format!("{line}\n"))
    }

    /// A whole text of earlier, beside the answers.
    pub(super) fn earlier_text(&mut self, text: &str) -> CommandResult {
        self.end_line()?;
        let text = printable(text);
        match self.terminal.look().filter(|_| self.terminal.has_remarks) {
            Some(look) => {
                let mut stream = MarkdownStream::new(look);
                let shown = stream.feed(&text);
                write_error(&(shown + &stream.finish()))
            }
            None => write_error(&format!("{}\n", text.trim_end())),
        }
    }

    /// Whether a person sees remarks, and the spinner, on this terminal.
    pub(super) fn has_remarks(&self) -> bool {
        self.terminal.has_remarks
    }

    /// Turns the spinner, unless there is text in its line.
    pub(super) fn turn_spinner(&mut self) -> CommandResult {
        if !self.has_remarks() || self.markdown.as_ref().is_some_and(|text| !text.is_at_line_start()) {
            return Ok(());
        }
        let spinner = self.spinner.get_or_insert_with(|| Spinner { since: Instant::now(), turns: 0 });
        let text = spinner_text(spinner.turns, spinner.since.elapsed());
        spinner.turns += 1;
        write_error(&format!("\r{text}"))
    }

    fn clear_spinner(&mut self) -> CommandResult {
        if self.spinner.take().is_some() { write_error(CLEAR_LINE) } else { Ok(()) }
    }

    pub(super) fn end_line(&mut self) -> CommandResult {
        self.clear_spinner()?;
        let rest = self.markdown.take().map(|mut text| text.finish()).unwrap_or_default();
        if std::mem::take(&mut self.mid_line) { self.write("\n") } else { self.write(&rest) }
    }

    fn text(&mut self, text: &str) -> CommandResult {
        let text = printable(text);
        let Some(last) = text.chars().next_back() else { return Ok(()) };
        if let Some(stream) = &mut self.markdown {
            let shown = stream.feed(&text);
            return self.write(&shown);
        }
        match self.terminal.look() {
            Some(look) => {
                let mut stream = MarkdownStream::new(look);
                let shown = stream.feed(&text);
                self.markdown = Some(stream);
                self.write(&shown)
            }
            None => {
                self.mid_line = last != '\n';
                self.write(&text)
            }
        }
    }

    fn write(&mut self, text: &str) -> CommandResult {
        if text.is_empty() {
            return Ok(());
        }
        self.clear_spinner()?;
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

fn write_error(text: &str) -> CommandResult {
    Ok(std::io::stderr().write_all(text.as_bytes())?)
}

fn spinner_text(turns: usize, waited: Duration) -> String {
    let frame = SPINNER.get(turns % SPINNER.len()).copied().unwrap_or_default();
    if waited < SHORT_WAIT { format!("{frame} ") } else { format!("{frame} {} s ", waited.as_secs()) }
}

/// How long something took, for people.
fn duration_text(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        _ => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_shown_in_seconds() {
        let texts = [(0, 0), (1, 1_999), (10, 2_000), (13, 61_900)]
            .map(|(turns, waited)| spinner_text(turns, Duration::from_millis(waited)));
        assert_eq!(texts, ["⠋ ", "⠙ ", "⠋ 2 s ", "⠸ 61 s "]);
    }
}
