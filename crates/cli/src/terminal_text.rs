//! Other people's texts on the terminal: short, and unable to command it.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// Characters of a tool's arguments or of its failure that are shown.
pub(crate) const MAX_SHOWN_CHARS: usize = 200;

/// Without the control characters by which a text could command the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(commands) { Cow::Owned(text.replace(commands, "")) } else { Cow::Borrowed(text) }
}

pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    shorten_to(text, MAX_SHOWN_CHARS)
}

/// The text, or its first characters.
pub(crate) fn shorten_to(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// A number of things, such as "1 tool" or "2 tools".
pub(crate) fn count_of(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// The first lines, and a last one that says how many more there are.
pub(crate) fn first_lines(mut lines: Vec<String>, most: usize) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// The word for a variant of an enum that JSON has.
pub(crate) fn json_word(value: &impl Serialize) -> impl fmt::Display {
    fmt::from_fn(move |f| value.serialize(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_command_the_terminal() {
        assert_eq!(printable("a\tb\nc"), "a\tb\nc");
        assert_eq!(printable("\u{1b}[2Jx\u{7}\u{9b}31m\r"), "[2Jx31m");
    }

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(shorten(&"é".repeat(MAX_SHOWN_CHARS)), "é".repeat(MAX_SHOWN_CHARS));
        assert_eq!(shorten(&"é".repeat(MAX_SHOWN_CHARS + 1)), format!("{}…", "é".repeat(MAX_SHOWN_CHARS)));
    }
}
