//! The class of a character, from a table in two steps that `examples/write_data.rs` writes.

use crate::shared::{BLOCK, OTHER};

static NUMBERS: &[u8] = include_bytes!("../data/classes.numbers");
static BLOCKS: &[u8] = include_bytes!("../data/classes.blocks");
/// The classes of the characters of ASCII stand at the beginning of the first block.
static ASCII: Option<&[u8; 128]> = BLOCKS.first_chunk();

/// The class and the length of the first character. At the end of the text, both are zero.
#[inline]
pub(crate) fn first_class(text: &[u8]) -> (u8, usize) {
    match *text {
        [a @ ..=0x7f, ..] => (ascii_class(a), 1),
        [a @ ..=0xdf, b, ..] => (class(bits(a, 0x1f, 6) | bits(b, 0x3f, 0)), 2),
        [a @ ..=0xef, b, c, ..] => (class(bits(a, 0x0f, 12) | bits(b, 0x3f, 6) | bits(c, 0x3f, 0)), 3),
        [a, b, c, d, ..] => {
            (class(bits(a, 0x07, 18) | bits(b, 0x3f, 12) | bits(c, 0x3f, 6) | bits(d, 0x3f, 0)), 4)
        }
        _ => (0, 0),
    }
}

#[inline]
fn ascii_class(byte: u8) -> u8 {
    ASCII.and_then(|classes| classes.get(usize::from(byte))).copied().unwrap_or(OTHER)
}

#[inline]
fn bits(byte: u8, mask: u8, shift: u32) -> usize {
    usize::from(byte & mask) << shift
}

#[inline]
fn class(character: usize) -> u8 {
    let block = NUMBERS.get(character / BLOCK).map_or(0, |number| usize::from(*number));
    BLOCKS.get(block * BLOCK + character % BLOCK).copied().unwrap_or(OTHER)
}
