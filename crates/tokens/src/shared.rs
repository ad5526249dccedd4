//! The classes of characters, which both the crate and `examples/write_data.rs` know.

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
