//! Counts the tokens that OpenAI's models make of a text.
//!
//! The vocabularies stand in the program compressed. The first count of each makes a table of it, in some milliseconds.
//! Otherwise, only a piece of text that is unusually long needs memory of its own.

mod classes;
mod merge;
mod pieces;
mod shared;
mod table;
#[cfg(test)]
mod tests;

use table::TokenTable;

/// A vocabulary of tokens, with the rules by which a text is divided into pieces before tokens are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// `o200k_base`, the vocabulary of GPT-4o and later models.
    O200k,
    /// `cl100k_base`, the vocabulary of GPT-4 and GPT-3.5.
    Cl100k,
}

impl Vocabulary {
    /// The number of tokens of a text. Names of special tokens, such as `<|endoftext|>`, count as ordinary text.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        match self {
            Vocabulary::O200k => count_pieces(&table::O200K, text, pieces::o200k),
            Vocabulary::Cl100k => count_pieces(&table::CL100K, text, pieces::cl100k),
        }
    }
}

/// The number of tokens of a text. `piece_len` is the length of the piece at the start of what is left of the text.
#[inline]
fn count_pieces(table: &TokenTable, text: &str, piece_len: impl Fn(&[u8]) -> usize) -> usize {
    let mut count = 0;
    let mut rest = text.as_bytes();
    while let Some((piece, tail)) = rest.split_at_checked(piece_len(rest).max(1)) {
        count += if table.contains(piece) { 1 } else { merge::count_parts(table, piece) };
        rest = tail;
    }
    count
}
