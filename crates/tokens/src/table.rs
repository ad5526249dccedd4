//! Finds the rank of a token in the tables that the build script writes.

use crate::shared::{PLACE_BITS, RECORD_HEAD, first_slot, hash, tag};

/// The tokens of a vocabulary by their bytes.
pub(crate) struct TokenTable {
    /// The records of all tokens: the rank in three bytes, the length in one, and the bytes of the token.
    records: &'static [u8],
    /// A hash table whose slots are numbers of four bytes: the tag of a hash, and the place of a record plus one.
    /// A token stands in the slot that its hash names, or in one of the next slots without an empty one between. After the
    /// last slot, the search continues at the first one.
    slots: &'static [[u8; 4]],
    /// For every two bytes, the rank plus one of the token that they make, or zero. More than half of the tokens that
    /// are looked for have two bytes, so these are found without a hash.
    pairs: &'static [[u8; 3]],
}

/// Bytes that begin at a multiple of 64, so that no slot lies in two lines of the processor's cache.
#[repr(C, align(64))]
struct AlignedBytes<T>(T);

macro_rules! token_table {
    ($name:literal) => {{
        const FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".slots"));
        static SLOTS: AlignedBytes<[u8; FILE.len()]> =
            AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".slots")));
        TokenTable {
            records: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".records")),
            slots: SLOTS.0.as_chunks().0,
            pairs: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".pairs")).as_chunks().0,
        }
    }};
}

pub(crate) static O200K: TokenTable = token_table!("o200k_base");
pub(crate) static CL100K: TokenTable = token_table!("cl100k_base");

impl TokenTable {
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
            let slot = u32::from_le_bytes(*self.slots.get(index)?);
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
        let [low, middle, high] = *self.pairs.get(usize::from(u16::from_be_bytes([first, second])))?;
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
