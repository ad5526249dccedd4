//! Texts as every database can hold them.

/// The text with U+FFFD in place of U+0000, as a column of PostgreSQL has it.
pub fn without_zeros(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
