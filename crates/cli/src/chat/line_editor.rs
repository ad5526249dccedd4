//! The line editor of a chat on a terminal, with history and pasted text. It waits for keys in a thread of its own.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::mpsc;

use anstyle::Style;
use rustyline::completion::Completer;
use rustyline::config::BellStyle;
use rustyline::error::{ReadlineError, Signal};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ColorMode, ConditionalEventHandler, Context, Editor, Event, EventContext, EventHandler,
    ExternalPrinter, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::commands::COMMAND_NAMES;
use super::typed_input::{PROMPT, TypedInput, show};
use crate::CommandResult;

/// Lines in the history, and bytes of a line that is worth keeping.
const MAX_HISTORY_LINES: usize = 1000;
const MAX_HISTORY_LINE_BYTES: usize = 8 << 10;

/// The mode of a folder that only its owner may look into.
const PRIVATE_FOLDER: u32 = 0o700;

/// Keys of a terminal with another character set, or a part of a file that is no text, end a line and not the chat.
const NOT_UTF8: &str = "[the terminal sent a character that is not UTF-8, so the line was removed]\n";

const STOPPED: &str = "the line editor has stopped";

/// A request to the editor.
enum EditRequest {
    /// A message, of which this text is typed already.
    Message(String),
    /// An answer to a question, after this prompt.
    Answer(&'static str),
}

pub(super) struct LineEditor {
    requests: mpsc::Sender<EditRequest>,
    typed: Receiver<CommandResult<TypedInput>>,
}

impl LineEditor {
    /// The thread ends with this value, or with the process: nothing can wake it while it waits for keys.
    pub(super) fn start(colours: bool, history: Option<PathBuf>) -> CommandResult<Self> {
        let mut editors = PromptEditors::new(colours, history)?;
        let (requests, asked) = mpsc::channel();
        let (sender, typed): (Sender<_>, _) = channel(1);
        let work = move || {
            for request in asked {
                if sender.blocking_send(editors.read(&request)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("editor".into()).spawn(work)?;
        Ok(Self { requests, typed })
    }

    /// The next message; `begun` is in the line already.
    pub(super) async fn message(&mut self, begun: String) -> CommandResult<TypedInput> {
        self.read(EditRequest::Message(begun)).await
    }

    /// The answer to a question.
    pub(super) async fn answer(&mut self, prompt: &'static str) -> CommandResult<TypedInput> {
        self.read(EditRequest::Answer(prompt)).await
    }

    async fn read(&mut self, request: EditRequest) -> CommandResult<TypedInput> {
        self.requests.send(request).map_err(|_| STOPPED)?;
        self.typed.recv().await.ok_or(STOPPED)?
    }
}

type PromptEditor = Editor<SlashHelper, DefaultHistory>;

/// One editor for messages and one for answers: keys that one of them has read too early stay with it, so no message
/// becomes an answer.
struct PromptEditors {
    message: PromptEditor,
    answer: PromptEditor,
    history: Option<PathBuf>,
    prompt: (&'static str, String),
    /// While these exist, the editors notice a signal, such as that of a new size of the screen, at once.
    _printers: [Box<dyn ExternalPrinter + Send>; 2],
}

impl PromptEditors {
    fn new(colours: bool, history: Option<PathBuf>) -> CommandResult<Self> {
        let (mut message, mut answer) = (editor(colours)?, editor(colours)?);
        bind_keys(&mut message);
        if let Some(history) = &history {
            let _ = message.load_history(history); // the first chat has none
        }
        let printers: [Box<dyn ExternalPrinter + Send>; 2] =
            [Box::new(message.create_external_printer()?), Box::new(answer.create_external_printer()?)];
        let bold = Style::new().bold();
        let prompt = (PROMPT, format!("{}{PROMPT}{}", bold.render(), bold.render_reset()));
        Ok(Self { message, answer, history, prompt, _printers: printers })
    }

    fn read(&mut self, request: &EditRequest) -> CommandResult<TypedInput> {
        let line = match request {
            EditRequest::Message(begun) => {
                self.message.readline_with_initial(&self.prompt, (begun.as_str(), ""))
            }
            EditRequest::Answer(prompt) => self.answer.readline(*prompt),
        };
        match line {
            Ok(line) => {
                let line = line.replace(&format!("\\{CONTINUED}"), "\n");
                if matches!(request, EditRequest::Message(_)) {
                    self.add_to_history(&line);
                }
                Ok(TypedInput::Line(line))
            }
            Err(ReadlineError::Interrupted | ReadlineError::Signal(Signal::Interrupt)) => {
                Ok(TypedInput::Interrupt)
            }
            Err(ReadlineError::Eof) => Ok(TypedInput::End),
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                show(NOT_UTF8)?;
                Ok(TypedInput::Line(String::new()))
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Puts a line into the history, also into that of later chats. A chat works without a history.
    fn add_to_history(&mut self, line: &str) {
        let is_kept = line.len() <= MAX_HISTORY_LINE_BYTES;
        if !is_kept || !self.message.add_history_entry(line).unwrap_or_default() {
            return;
        }
        let Some(file) = &self.history else { return };
        if let Some(folder) = file.parent() {
            let _ = DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(folder);
        }
        let _ = self.message.append_history(file);
    }
}

fn editor(colours: bool) -> rustyline::Result<PromptEditor> {
    let config = rustyline::Config::builder()
        .max_history_size(MAX_HISTORY_LINES)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .bell_style(BellStyle::None)
        .color_mode(if colours { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(SlashHelper));
    Ok(editor)
}

fn bind_keys(editor: &mut PromptEditor) {
    let newline = || EventHandler::Simple(Cmd::Newline);
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), newline());
    editor.bind_sequence(KeyEvent(KeyCode::Char('J'), Modifiers::CTRL_ALT), newline());
    for enter in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('J')] {
        editor.bind_sequence(enter, EventHandler::Conditional(Box::new(EnterKey)));
    }
    editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(InterruptKey)));
}

/// Enter after a backslash begins a new line of the message. A mark tells this backslash from one of a pasted text.
struct EnterKey;

/// After a backslash that goes with its line's end. It has no width.
const CONTINUED: &str = "\u{2060}\n";

impl ConditionalEventHandler for EnterKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        before.ends_with('\\').then(|| Cmd::Insert(1, CONTINUED.to_owned()))
    }
}

/// Ctrl-C removes what is typed, and Ctrl-Y brings it back. In an empty line Ctrl-C ends the chat.
struct InterruptKey;

impl ConditionalEventHandler for InterruptKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        (!context.line().is_empty()).then_some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// Completes the names of slash commands.
struct SlashHelper;

impl Completer for SlashHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..pos).filter(|begun| begun.starts_with('/'));
        let names = begun.map(|begun| COMMAND_NAMES.iter().filter(move |name| name.starts_with(begun)));
        Ok((0, names.into_iter().flatten().map(|name| (*name).to_owned()).collect()))
    }
}

impl Highlighter for SlashHelper {}
impl Hinter for SlashHelper {
    type Hint = String;
}
impl Validator for SlashHelper {}
impl Helper for SlashHelper {}
