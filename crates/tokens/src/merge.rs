//! Counts the tokens of a piece that is no token itself: neighbouring parts are joined, lowest rank first, until no two
//! of them make a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::table::TokenTable;

/// Pieces up to this length are joined without memory from the heap: a word of the processor has a bit for each byte.
const SHORT: usize = u64::BITS as usize;
/// A longer piece is counted in parts of this many bytes. Only a text that was made for it has such pieces; the limit
/// bounds the memory, and a token or two more are counted at each border.
const MAX_PART: usize = 1 << 20;
/// The key of two parts that make no token.
const NO_TOKEN: u32 = u32::MAX;

/// The number of tokens of a piece that is no token itself.
pub(crate) fn count_parts(table: &TokenTable, piece: &[u8]) -> usize {
    if piece.len() <= SHORT {
        return count_short(table, piece);
    }
    piece.chunks(MAX_PART).map(|part| LongPiece::new(table, part).count()).sum()
}

/// The number of tokens of a piece of at most 64 bytes.
fn count_short(table: &TokenTable, piece: &[u8]) -> usize {
    let len = piece.len().min(SHORT) as u32;
    // Bit `n` is set where a part starts at byte `n`.
    let mut starts = u64::MAX.checked_shr(SHORT as u32 - len).unwrap_or(0);
    // For each start, the rank of its part joined with the next one, and below it the start: the least key is the pair
    // to join next, and of equal ranks the first one.
    let mut keys = [NO_TOKEN; SHORT];
    for ((key, [first, second]), start) in keys.iter_mut().zip(piece.array_windows()).zip(0..) {
        *key = short_key(table.pair_rank(*first, *second), start);
    }
    loop {
        let used = keys.get(..len as usize).unwrap_or_default();
        let least = used.iter().copied().min().unwrap_or(NO_TOKEN);
        if least == NO_TOKEN {
            return starts.count_ones() as usize;
        }
        let start = least % u64::BITS;
        let middle = next_start(starts, start, len);
        starts &= !(1_u64.checked_shl(middle).unwrap_or(0));
        set_key(&mut keys, middle, NO_TOKEN);
        let end = next_start(starts, start, len);
        let pair = bytes_between(piece, start, if end < len { next_start(starts, end, len) } else { start });
        set_key(&mut keys, start, short_key(table.rank(pair), start));
        let before = starts & (1_u64.checked_shl(start).unwrap_or(0).wrapping_sub(1));
        if let Some(previous) = before.checked_ilog2() {
            let pair = bytes_between(piece, previous, end);
            set_key(&mut keys, previous, short_key(table.rank(pair), previous));
        }
    }
}

#[inline]
fn short_key(rank: Option<u32>, start: u32) -> u32 {
    rank.map_or(NO_TOKEN, |rank| rank * u64::BITS + start)
}

#[inline]
fn set_key(keys: &mut [u32; SHORT], start: u32, key: u32) {
    if let Some(kept) = keys.get_mut(start as usize) {
        *kept = key;
    }
}

/// The start of the part after the one at `start`, or the length of the piece.
#[inline]
fn next_start(starts: u64, start: u32, len: u32) -> u32 {
    let after = starts & u64::MAX.checked_shl(start + 1).unwrap_or(0);
    after.trailing_zeros().min(len)
}

#[inline]
fn bytes_between(piece: &[u8], start: u32, end: u32) -> &[u8] {
    piece.get(start as usize..end as usize).unwrap_or_default()
}

/// A part of a long piece, by the place where it starts.
#[derive(Clone, Copy)]
struct LinkedPart {
    /// The start of the part before it. The first part names itself.
    previous: u32,
    /// The start of the part after it, or the length of the piece.
    next: u32,
    /// The rank of this part joined with the next one.
    rank: u32,
}

/// A long piece while its parts are joined. The time is that of sorting its bytes.
struct LongPiece<'t> {
    table: &'t TokenTable,
    bytes: &'t [u8],
    parts: Vec<LinkedPart>,
    /// Pairs to join, by their rank and then their start. A pair whose rank has changed since is passed over.
    queue: BinaryHeap<Reverse<(u32, u32)>>,
}

impl<'t> LongPiece<'t> {
    fn new(table: &'t TokenTable, bytes: &'t [u8]) -> Self {
        let pairs =
            bytes.array_windows().map(|[first, second]| table.pair_rank(*first, *second).unwrap_or(NO_TOKEN));
        let ranks = pairs.chain([NO_TOKEN]).zip(0_u32..);
        let parts: Vec<LinkedPart> = ranks
            .map(|(rank, start)| LinkedPart { previous: start.saturating_sub(1), next: start + 1, rank })
            .collect();
        let pairs = parts.iter().zip(0..).filter(|(part, _)| part.rank != NO_TOKEN);
        let queue = pairs.map(|(part, start)| Reverse((part.rank, start))).collect();
        Self { table, bytes, parts, queue }
    }

    /// Joins the parts, and returns how many are left.
    fn count(mut self) -> usize {
        let mut count = self.bytes.len();
        while let Some(Reverse((rank, start))) = self.queue.pop() {
            let Some(part) = self.part(start).filter(|part| part.rank == rank) else { continue };
            let Some(joined) = self.part(part.next) else { continue };
            count -= 1;
            if let Some(gone) = self.parts.get_mut(part.next as usize) {
                gone.rank = NO_TOKEN;
            }
            if let Some(part) = self.parts.get_mut(start as usize) {
                part.next = joined.next;
            }
            if let Some(following) = self.parts.get_mut(joined.next as usize) {
                following.previous = start;
            }
            self.rank_pair(start);
            if part.previous != start {
                self.rank_pair(part.previous);
            }
        }
        count
    }

    fn part(&self, start: u32) -> Option<LinkedPart> {
        self.parts.get(start as usize).copied()
    }

    /// Looks up the rank of a part joined with the next one, after one of the two has changed.
    fn rank_pair(&mut self, start: u32) {
        let next = self.part(start).and_then(|part| self.part(part.next));
        let bytes = next.map_or(&[][..], |next| bytes_between(self.bytes, start, next.next));
        let rank = self.table.rank(bytes).unwrap_or(NO_TOKEN);
        if let Some(part) = self.parts.get_mut(start as usize) {
            part.rank = rank;
        }
        if rank != NO_TOKEN {
            self.queue.push(Reverse((rank, start)));
        }
    }
}
