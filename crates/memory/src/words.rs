//! Text as the words it is searched by: lower case, without the commonest words, endings removed.
//!
//! Every word is found by its English stem, and in a text that is in another language by its stem there, too: so a user
//! who mixes languages still finds words as they stand. Scripts that put no blanks between words, such as Chinese, are
//! found by pairs of neighbouring characters.

mod follow_ups;
mod language;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

pub use self::follow_ups::mentions_follow_up;
use self::language::Written;
use crate::phrases::{PhraseList, lists};

/// Terms of one text; what follows them is not searched.
pub const MAX_TERMS: usize = 4096;
/// Characters of a term. Longer ones are no words, and are told apart by their beginnings.
const MAX_TERM_CHARS: usize = 40;
/// Letters after an apostrophe that are an English ending, as in "you're". More of them are a word, as in "l'amour".
const MAX_ENDING_CHARS: usize = 2;
/// Shorter words have no endings to remove.
const MIN_STEMMED_BYTES: usize = 3;

lists! {
    static LISTS: CommonWords = "words/lists.toml"; {
        stop_words: PhraseList,
        small_talk: PhraseList,
        weekdays: Vec<String>,
        months: Vec<String>,
    }
}

/// The terms of a text in their order, repeated ones too; after them the stems of a text that is not in English.
pub fn terms(text: &str) -> Vec<String> {
    terms_of(text, &language::of(text))
}

/// The terms that tell something about a text by themselves: names, numbers, and all of a text that is not in English.
/// The meaning of other English words says better what they have in common.
pub fn telling_terms(text: &str) -> Vec<String> {
    let written = language::of(text);
    if written.is_sure {
        return terms_of(text, &written);
    }
    let mut terms = Vec::new();
    let mut rest = text;
    while let Some((gap, token, after)) = next_token(rest) {
        let begins = rest.len() == text.len() || gap.contains(ENDS_SENTENCE);
        rest = after;
        if terms.len() < MAX_TERMS && is_telling(token, begins) {
            add_terms(token, &written, &mut terms);
        }
    }
    terms.truncate(MAX_TERMS);
    terms
}

fn terms_of(text: &str, written: &Written) -> Vec<String> {
    let mut terms = Vec::new();
    for token in tokens(text) {
        if terms.len() >= MAX_TERMS {
            break;
        }
        add_terms(token, written, &mut terms);
    }
    add_stems(text, written, &mut terms);
    terms.truncate(MAX_TERMS);
    terms
}

fn add_terms(token: &str, written: &Written, terms: &mut Vec<String>) {
    let word = folded(token);
    if is_stop_word(&word) {
        return;
    }
    let mut parts = word.split('\'').filter(|part| !part.is_empty());
    let first = parts.next();
    let longer = parts.filter(|part| part.chars().count() > MAX_ENDING_CHARS);
    for part in first.into_iter().chain(longer) {
        match part.chars().next() {
            Some(letter) if has_no_blanks(letter) => add_pairs(part, terms),
            Some(_) if !is_stop_word(part) && !written.is_common(part) => {
                terms.push(stemmed(part));
            }
            Some(_) | None => {}
        }
    }
}

fn stemmed(word: &str) -> String {
    let is_english = word.len() >= MIN_STEMMED_BYTES && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if is_english {
        Stemmer::create(Algorithm::English).stem(word).chars().take(MAX_TERM_CHARS).collect()
    } else {
        word.chars().take(MAX_TERM_CHARS).collect()
    }
}

/// Adds the stems that words have in the text's own language, where they are other than what is there.
fn add_stems(text: &str, written: &Written, terms: &mut Vec<String>) {
    if written.languages.is_empty() {
        return;
    }
    let mut known: HashSet<String> = terms.iter().cloned().collect();
    for token in tokens(text) {
        let whole: String = token.nfc().flat_map(char::to_lowercase).collect();
        let words = whole.split(is_apostrophe).filter(|word| has_stem(word));
        for word in words.filter(|word| !is_stop_word(word) && !written.is_common(&folded(word))) {
            for language in &written.languages {
                let stem = folded(&Stemmer::create(language.stemmer).stem(word));
                if terms.len() < MAX_TERMS && !stem.is_empty() && known.insert(stem.clone()) {
                    terms.push(stem);
                }
            }
        }
    }
}

/// Whether it is a word whose ending can be removed.
fn has_stem(word: &str) -> bool {
    let letters = word.chars().count();
    (MIN_STEMMED_BYTES..=MAX_TERM_CHARS).contains(&letters)
        && word.chars().all(|letter| letter.is_alphabetic() && !has_no_blanks(letter))
}

/// Signs after which any word begins with a capital letter.
const ENDS_SENTENCE: [char; 12] = ['.', '!', '?', ':', ';', '\n', '"', '“', '«', '„', '(', '•'];

/// Whether a token is a name or a number, or of a script whose meaning few embedding models know.
fn is_telling(token: &str, begins_sentence: bool) -> bool {
    let first = token.chars().next();
    let is_number = token.len() > 1 && token.chars().any(char::is_numeric);
    let is_name = !begins_sentence && first.is_some_and(char::is_uppercase);
    is_number || first.is_some_and(has_no_blanks) || (is_name && !is_calendar_word(&name(token)))
}

/// Whether a message says more than that it was heard: "ok", "yes please" and signs without words do not.
pub fn says_something(text: &str) -> bool {
    let is_small = |word: &str| LISTS.small_talk.contains(word) || is_stop_word(word);
    tokens(text).any(|token| !is_small(&folded(token)))
}

/// The words of a text as they are written, with the apostrophes inside them. A run of characters without blanks between
/// words is one token.
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, token, after) = next_token(rest)?;
        rest = after;
        Some(token)
    })
}

/// The text before the first token, the token, and the text after it.
fn next_token(text: &str) -> Option<(&str, &str, &str)> {
    let (gap, rest) = text.split_at_checked(text.find(char::is_alphanumeric)?)?;
    let (token, after) = rest.split_at_checked(token_bytes(rest))?;
    Some((gap, token, after))
}

/// How many bytes the token has that the text begins with.
fn token_bytes(text: &str) -> usize {
    let first_runs_on = text.chars().next().is_some_and(has_no_blanks);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let joins = is_apostrophe(letter) && at > 0 && next.is_some_and(char::is_alphabetic);
        let belongs = letter.is_alphanumeric() || is_mark(letter) || joins;
        if !belongs || (letter.is_alphanumeric() && has_no_blanks(letter) != first_runs_on) {
            return at;
        }
    }
    text.len()
}

/// Signs on letters that are characters of their own.
fn is_mark(letter: char) -> bool {
    !letter.is_ascii() && is_combining_mark(letter)
}

fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '’' | 'ʼ' | '`')
}

/// Lower case, one kind of apostrophe, full-width letters as usual ones, and Latin letters without accents, because many
/// write without them.
pub fn folded(token: &str) -> String {
    if token.is_ascii() {
        return token.to_ascii_lowercase().replace('`', "'");
    }
    let mut out = String::with_capacity(token.len());
    for letter in token.nfkc().flat_map(char::to_lowercase) {
        match letter {
            letter if is_apostrophe(letter) => out.push('\''),
            '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => {
                decompose_canonical(letter, |part| out.extend((!is_combining_mark(part)).then_some(part)));
            }
            '\u{300}'..='\u{36f}' => {}
            _ => out.push(letter),
        }
    }
    out
}

/// Whether the letter's script is written without blanks between words, or, as Korean, with endings that hide them.
pub(crate) fn has_no_blanks(letter: char) -> bool {
    matches!(letter,
        '\u{e00}'..='\u{eff}' // Thai, Lao
        | '\u{1000}'..='\u{109f}' // Burmese
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{3005}'..='\u{30ff}' // Japanese
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
        | '\u{ac00}'..='\u{d7af}' // Korean
    )
}

fn add_pairs(run: &str, terms: &mut Vec<String>) {
    let mut letters = run.chars().peekable();
    let mut alone = true;
    while let Some(letter) = letters.next() {
        if terms.len() >= MAX_TERMS {
            return;
        }
        if let Some(next) = letters.peek() {
            terms.push(String::from_iter([letter, *next]));
            alone = false;
        } else if alone {
            terms.push(letter.to_string());
        }
    }
}

/// Whether this text asks a question.
pub fn asks(text: &str) -> bool {
    text.contains(['?', '？', '؟'])
}

/// Whether the one who writes speaks of themselves.
pub fn is_about_the_writer(text: &str) -> bool {
    tokens(text).any(|token| matches!(name(token).as_str(), "i" | "me" | "my" | "mine" | "myself"))
}

/// The text with names replaced as their owners would speak of themselves: "When did Ann see Ben's dog?" becomes "When
/// did I see my dog?". A person's own words are nearer in meaning to that than to a question with names, because
/// people seldom say their own names, and often the other's.
pub fn in_first_person(text: &str, is_name: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((gap, token, after)) = next_token(rest) {
        out.push_str(gap);
        rest = after;
        let name = token.split(is_apostrophe).next().unwrap_or(token);
        if !is_name(token) {
            out.push_str(token);
        } else if name.len() < token.len() {
            out.push_str("my");
        } else if let Some(after) = after.strip_prefix(is_apostrophe) {
            out.push_str("my");
            rest = after;
        } else {
            out.push('I');
        }
    }
    out.push_str(rest);
    out
}

/// A name as it is compared: "Ann's" and "ann" are the same.
pub fn name(token: &str) -> String {
    let mut folded = folded(token);
    folded.truncate(folded.find('\'').unwrap_or(folded.len()));
    folded
}

/// Whether an English word in lower case is too common to find anything by.
pub(crate) fn is_stop_word(word: &str) -> bool {
    LISTS.stop_words.contains(word)
}

/// English names of the days of the week, from Monday on.
pub(crate) fn weekdays() -> &'static [String] {
    &LISTS.weekdays
}

/// English names of the months, in their order.
pub(crate) fn months() -> &'static [String] {
    &LISTS.months
}

/// Whether an English word is written large without being a name.
fn is_calendar_word(word: &str) -> bool {
    weekdays().iter().chain(months()).any(|calendar| calendar == word)
}
