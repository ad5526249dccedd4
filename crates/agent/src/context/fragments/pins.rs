//! Pins: texts that the user marked as important, in this thread or in all of the app's.

use std::collections::HashSet;

use app::Fragment;
use memory::words;
use model::Counter;
use protocol::{LeftOut, PinView};
use serde_json::Value;

use crate::context::{Fence, PromptPiece};

/// Pins that fit, in the order in which they were made. When not all do, those nearest to the message are taken, then
/// the newest.
pub(in crate::context) fn choose(
    mut rows: Vec<PinView>,
    message: &str,
    room: usize,
    counter: &Counter,
) -> (Vec<PinView>, Option<LeftOut>) {
    let costs: Vec<usize> = rows.iter().map(|row| counter.text(&row.text)).collect();
    if costs.iter().sum::<usize>() <= room {
        return (rows, None);
    }
    let asked: HashSet<String> = words::terms(message).into_iter().collect();
    let near = |row: &PinView| words::terms(&row.text).iter().filter(|term| asked.contains(*term)).count();
    let mut ranked: Vec<(usize, usize)> = rows.iter().map(near).enumerate().map(|(i, n)| (n, i)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let (mut left, mut kept) = (room, HashSet::new());
    for (_, index) in ranked {
        let Some(rest) = costs.get(index).and_then(|cost| left.checked_sub(*cost)) else { continue };
        left = rest;
        kept.insert(index);
    }
    let all = rows.len();
    let missing = costs
        .iter()
        .enumerate()
        .filter(|(index, _)| !kept.contains(index))
        .map(|(_, cost)| cost)
        .sum::<usize>();
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
    let what = format!("{} of {all} pins", all - rows.len());
    (rows, Some(LeftOut { fragment: Fragment::Pins.name().into(), what, tokens: missing as u64 }))
}

/// Kept as they are: one style writes them into a line of its own.
pub(in crate::context) fn piece(row: &PinView) -> PromptPiece {
    PromptPiece::of_data(Fragment::Pins, row.id, row.text.clone())
}

pub(super) fn text(pieces: &[&PromptPiece], fence: &Fence) -> String {
    let line = |piece: &&PromptPiece| PromptPiece {
        text: format!("- {}", Value::from(piece.text.as_str())),
        ..(*piece).clone()
    };
    let lines: Vec<PromptPiece> = pieces.iter().map(line).collect();
    super::lines(
        "What the user has pinned as important, one a line.",
        &lines.iter().collect::<Vec<_>>(),
        fence,
    )
}
