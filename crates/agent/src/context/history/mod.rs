//! Earlier turns of the conversation: read, chosen by importance under a budget, and written in the app's style.

mod importance;
mod long_texts;
mod plain;
mod read;
mod reference;
mod select;

use app::HistoryStyle;
use model::{Counter, PromptMessage};
use protocol::{MessageId, Seq};

use super::{Context, Cuts, parts};
use crate::transcript::MessageTurn;

pub use plain::cap_text;
pub(super) use plain::{MAX_RESULT_BYTES, cut, exchange, plain, shown_result};
pub(crate) use read::{NewestMessages, PromptLook, chain, read_path};
pub(super) use read::{ReadHistory, read, read_again};
pub(super) use reference::RECENT;
pub(crate) use select::units;
pub(super) use select::{SelectedTurns, select};

/// Earlier turns, oldest first, as far as they are shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptHistory {
    pub(crate) style: HistoryStyle,
    pub(crate) turns: Vec<PastTurn>,
}

/// A turn and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastTurn {
    pub(crate) id: MessageId,
    pub(crate) seq: Seq,
    pub(crate) turn: MessageTurn,
}

/// The messages of the history without what does not fit, in the app's style.
pub(super) fn messages(context: &Context, cuts: &Cuts) -> Vec<PromptMessage> {
    let units = units(&context.history.turns);
    let from = units.get(cuts.dropped).map_or(context.history.turns.len(), |unit| unit.start);
    let turns = context.history.turns.get(from..).unwrap_or_default();
    let images = parts::shown_images(context.history.style, turns, cuts.images.unwrap_or(0));
    match context.history.style {
        HistoryStyle::Plain => plain::messages(turns, context, &images),
        HistoryStyle::Reference => {
            let there = context.pieces.iter().filter(|piece| !cuts.without.contains(&piece.fragment));
            reference::messages(turns, &there.collect::<Vec<_>>(), context, &images)
        }
    }
}

/// The tokens that each of its parts takes.
pub(super) fn costs(context: &Context, counter: &Counter) -> Vec<usize> {
    let turns = &context.history.turns;
    let cost = |past: &PastTurn| -> usize {
        plain::turn(&past.turn, &context.fence).iter().map(|said| counter.message(said)).sum()
    };
    units(turns).into_iter().map(|unit| turns.get(unit).into_iter().flatten().map(cost).sum()).collect()
}

/// How many of its parts can be left out, oldest first, without parting a call from its result.
pub(super) fn droppable_parts(context: &Context) -> usize {
    units(&context.history.turns).len()
}
