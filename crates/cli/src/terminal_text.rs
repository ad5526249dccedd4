//! Other people's texts on the terminal: short, and unable to command it.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// Characters of a tool's arguments or of its failure that are shown.
pub(crate) const MAX_SHOWN_CHARS: usize = 200;

/// Without the characters by which a text could command the terminal, or look like another text: control characters, and
/// those that change the direction of what follows.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let commands = |c: char| turns(c) || c.is_control() && !matches!(c, '\n' | '\t');
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

/// A table, whose columns are as wide as their widest cells.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or_default()
    };
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let line = |row: &Vec<String>| {
        let pad = |cell: &String, width: &usize| " ".repeat(width.saturating_sub(cell.width()));
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell}{}", pad(cell, width)));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
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
        assert_eq!(printable("pay \u{202e}001\u{202c} \u{2067}a\u{2069}"), "pay 001 a", "as it is stored");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cells() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "日本", "one"]), row(["bcd", "x", ""]), row(["e", "", "three"])];
        assert_eq!(columns(&rows), "a    日本  one\nbcd  x\ne          three\n");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(shorten(&"é".repeat(MAX_SHOWN_CHARS)), "é".repeat(MAX_SHOWN_CHARS));
        assert_eq!(shorten(&"é".repeat(MAX_SHOWN_CHARS + 1)), format!("{}…", "é".repeat(MAX_SHOWN_CHARS)));
    }
}
