//! A message as sentences, without what it quotes.

use std::iter::Peekable;
use std::str::CharIndices;

/// A sentence with the signs that end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sentence<'m> {
    pub(crate) text: &'m str,
    /// The place at which the sentence begins in the message.
    pub(crate) start: usize,
    /// Ends with a question mark.
    pub(crate) asks: bool,
    /// Begins with a word of the writer's own: not in quotes, not in code.
    pub(crate) opens_plainly: bool,
}

/// The message up to the first quoted line or block of code.
pub(crate) fn unquoted_part(text: &str) -> &str {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if matches!(line.trim_start().get(..1), Some(">")) || line.trim_start().starts_with("```") {
            return text.get(..start).unwrap_or_default().trim_end();
        }
        start += line.len();
    }
    // A block may also begin within a line.
    text.split("```").next().unwrap_or_default().trim_end()
}

pub(crate) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = match c {
            '\n' if !ends_with_colon(text, start, at) => Some(at),
            '.' | '!' | '?' | '…' | '。' | '？' | '！' => sentence_end(text, start, at, &mut chars),
            _ => None,
        };
        if let Some(end) = end {
            push(text, start, end, &mut found);
            start = end;
        }
    }
    push(text, start, text.len(), &mut found);
    found
}

/// "Remember:" and a list below it are one sentence's beginning.
fn ends_with_colon(text: &str, start: usize, at: usize) -> bool {
    text.get(start..at).is_some_and(|line| line.trim_end().ends_with(':'))
}

/// Returns the end of the sentence if the sign at `at` ends it, with further signs and closing quotes.
fn sentence_end(text: &str, start: usize, at: usize, chars: &mut Peekable<CharIndices<'_>>) -> Option<usize> {
    let closes =
        |c: char| matches!(c, '.' | '!' | '?' | '…' | '"' | '\'' | ')' | ']' | '\u{201d}' | '\u{2019}' | '»');
    while chars.next_if(|(_, c)| closes(*c)).is_some() {}
    let end = chars.peek().map_or(text.len(), |(end, _)| *end);
    let rest = text.get(end..).unwrap_or_default();
    let wide = text.get(at..).is_some_and(|sign| sign.starts_with(['。', '？', '！']));
    if !wide && !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let single = text.get(at..end) == Some(".");
    let goes_on = rest.trim_start().starts_with(char::is_lowercase);
    if single && (goes_on || is_abbreviation(text.get(start..at).unwrap_or_default())) {
        return None;
    }
    Some(end)
}

const ABBREVIATIONS: &[&str] = &[
    "dr", "mr", "mrs", "ms", "st", "prof", "e.g", "i.e", "vs", "no", "approx", "ca", "jr", "sr", "a.m", "p.m",
];

fn is_abbreviation(before: &str) -> bool {
    let last = before
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '"' | '\'' | '\u{2018}' | '\u{201c}'))
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let initial = last.chars().count() == 1 && last != "i" && last.chars().all(char::is_alphabetic);
    initial || ABBREVIATIONS.contains(&last.as_str())
}

fn push<'m>(text: &'m str, start: usize, end: usize, found: &mut Vec<Sentence<'m>>) {
    let piece = text.get(start..end).unwrap_or_default();
    let trimmed = piece.trim();
    if trimmed.is_empty() {
        return;
    }
    let start = start + (piece.len() - piece.trim_start().len());
    let closing = |c: char| matches!(c, '"' | '\'' | ')' | '\u{201d}' | '\u{2019}' | '!' | '.');
    let asks = trimmed.trim_end_matches(closing).ends_with(['?', '？']);
    let quoted = trimmed.starts_with(['"', '\'', '`', '\u{201c}', '\u{2018}', '«', '„', '#', '<', '|']);
    let opens_plainly = !quoted && !in_quotes(text.get(..start).unwrap_or_default());
    found.push(Sentence { text: trimmed, start, asks, opens_plainly });
}

/// True if a quotation was begun and has not ended.
fn in_quotes(before: &str) -> bool {
    let count = |sign: char| before.matches(sign).count();
    count('"') % 2 == 1
        || count('`') % 2 == 1
        || count('\u{201c}') > count('\u{201d}')
        || count('«') > count('»')
}
