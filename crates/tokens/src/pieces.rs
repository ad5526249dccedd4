//! Divides a text into the pieces in which tokens are looked for, as the regular expressions of the vocabularies do.
//!
//! Each function returns the length of the first piece of a text. The doc comments quote the parts of the expressions;
//! an expression takes the first of its parts that fits.

use crate::classes::first_class;
use crate::shared::{CASELESS, LINE_END, LOWER, MARK, NUMBER, OTHER, SPACE, UPPER};

const LETTER: u8 = UPPER | LOWER | CASELESS;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
const LARGE: u8 = UPPER | CASELESS | MARK;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
const SMALL: u8 = LOWER | CASELESS | MARK;
/// `[^\s\p{L}\p{N}]`
const SIGN: u8 = OTHER | MARK;
/// `[^\r\n\p{L}\p{N}]`
const LEAD: u8 = SIGN | SPACE;

/// The length of the first piece for `cl100k_base`.
#[inline]
pub(crate) fn cl100k(text: &[u8]) -> usize {
    // (?i:'s|'t|'re|'ve|'m|'ll|'d)
    let contraction = contraction_len(text);
    if contraction > 0 {
        return contraction;
    }
    // [^\r\n\p{L}\p{N}]?\p{L}+
    let (class, len) = first_class(text);
    let start = if class & LEAD == 0 { 0 } else { len };
    let end = run_end(text, start, LETTER);
    if end > start { end } else { number_sign_or_space(text, false) }
}

/// The length of the first piece for `o200k_base`.
#[inline]
pub(crate) fn o200k(text: &[u8]) -> usize {
    match word_end(text) {
        // (?i:'s|'t|'re|'ve|'m|'ll|'d)?
        Some(end) => end + text.get(end..).map_or(0, contraction_len),
        None => number_sign_or_space(text, true),
    }
}

/// The length of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d` in small or capital letters, or zero.
///
/// The long s, `ſ`, is a small form of S too. No other letter in these words has a third form.
#[inline]
fn contraction_len(text: &[u8]) -> usize {
    let [b'\'', letters @ ..] = text else { return 0 };
    match letters {
        [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 2,
        [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'l' | b'L', b'l' | b'L', ..] => 3,
        // The two bytes of the long s.
        [0xc5, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// The end of a word with the character that may lead it, by the first two parts of the expression:
/// `[^\r\n\p{L}\p{N}]?LARGE*SMALL+` and then `[^\r\n\p{L}\p{N}]?LARGE+SMALL*`.
#[inline]
fn word_end(text: &[u8]) -> Option<usize> {
    let (class, len) = first_class(text);
    let start = if class & LEAD == 0 { 0 } else { len };
    let (large_end, end) = letters_end(text, start);
    if end.is_some() {
        return end;
    }
    // A mark can both lead a word and be a part of it. The first part of the expression tries both ways.
    if class == MARK {
        return letters_end(text, 0).1;
    }
    (large_end > start).then_some(large_end)
}

/// The end of `LARGE*`, and the end of `LARGE*SMALL+` if that fits.
///
/// Where no lower-case letter follows, `LARGE*` gives back characters until `SMALL+` has one. So the word then ends with
/// the last character that is in both sets.
#[inline]
fn letters_end(text: &[u8], start: usize) -> (usize, Option<usize>) {
    let mut at = start;
    let mut end = None;
    while let Some(rest) = text.get(at..) {
        let (class, len) = first_class(rest);
        if class & LARGE == 0 {
            if class == LOWER {
                end = Some(run_end(text, at + len, SMALL));
            }
            break;
        }
        at += len;
        if class & SMALL != 0 {
            end = Some(at);
        }
    }
    (at, end)
}

/// The length of a piece that is no word. `slash` says whether slashes may follow signs and the line ends after them.
#[inline]
fn number_sign_or_space(text: &[u8], slash: bool) -> usize {
    // \p{N}{1,3}
    let (class, len) = first_class(text);
    if class == NUMBER {
        return number_end(text, len);
    }
    //  ?[^\s\p{L}\p{N}]+[\r\n]*
    let start = usize::from(text.first() == Some(&b' '));
    let end = run_end(text, start, SIGN);
    if end == start {
        return space_end(text);
    }
    let tail = text.get(end..).unwrap_or_default();
    let in_tail = |byte: &&u8| matches!(byte, b'\r' | b'\n') || (slash && **byte == b'/');
    end + tail.iter().take_while(in_tail).count()
}

/// The end of up to three numbers, the first of which ends at `at`.
#[inline]
fn number_end(text: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        let (class, len) = text.get(at..).map_or((0, 0), first_class);
        if class != NUMBER {
            break;
        }
        at += len;
    }
    at
}

/// The end of `\s*[\r\n]+|\s+(?!\S)|\s+`: white space up to its last line end. Without any, all of it but the last
/// character, which leads what follows, unless nothing follows or it is the only one.
#[inline]
fn space_end(text: &[u8]) -> usize {
    let mut line_end = 0;
    let mut last_start = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let (class, len) = first_class(rest);
        if class & (SPACE | LINE_END) == 0 {
            break;
        }
        last_start = at;
        at += len;
        if class == LINE_END {
            line_end = at;
        }
    }
    if line_end > 0 {
        line_end
    } else if at == text.len() || last_start == 0 {
        at
    } else {
        last_start
    }
}

/// The end of the characters from `at` on whose classes are in the set.
#[inline]
fn run_end(text: &[u8], mut at: usize, set: u8) -> usize {
    while let Some(rest) = text.get(at..) {
        let (class, len) = first_class(rest);
        if class & set == 0 {
            break;
        }
        at += len;
    }
    at
}
