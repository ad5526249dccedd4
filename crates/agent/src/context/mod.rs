//! The prompt that the model will see: everything a prompt needs, read once, then put together by a pure function.
//!
//! [`gather()`] reads, each fragment of a prompt in a file of its own under `fragments` and `history`; what it read is
//! noted in the log by name and kept beside it, so that [`rebuild()`] gives the same again. [`compose()`] orders the
//! fragments as the app says, and makes them fit.

mod assemble;
mod compose;
mod fence;
mod fragments;
mod gather;
mod history;
mod object;
mod parts;
mod rebuild;
mod shape;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use app::{ContextRules, Fragment};
use jiff::Timestamp;
use memory::tombstone::Forgotten;
use model::ToolSpec;
use protocol::{ContextLoaded, MessageId, MessagePart, Settings};

use crate::hiding;
use crate::state::FinishedStep;

pub(crate) use assemble::{Assembled, assemble};
pub(crate) use compose::{Composed, Cuts, PromptBudget, compose, half, offered_tools};
pub(crate) use fence::Fence;
pub use gather::most_pin_tokens;
pub(crate) use gather::{Gathered, Sources, UserFacts, gather, hash, hex};
pub use history::cap_text;
pub(crate) use history::{NewestMessages, PastTurn, PromptHistory, PromptLook, chain, read_path, units};
pub(crate) use object::TextOf;
pub(crate) use rebuild::rebuild;
pub(crate) use shape::{AnswerShape, WantedAnswer};

/// Everything a run reads, read once and then fixed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Context {
    /// Which fragment stands where, and what each may take.
    pub(crate) rules: ContextRules,
    /// Texts from outside the log, in the order in which they are shown.
    pub(crate) pieces: Vec<PromptPiece>,
    /// The caller's addition to the instructions.
    pub(crate) custom: Option<String>,
    /// The entry of the log about what was loaded.
    pub(crate) loaded: ContextLoaded,
    /// The path before the message that is answered, as far as it is shown.
    pub(crate) history: PromptHistory,
    /// The message that is answered.
    pub(crate) message: String,
    /// Images and documents of that message.
    pub(crate) parts: Vec<MessagePart>,
    /// Images of earlier messages that may be shown.
    pub(crate) history_images: usize,
    pub(crate) message_id: MessageId,
    /// Marks what is data.
    pub(crate) fence: Fence,
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) settings: Settings,
    /// The shape of the answer; words when none.
    pub(crate) shape: Option<Arc<AnswerShape>>,
    /// Words that were forgotten since the run began, where it is taken up or looked at again.
    pub(crate) hides: Option<Hides>,
}

/// Words that are forgotten in all that a run said.
#[derive(Debug, Clone)]
pub(crate) struct Hides {
    pub(crate) forgotten: Arc<Forgotten>,
    pub(crate) said_at: Timestamp,
}

impl PartialEq for Hides {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.forgotten, &other.forgotten) && self.said_at == other.said_at
    }
}

impl Context {
    /// Whether a message of the user has text that reads like instructions of a third party.
    fn is_suspicious(&self, message: MessageId) -> bool {
        let id = message.to_string();
        self.loaded.suspicious.contains(&id)
    }

    /// One of the run's steps as the model may see it.
    fn shown_step<'a>(&self, done: &'a FinishedStep) -> Cow<'a, FinishedStep> {
        let Some(Hides { forgotten, said_at }) = &self.hides else { return Cow::Borrowed(done) };
        let mut hidden = done.clone();
        hiding::hide_in_done(&mut hidden, forgotten, *said_at);
        Cow::Owned(hidden)
    }
}

/// A text that enters a prompt from outside the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptPiece {
    pub(crate) fragment: Fragment,
    /// The source, by id.
    pub(crate) source: String,
    pub(crate) text: String,
    /// Whether it reads like instructions to an assistant rather than like data.
    pub(crate) suspicious: bool,
}

impl PromptPiece {
    pub(crate) fn new(fragment: Fragment, source: impl Display, text: String) -> Self {
        Self { fragment, source: source.to_string(), text, suspicious: false }
    }

    /// A piece of data, looked at for instructions in it.
    pub(crate) fn of_data(fragment: Fragment, source: impl Display, text: String) -> Self {
        let suspicious = memory::suspicion::is_instruction(&text);
        Self { suspicious, ..Self::new(fragment, source, text) }
    }
}

/// Whether the model is offered tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolOffer {
    Tools,
    /// None: the model has no use for them. Nothing is said of tools.
    Nothing,
    /// Words only. The results of tools so far become part of the instructions.
    Words,
}
