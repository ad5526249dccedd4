//! Which earlier turns are shown: all that fit; else long messages are shortened, and the last exchange is shown, and then
//! those that matter most.

use std::ops::Range;

use model::Counter;
use protocol::{LeftOut, Role, Stretch};

use super::{PastTurn, importance, long_texts, plain};
use crate::context::Fence;

/// The number of newest units that are shown without regard to their importance, if they fit.
const ALWAYS: usize = 2;

/// If not all texts fit whole, each gets at most 1/`MESSAGE_SHARE` of the room. So a long message and a long answer to
/// it leave half of the room to others.
const MESSAGE_SHARE: usize = 4;

/// The usual maximum of bytes in a token. If tokens have fewer, the length of shortened messages is halved, at most
/// `MAX_HALVINGS` times.
const BYTES_PER_TOKEN: usize = 4;
const MAX_HALVINGS: usize = 8;

/// The turns that are shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::context) struct SelectedTurns {
    pub(in crate::context) turns: Vec<PastTurn>,
    /// The places of the turns, neighbours together.
    pub(in crate::context) stretches: Vec<Stretch>,
    pub(in crate::context) left_out: Option<LeftOut>,
    /// Bytes to which longer messages were shortened.
    pub(in crate::context) bytes: Option<usize>,
}

/// Parts that stay together: what a user said and everything up to what they said next, so that no call is parted from
/// its result.
pub(crate) fn units(turns: &[PastTurn]) -> Vec<Range<usize>> {
    let mut units: Vec<Range<usize>> = Vec::new();
    for (index, past) in turns.iter().enumerate() {
        match units.last_mut() {
            Some(unit) if past.turn.role != Some(Role::User) => unit.end = index + 1,
            Some(_) | None => units.push(index..index + 1),
        }
    }
    units
}

/// Chooses under a budget of tokens.
pub(in crate::context) fn select(
    mut turns: Vec<PastTurn>,
    pins: &[&str],
    room: usize,
    (counter, fence): (&Counter, &Fence),
) -> SelectedTurns {
    let units = units(&turns);
    let cost = |past: &PastTurn| {
        plain::turn(&past.turn, fence).iter().map(|said| counter.message(said)).sum::<usize>()
    };
    let costs_of = |turns: &[PastTurn]| -> Vec<usize> {
        units.iter().map(|unit| turns.get(unit.clone()).into_iter().flatten().map(cost).sum()).collect()
    };
    let mut costs = costs_of(&turns);
    let mut bytes = None;
    if costs.iter().sum::<usize>() > room {
        bytes = shorten(&mut turns, room, counter, cost);
        costs = costs_of(&turns);
    }
    let kept = if costs.iter().sum::<usize>() <= room {
        vec![true; units.len()]
    } else {
        keep(&importance::of(&turns, pins), &units, &costs, room)
    };
    let missing = || kept.iter().zip(&costs).filter(|(kept, _)| !**kept);
    let left_out = missing().next().is_some().then(|| LeftOut {
        fragment: app::Fragment::History.name().into(),
        what: format!("{} of {} exchanges", missing().count(), units.len()),
        tokens: missing().map(|(_, cost)| *cost as u64).sum(),
    });
    let shown: Vec<bool> =
        units.iter().zip(&kept).flat_map(|(unit, kept)| unit.clone().map(|_| *kept)).collect();
    let stretches = stretches(&turns, &shown);
    let turns = turns.into_iter().zip(shown).filter_map(|(past, shown)| shown.then_some(past)).collect();
    SelectedTurns { turns, stretches, left_out, bytes }
}

/// Shortens texts that take more than a part of the room, and says to how many bytes; and further, where the last exchange
/// would still take more than half of it. They are not left out: what is asked next could not be understood.
fn shorten(
    turns: &mut [PastTurn],
    room: usize,
    counter: &Counter,
    cost: impl Fn(&PastTurn) -> usize,
) -> Option<usize> {
    let most = room / MESSAGE_SHARE;
    let is_long = |past: &PastTurn| long_texts::texts(past).any(|text| counter.text(&text) > most);
    let last = units(turns).pop().unwrap_or_default();
    let too_much = |last: &[PastTurn]| last.iter().map(&cost).sum::<usize>() > room / 2;
    if !turns.iter().any(is_long) && !turns.get(last.clone()).is_some_and(too_much) {
        return None;
    }
    let mut bytes = most.saturating_mul(BYTES_PER_TOKEN);
    for _ in 0..MAX_HALVINGS {
        let cut = |past: &PastTurn| {
            let mut past = past.clone();
            long_texts::shorten(&mut past, bytes);
            past
        };
        let last: Vec<PastTurn> = turns.get(last.clone()).unwrap_or_default().iter().map(cut).collect();
        if bytes <= long_texts::MIN_BYTES
            || !(turns.iter().map(cut).any(|past| is_long(&past)) || too_much(&last))
        {
            break;
        }
        bytes /= 2;
    }
    turns.iter_mut().for_each(|past| long_texts::shorten(past, bytes));
    Some(bytes)
}

/// The newest few, then by importance, as long as they fit.
fn keep(importance: &[f32], units: &[Range<usize>], costs: &[usize], room: usize) -> Vec<bool> {
    let most =
        |unit: &Range<usize>| importance.get(unit.clone()).into_iter().flatten().copied().fold(0.0, f32::max);
    let mut ranked: Vec<(usize, f32)> = units.iter().map(most).enumerate().collect();
    let newest = units.len().saturating_sub(ALWAYS);
    ranked
        .sort_by(|a, b| (b.0 >= newest).cmp(&(a.0 >= newest)).then(b.1.total_cmp(&a.1)).then(b.0.cmp(&a.0)));
    let (mut left, mut kept) = (room, vec![false; units.len()]);
    for (index, _) in ranked {
        let Some(rest) = costs.get(index).and_then(|cost| left.checked_sub(*cost)) else { continue };
        left = rest;
        if let Some(kept) = kept.get_mut(index) {
            *kept = true;
        }
    }
    kept
}

fn stretches(turns: &[PastTurn], shown: &[bool]) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut joined = false;
    for (past, shown) in turns.iter().zip(shown) {
        match stretches.last_mut() {
            Some(last) if *shown && joined => last.to = past.seq,
            Some(_) | None if *shown => stretches.push(Stretch { from: past.seq, to: past.seq }),
            Some(_) | None => {}
        }
        joined = *shown;
    }
    stretches
}
