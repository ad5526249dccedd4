//! Finds the rank of a token. The program has the tokens compressed; the first search makes a hash table of them.

use std::io::{Error, ErrorKind, Read};
use std::sync::LazyLock;

use flate2::bufread::DeflateDecoder;

/// The lower bits of a slot of the hash table are the place of a record plus one. An empty slot is zero.
const PLACE_BITS: u32 = 22;
/// The bytes of a record before the bytes of its token: three for the rank, one for the length of the token.
const RECORD_HEAD: usize = 4;
/// Slots of the hash table for each 3 tokens. A quarter of the slots is empty, so that the search for bytes that are no
/// token ends soon.
const SLOTS_FOR_3: usize = 4;

/// The tokens of a vocabulary by their bytes.
#[derive(Default)]
pub(crate) struct TokenTable {
    /// The records of all tokens in the order of their ranks: the rank in three bytes, the length in one, and the bytes
    /// of the token.
    records: Vec<u8>,
    /// A hash table whose slots have the tag of a hash, and the place of a record plus one. A token stands in the slot
    /// that its hash names, or in one of the next slots without an empty one between. After the last slot, the search
    /// continues at the first one.
    slots: Vec<u32>,
    /// For every two bytes, the rank plus one of the token that they make, or zero. More than half of the tokens that
    /// are looked for have two bytes, so these are found without a hash.
    pairs: Vec<[u8; 3]>,
}

macro_rules! token_table {
    ($name:literal) => {
        LazyLock::new(|| {
            let lengths = include_bytes!(concat!("../data/", $name, ".lengths"));
            let bytes = include_bytes!(concat!("../data/", $name, ".bytes"));
            // The files are a part of the program, and tests read all of them, so nothing is wrong with them.
            TokenTable::expand(lengths, bytes).unwrap_or_default()
        })
    };
}

pub(crate) static O200K: LazyLock<TokenTable> = token_table!("o200k_base");
pub(crate) static CL100K: LazyLock<TokenTable> = token_table!("cl100k_base");

impl TokenTable {
    /// Makes the table of the compressed lengths of all tokens and their compressed bytes, both in the order of ranks.
    fn expand(lengths: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let (lengths, bytes) = (inflate(lengths)?, inflate(bytes)?);
        let mut table = Self {
            records: Vec::with_capacity(bytes.len() + lengths.len() * RECORD_HEAD),
            slots: vec![0; lengths.len() * SLOTS_FOR_3 / 3],
            pairs: vec![[0; 3]; 1 << 16],
        };
        let mut rest = bytes.as_slice();
        for (rank, len) in (0..).zip(lengths) {
            let (token, tail) = rest.split_at_checked(usize::from(len)).ok_or(ErrorKind::UnexpectedEof)?;
            table.add(rank, len, token);
            rest = tail;
        }
        if rest.is_empty() { Ok(table) } else { Err(ErrorKind::InvalidData.into()) }
    }

    fn add(&mut self, rank: u32, len: u8, token: &[u8]) {
        let place = self.records.len() as u32 + 1;
        let [low, middle, high, _] = rank.to_le_bytes();
        self.records.extend([low, middle, high, len]);
        self.records.extend_from_slice(token);
        if let [first, second] = *token
            && let Some(pair) = self.pairs.get_mut(pair_index(first, second))
        {
            let [low, middle, high, _] = (rank + 1).to_le_bytes();
            *pair = [low, middle, high];
        }
        let hash = hash(token);
        let first = first_slot(hash, self.slots.len());
        let (after, before) = self.slots.split_at_mut(first);
        if let Some(free) = before.iter_mut().chain(after).find(|slot| **slot == 0) {
            *free = tag(hash) << PLACE_BITS | place;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, bytes: &[u8]) -> bool {
        self.rank(bytes).is_some()
    }

    /// The rank of the token with these bytes. Parts of a text with lower ranks are joined first.
    #[inline]
    pub(crate) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if let [first, second] = *bytes {
            return self.pair_rank(first, second);
        }
        // The length of a token has one byte.
        if bytes.len() > usize::from(u8::MAX) {
            return None;
        }
        let hash = hash(bytes);
        let mut index = first_slot(hash, self.slots.len());
        loop {
            let slot = *self.slots.get(index)?;
            if slot == 0 {
                return None;
            }
            if slot >> PLACE_BITS == tag(hash)
                && let Some(rank) = self.rank_at(slot, bytes)
            {
                return Some(rank);
            }
            index += 1;
            if index == self.slots.len() {
                index = 0;
            }
        }
    }

    /// The rank of the token with these two bytes.
    #[inline]
    pub(crate) fn pair_rank(&self, first: u8, second: u8) -> Option<u32> {
        let [low, middle, high] = *self.pairs.get(pair_index(first, second))?;
        u32::from_le_bytes([low, middle, high, 0]).checked_sub(1)
    }

    /// The rank in the record of a slot, if that is the record of these bytes.
    #[inline]
    fn rank_at(&self, slot: u32, bytes: &[u8]) -> Option<u32> {
        let place = (slot & ((1 << PLACE_BITS) - 1)) as usize - 1;
        let record = self.records.get(place..)?;
        let [low, middle, high, len] = *record.first_chunk::<RECORD_HEAD>()?;
        let token = record.get(RECORD_HEAD..RECORD_HEAD + usize::from(len))?;
        (token == bytes).then_some(u32::from_le_bytes([low, middle, high, 0]))
    }
}

fn inflate(compressed: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    DeflateDecoder::new(compressed).read_to_end(&mut plain)?;
    Ok(plain)
}

#[inline]
fn pair_index(first: u8, second: u8) -> usize {
    usize::from(u16::from_be_bytes([first, second]))
}

/// The slot with which the search for a token begins. The lower half of its hash, as a fraction, chooses among all
/// slots.
#[inline]
fn first_slot(hash: u64, slots: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * slots as u64) >> 32) as usize
}

/// The hash of a token. Its lower half chooses the slot, its upper bits are the tag that is kept in the slot.
#[inline]
fn hash(token: &[u8]) -> u64 {
    let seed = (token.len() as u64).wrapping_mul(0xA24B_AED4_963E_E407);
    if let Some(last) = token.last_chunk() {
        let (words, _) = token.as_chunks();
        return mix(words.iter().fold(seed, |sum, word| mix(sum ^ u64::from_le_bytes(*word)))
            ^ u64::from_le_bytes(*last));
    }
    // Four to seven bytes are read as two parts that may overlap.
    if let (Some([a, b, c, d]), Some([e, f, g, h])) = (token.first_chunk(), token.last_chunk()) {
        return mix(seed ^ u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]));
    }
    let (a, b, c) = match *token {
        [a] => (a, 0, 0),
        [a, b] => (a, b, 0),
        [a, b, c, ..] => (a, b, c),
        [] => (0, 0, 0),
    };
    mix(seed ^ u64::from(u32::from_le_bytes([a, b, c, 0])))
}

/// The product in 128 bits, whose halves are folded: every bit of the value has an effect on every bit of the result.
#[inline]
fn mix(value: u64) -> u64 {
    let product = u128::from(value) * 0x9E37_79B9_7F4A_7C15;
    (product as u64) ^ ((product >> 64) as u64)
}

/// The tag of a hash: the part of a slot above the place of the record.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> (32 + PLACE_BITS)) as u32
}
