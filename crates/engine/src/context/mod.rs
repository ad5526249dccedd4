//! What the model will see: everything a prompt needs, read at once, then put together by a pure function.

mod compose;
pub(crate) mod estimate;
mod history;
mod load;
mod shape;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Message, ToolSpec};
use protocol::Settings;

pub(crate) use compose::{Budget, compose};
pub(crate) use history::capped;
pub(crate) use load::{Sources, load};
pub(crate) use shape::{Shape, Wanted};
pub(crate) use snapshot::{View, take as take_snapshot};

/// Everything a run reads, read once and then fixed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Context {
    /// The app's instructions, the caller's addition, memories, and the date: stable parts first.
    pub(crate) system: String,
    /// What was looked up for the message; empty when nothing was.
    pub(crate) recalled: String,
    /// The path before the message that is answered.
    pub(crate) history: Vec<Message>,
    /// The message that is answered.
    pub(crate) message: String,
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) settings: Settings,
    /// What the answer must look like; words when none.
    pub(crate) shape: Option<Arc<Shape>>,
}

impl Context {
    /// About how many tokens the earlier turns have.
    pub(crate) fn history_tokens(&self) -> usize {
        self.history.iter().map(estimate::message).sum()
    }
}

/// Whether the model is offered tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Tools,
    /// Words only. What the tools found so far becomes part of the instructions.
    Words,
}
