//! Text that is written so that people can read it and lists of words cannot: letters apart, letters of other
//! alphabets, digits for letters, invisible signs, base64.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::phrases::lists;

// Characters with the Latin letter that each is written for.
lists! {
    static MASKS: LetterMasks = "data/masks.toml"; {
        digits: HashMap<char, char>,
        letters: HashMap<char, char>,
    }
}

/// Single letters in a row that are no abbreviation: a text with this number has its letters apart.
const APART: usize = 5;
/// The number of letters that make a word if they stand apart.
const APART_WORD: usize = 2;
/// Letters and digits of a word that may have digits for letters.
const MIN_DIGIT_WORD: usize = 4;
/// Signs of a word that may be base64.
const MIN_BASE64: usize = 16;

/// The text as its readers see it, if that is not how it is written.
pub(super) fn unmasked_text(text: &str) -> Option<String> {
    let seen: Cow<'_, str> = match text.contains(is_invisible) {
        true => Cow::Owned(text.chars().filter(|c| !is_invisible(*c)).collect()),
        false => Cow::Borrowed(text),
    };
    let joined = join_spaced_letters(&seen);
    let mut plain = String::with_capacity(joined.len());
    let mut decoded = String::new();
    for part in joined.split_inclusive(char::is_whitespace) {
        plain.push_str(&in_letters(part));
        if let Some(text) = from_base64(part.trim()) {
            decoded.push('\n');
            decoded.push_str(&text);
        }
    }
    plain.push_str(&decoded);
    (plain != text).then_some(plain)
}

/// Takes no room on a page.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Puts letters that stand apart together: "i g n o r e   a l l", "i-g-n-o-r-e".
fn join_spaced_letters(text: &str) -> Cow<'_, str> {
    let letters: Vec<char> = text.chars().collect();
    if !(0..letters.len()).any(|at| row(&letters, at) >= APART) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(letter) = letters.get(at) {
        let count = row(&letters, at);
        if count >= APART_WORD {
            out.extend(letters.iter().skip(at).step_by(2).take(count));
            at += 2 * count - 1;
        } else {
            out.push(*letter);
            at += 1;
        }
    }
    Cow::Owned(out)
}

/// How many single letters with the same sign between them begin here; none inside a word.
fn row(letters: &[char], at: usize) -> usize {
    let is_letter = |at: usize| letters.get(at).is_some_and(|c| c.is_alphanumeric());
    let inside = at.checked_sub(1).is_some_and(is_letter);
    let Some(between) = letters.get(at + 1).filter(|c| matches!(c, ' ' | '-' | '.' | '_' | '*' | '·'))
    else {
        return 0;
    };
    if inside || !is_letter(at) {
        return 0;
    }
    let mut count = 1;
    let mut last = at;
    while letters.get(last + 1) == Some(between) && is_letter(last + 2) && !is_letter(last + 3) {
        (count, last) = (count + 1, last + 2);
    }
    count
}

/// A word with letters of other alphabets, or digits, for Latin ones: "prоmpt" with a Cyrillic o, "pr0mpt".
fn in_letters(word: &str) -> Cow<'_, str> {
    let latin = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let other = word.chars().any(|c| of_latin(c).is_some());
    let coded = digits > 0 && latin >= 2 && latin + digits >= MIN_DIGIT_WORD && !word.contains(['/', '@']);
    if latin == 0 || !(other || coded) {
        return Cow::Borrowed(word);
    }
    let letter = |c: char| match MASKS.digits.get(&c) {
        Some(letter) if coded => *letter,
        Some(_) | None => of_latin(c).unwrap_or(c),
    };
    Cow::Owned(word.chars().map(letter).collect())
}

/// The Latin letter that a Cyrillic or Greek one looks like.
fn of_latin(c: char) -> Option<char> {
    if c.is_ascii() { None } else { MASKS.letters.get(&c).copied() }
}

/// The text of a word in base64, if that is text.
fn from_base64(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '=');
    if word.len() < MIN_BASE64 {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(word).ok()?).ok()?;
    (text.contains(' ') && !text.contains(char::is_control)).then_some(text)
}
