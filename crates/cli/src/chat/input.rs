//! The lines that a chat is given: by a person at a line editor, or by a program. None of them is lost while something
//! else happens, such as an answer that streams or a Ctrl-C.

use std::path::PathBuf;

use futures_util::FutureExt;
use tokio::signal::unix::Signal;

use super::chat_terminal::ChatTerminal;
use super::line_editor::LineEditor;
use super::line_reader::LineReader;
use super::typed_ahead::{KeepingTerminal, TypedAhead};
use super::typed_input::{PROMPT, TypedInput, show};
use crate::CommandResult;
use crate::terminal_text::printable;

/// Stands before a decision.
pub(super) const YES_OR_NO: &str = "yes or no: ";

/// Stands before an answer in free words.
pub(super) const ANSWER: &str = "your answer: ";

pub(super) struct ChatInput {
    source: InputSource,
    /// Whether a person types.
    pub(super) is_terminal: bool,
}

enum InputSource {
    /// A program, or a terminal that cannot do more than print text.
    Lines(LineReader),
    Keys(EditorInput),
}

impl ChatInput {
    pub(super) fn new(terminal: &ChatTerminal) -> Self {
        let source = if terminal.has_editor() {
            let (colours, history) = (terminal.colours, terminal.history.clone());
            InputSource::Keys(EditorInput { colours, history, open: None, ahead: TypedAhead::default() })
        } else {
            InputSource::Lines(LineReader::default())
        };
        Self { source, is_terminal: terminal.is_interactive }
    }

    /// Makes sure that from now on nothing is lost that a person types.
    pub(super) fn open(&mut self) -> CommandResult {
        if let InputSource::Keys(keys) = &mut self.source {
            keys.editor()?;
        }
        Ok(())
    }

    /// The next message.
    pub(super) async fn message(&mut self, interrupt: &mut Signal) -> CommandResult<TypedInput> {
        match &mut self.source {
            InputSource::Lines(lines) => {
                if self.is_terminal {
                    show(&format!("\n{PROMPT}"))?;
                }
                lines.next_line(interrupt).await
            }
            InputSource::Keys(keys) => keys.message(interrupt).await,
        }
    }

    /// The next answer to a question, passing over the lines that [`Self::hold_typed`] has put aside.
    pub(super) async fn answer(
        &mut self,
        prompt: &'static str,
        interrupt: &mut Signal,
    ) -> CommandResult<TypedInput> {
        match &mut self.source {
            InputSource::Lines(lines) => {
                show(prompt)?;
                lines.new_line(interrupt).await
            }
            InputSource::Keys(keys) => {
                drop_earlier(interrupt);
                keys.editor()?.answer(prompt).await
            }
        }
    }

    /// Puts aside what a person has typed already: it is no answer to what they are about to be asked. A program has
    /// written its answers beforehand.
    pub(super) fn hold_typed(&mut self) -> CommandResult {
        match &mut self.source {
            InputSource::Lines(lines) if self.is_terminal => lines.hold_ready(),
            InputSource::Lines(_) => {}
            InputSource::Keys(keys) => keys.ahead.take_pending()?,
        }
        Ok(())
    }

    /// The lines that were typed and not sent.
    pub(super) fn unsent_lines(&mut self) -> Vec<String> {
        let lines = match &mut self.source {
            InputSource::Lines(lines) => lines.unsent_lines(),
            InputSource::Keys(keys) => keys.unsent_lines(),
        };
        lines.into_iter().filter(|line| !line.trim().is_empty()).collect()
    }
}

/// The keys of a person, with an editor for them.
struct EditorInput {
    colours: bool,
    history: Option<PathBuf>,
    /// None until a line is wanted: a chat with its message on the command line may need none, and then the input
    /// belongs to the program that started the chat.
    open: Option<(LineEditor, KeepingTerminal)>,
    ahead: TypedAhead,
}

impl EditorInput {
    fn editor(&mut self) -> CommandResult<&mut LineEditor> {
        if self.open.is_none() {
            let editor = LineEditor::start(self.colours, self.history.clone())?;
            self.open = Some((editor, KeepingTerminal::begin()?));
        }
        let (editor, _) = self.open.as_mut().ok_or("the line editor did not start")?;
        Ok(editor)
    }

    /// The next line that was typed ahead, or else one that is typed now.
    async fn message(&mut self, interrupt: &mut Signal) -> CommandResult<TypedInput> {
        self.editor()?;
        self.ahead.take_pending()?;
        show("\n")?;
        if let Some(typed) = self.ahead.next_line() {
            if let TypedInput::Line(line) = &typed {
                show(&format!("{PROMPT}{}\n", printable(line)))?;
            }
            return Ok(typed);
        }
        let begun = self.ahead.take_rest();
        drop_earlier(interrupt);
        self.editor()?.message(begun).await
    }

    fn unsent_lines(&mut self) -> Vec<String> {
        let _ = self.ahead.take_pending(); // the terminal may be gone
        let mut lines = Vec::new();
        while let Some(typed) = self.ahead.next_line() {
            if let TypedInput::Line(line) = typed {
                lines.push(line);
            }
        }
        lines.push(self.ahead.take_rest());
        lines
    }
}

/// Forgets a Ctrl-C that was meant for an answer which had ended by then. While the editor waits, Ctrl-C is a key.
fn drop_earlier(interrupt: &mut Signal) {
    let _ = interrupt.recv().now_or_never();
}
