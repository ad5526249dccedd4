//! Merging neighbours, the earliest learnt pair first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The token that two neighbours become, and how early that was learnt.
pub(super) struct Merges(HashMap<(u32, u32), (u32, u32)>);

/// A token on its way, in a list whose links survive the removal of neighbours.
struct Link {
    token: u32,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A pair that may be merged: how early it was learnt, where it begins, and what it was when it was found.
type Pair = Reverse<(u32, usize, (u32, u32))>;

impl Merges {
    /// Merges of tokens that the vocabulary does not have are left out.
    pub(super) fn load(lines: &[&str], ids: &HashMap<&str, u32>) -> Self {
        let merge = |(rank, line): (u32, &&str)| {
            let (left, right) = line.split_once(' ')?;
            let joined = *ids.get(format!("{left}{right}").as_str())?;
            Some(((*ids.get(left)?, *ids.get(right)?), (rank, joined)))
        };
        Self((0_u32..).zip(lines).filter_map(merge).collect())
    }

    pub(super) fn merge(&self, tokens: Vec<u32>) -> Vec<u32> {
        let last = tokens.len().saturating_sub(1);
        let link = |(index, token): (usize, u32)| Link {
            token,
            previous: index.checked_sub(1),
            next: Some(index + 1).filter(|_| index < last),
        };
        let mut links: Vec<Link> = tokens.into_iter().enumerate().map(link).collect();
        let mut pairs: BinaryHeap<Pair> =
            (0..links.len()).filter_map(|left| self.pair(&links, left)).collect();
        while let Some(Reverse((_, left, pair))) = pairs.pop() {
            // Each merge removes a token and adds two pairs at most, so this ends.
            if let Some(previous) = self.join(&mut links, left, pair) {
                pairs.extend(previous.into_iter().chain([left]).filter_map(|left| self.pair(&links, left)));
            }
        }
        let mut merged = Vec::new();
        let mut at = links.first();
        while let Some(link) = at {
            merged.push(link.token);
            at = link.next.and_then(|next| links.get(next));
        }
        merged
    }

    fn pair(&self, links: &[Link], left: usize) -> Option<Pair> {
        let link = links.get(left)?;
        let pair = (link.token, links.get(link.next?)?.token);
        Some(Reverse((self.0.get(&pair)?.0, left, pair)))
    }

    /// Joins the pair if it is still there. Gives what stands before it.
    fn join(&self, links: &mut [Link], left: usize, pair: (u32, u32)) -> Option<Option<usize>> {
        let right = links.get(left).filter(|link| link.token == pair.0)?.next?;
        let after = links.get(right).filter(|link| link.token == pair.1)?.next;
        let joined = self.0.get(&pair)?.1;
        if let Some(after) = after.and_then(|after| links.get_mut(after)) {
            after.previous = Some(left);
        }
        // The right one is out of the list; without a next it can never be the left of a pair again.
        if let Some(right) = links.get_mut(right) {
            right.next = None;
        }
        let link = links.get_mut(left)?;
        (link.token, link.next) = (joined, after);
        Some(link.previous)
    }
}
