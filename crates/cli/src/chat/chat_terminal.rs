//! The terminal that a chat runs on: what it can show, and where its history is kept.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use super::markdown::Look;
use crate::config::Environment;

/// The width of a terminal that does not say it.
const USUAL_COLUMNS: usize = 80;

/// The name of the history in the user's state folder.
const HISTORY_FILE: &str = "rondo/chat_history";

pub(super) struct ChatTerminal {
    /// Whether a person types the input.
    pub(super) is_interactive: bool,
    /// Whether the output is shown on a terminal that can do more than print text.
    pub(super) is_rich: bool,
    /// Whether remarks are shown there too.
    pub(super) has_remarks: bool,
    pub(super) colours: bool,
    /// The file with the lines of earlier chats; none if the user has no state folder.
    pub(super) history: Option<PathBuf>,
}

impl ChatTerminal {
    pub(super) fn of(environment: &Environment<'_>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_some_and(|term| term == "dumb");
        let state = set("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
        let is_rich = io::stdout().is_terminal() && !is_dumb;
        Self {
            is_interactive: io::stdin().is_terminal(),
            is_rich,
            has_remarks: is_rich && io::stderr().is_terminal(),
            colours: set("NO_COLOR").is_none(),
            history: state.map(|folder| folder.join(HISTORY_FILE)),
        }
    }

    /// Whether lines can be edited: the editor writes to standard output.
    pub(super) fn has_editor(&self) -> bool {
        self.is_interactive && self.is_rich
    }

    /// How texts look now; none where they are printed as they are.
    pub(super) fn look(&self) -> Option<Look> {
        self.is_rich.then(|| Look { colours: self.colours, columns: columns() })
    }
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map(|size| usize::from(size.ws_col)).ok().filter(|columns| *columns > 0).unwrap_or(USUAL_COLUMNS)
}
