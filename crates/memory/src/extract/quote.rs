//! Whether the user really said something, and in which words.

use crate::tombstone::FORGOTTEN;
use crate::tombstone::spans::{is_apostrophe, stands_alone};

/// The words of `text` that the quote repeats. White space and the form of quotation marks may differ, nothing else.
pub(super) fn find<'t>(text: &'t str, quote: &str) -> Option<&'t str> {
    let (wanted, _) = in_one_form(quote);
    let wanted = wanted.trim();
    if !wanted.chars().any(char::is_alphanumeric) || wanted.contains(FORGOTTEN) {
        return None;
    }
    let (said, places) = in_one_form(text);
    let mut from = 0;
    while let Some(at) = said.get(from..).and_then(|rest| rest.find(wanted)) {
        let (start, end) = (from + at, from + at + wanted.len());
        if is_whole(&said, start, end) {
            let first = places.get(start)?.0;
            let last = places.get(end.checked_sub(1)?)?.1;
            return text.get(first..last);
        }
        from = start + said.get(start..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    None
}

/// The text in one form, and for each of its bytes where the character came from, begin and end.
fn in_one_form(text: &str) -> (String, Vec<(usize, usize)>) {
    let mut out = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let c_end = at + c.len_utf8();
        let c = match c {
            _ if c.is_whitespace() => ' ',
            _ if is_apostrophe(c) => '\'',
            '\u{201c}'..='\u{201f}' | '«' | '»' => '"',
            _ => c,
        };
        if c == ' ' && out.ends_with(' ') {
            continue;
        }
        out.push(c);
        places.resize(out.len(), (at, c_end));
    }
    (out, places)
}

/// True if no word is cut at either end.
fn is_whole(said: &str, start: usize, end: usize) -> bool {
    let joined = |before: Option<char>, after: Option<char>| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !stands_alone(c));
        letter(before) && letter(after)
    };
    let around = |at: usize| {
        let before = said.get(..at).and_then(|text| text.chars().next_back());
        let after = said.get(at..).and_then(|text| text.chars().next());
        (before, after)
    };
    let ((one, two), (three, four)) = (around(start), around(end));
    !joined(one, two) && !joined(three, four)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_is_found() {
        let text = "Hi!  I’m  from “Oslo”,\nand my cat is called Miso. 我住在东京。";
        for (quote, expected) in [
            ("I'm from \"Oslo\"", Some("I’m  from “Oslo”")),
            ("I’m from “Oslo”, and my cat", Some("I’m  from “Oslo”,\nand my cat")),
            (" Miso ", Some("Miso")),
            ("called Miso.", Some("called Miso.")),
            ("东京", Some("东京")),
            ("miso", None),
            ("Mis", None),
            ("y cat", None),
            ("my cat is Miso", None),
            ("I am from Oslo", None),
            ("", None),
            (" .", None),
            ("\"", None),
        ] {
            assert_eq!(find(text, quote), expected, "{quote:?}");
        }
    }

    #[test]
    fn a_word_that_stands_alone_later_is_found_there() {
        assert_eq!(find("concat a cat", "cat"), Some("cat"));
        assert_eq!(find("éa a", "a"), Some("a"));
    }

    #[test]
    fn the_mark_of_forgotten_words_is_nobodys() {
        assert_eq!(find("I live in [forgotten] now", "in [forgotten] now"), None);
        assert_eq!(find("I live in [forgotten] now", "I live in"), Some("I live in"));
    }
}
