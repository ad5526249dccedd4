//! The parts of the table format that both the build script and the crate use: classes of characters, and the hash.

/// Upper-case and title-case letters: the categories Lu and Lt.
pub(crate) const UPPER: u8 = 1;
/// Lower-case letters: the category Ll.
pub(crate) const LOWER: u8 = 1 << 1;
/// Letters without case: the categories Lm and Lo.
pub(crate) const CASELESS: u8 = 1 << 2;
/// Marks that belong to the letter before them: the categories Mn, Mc and Me.
pub(crate) const MARK: u8 = 1 << 3;
/// Numbers: the categories Nd, Nl and No.
pub(crate) const NUMBER: u8 = 1 << 4;
/// White space other than the line ends.
pub(crate) const SPACE: u8 = 1 << 5;
/// The two characters that end a line: carriage return and line feed.
pub(crate) const LINE_END: u8 = 1 << 6;
/// All other characters: punctuation, symbols, control characters, and characters that are not assigned.
pub(crate) const OTHER: u8 = 1 << 7;

/// The table of classes holds this many characters in each block.
pub(crate) const BLOCK: usize = 256;

/// The lower bits of a slot of the hash table are the place of a record plus one. An empty slot is zero.
pub(crate) const PLACE_BITS: u32 = 22;
/// The bytes of a record before the bytes of its token: three for the rank, one for the length of the token.
pub(crate) const RECORD_HEAD: usize = 4;

/// The slot with which the search for a token begins. The lower half of its hash, as a fraction, chooses among all slots.
#[inline]
pub(crate) fn first_slot(hash: u64, slots: usize) -> usize {
    (((hash & u64::from(u32::MAX)) * slots as u64) >> 32) as usize
}

/// The hash of a token. Its lower half chooses the slot, its upper bits are the tag that is kept in the slot.
#[inline]
pub(crate) fn hash(token: &[u8]) -> u64 {
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
pub(crate) fn tag(hash: u64) -> u32 {
    (hash >> (32 + PLACE_BITS)) as u32
}
