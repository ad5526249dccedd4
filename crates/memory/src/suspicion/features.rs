//! A text as sentences of words with their ideas, and a few sentences as numbers that weights can be learned for.

use std::cmp::Reverse;

use super::ideas::{Idea, Ideas, MAX_IDEAS};
use crate::classify::{Feature, feature_hash};
use crate::words;

/// The number of buckets that features fall into: more than a text about one of an app's matters needs, because a
/// harmless text must not share numbers with an order by chance.
pub(super) const BUCKETS: usize = 1 << 16;
/// Words of a sentence. A longer one is cut into several, each of which begins with the end of the one before.
const MAX_SENTENCE: usize = 40;
/// Words that two parts of a long sentence share.
const SHARED: usize = 10;
/// Characters of a word in a script without blanks, which is cut there.
const MAX_RUN: usize = 60;
/// How far apart, in words, two ideas may be that are one thought.
const NEAR: usize = 10;
/// Threes of ideas that are looked at in a few sentences.
const MAX_THREES: usize = 512;
/// The number of features of a text counts from here, so that a text of two words is not judged by them alone.
const FEW: f32 = 8.0;

/// Kinds of features.
const WORD: u8 = b'w';
const PAIR: u8 = b'p';
const RUN: u8 = b'r';
const IDEA: u8 = b'i';
const TWO_IDEAS: u8 = b'j';
const THREE_IDEAS: u8 = b'k';

/// Lengths of runs of characters in scripts without blanks.
const RUNS: std::ops::RangeInclusive<usize> = 2..=3;
/// Stands before the first word.
const EDGE: &str = "^";
/// Stands for every address of a page, and of a mailbox.
const LINK: &str = "@link";
const MAILBOX: &str = "@mail";

/// A word of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JudgedWord {
    text: String,
    /// Whether it is a run of characters of a script without blanks.
    dense: bool,
    /// Its ideas, each with how many words into it they are.
    ideas: Vec<(usize, Idea)>,
    /// How many words it counts as.
    length: usize,
}

/// The sentences of a text, none of them longer than can be judged at once.
pub(super) fn sentences(text: &str, ideas: &Ideas) -> Vec<Vec<JudgedWord>> {
    let mut out = Vec::new();
    for sentence in split_sentences(text) {
        let words = read(&words::folded(sentence), ideas);
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let part = count_fitting(rest.iter(), MAX_SENTENCE).max(1);
            // The next part begins with the end of this one, but never with all of it.
            let end = rest.iter().take(part).skip(1).rev();
            let shared = if part == rest.len() { 0 } else { count_fitting(end, SHARED) };
            out.push(rest.get(..part).unwrap_or_default().to_vec());
            rest = rest.get(part - shared..).unwrap_or_default();
        }
    }
    out
}

/// How many of the words are as long as this together.
fn count_fitting<'w>(words: impl Iterator<Item = &'w JudgedWord>, limit: usize) -> usize {
    let mut length = 0;
    let fits = |word: &&JudgedWord| {
        length += word.length;
        length <= limit
    };
    words.take_while(fits).count()
}

/// A text at the ends of its sentences and lines. A point inside an address or a number ends nothing.
fn split_sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut letters = rest.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            let ends = match letter {
                '\n' | '\r' | '。' | '！' | '？' | '；' => true,
                '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
                _ => false,
            };
            if let (true, Some((sentence, after))) = (ends, rest.split_at_checked(at + letter.len_utf8())) {
                rest = after;
                return Some(sentence);
            }
        }
        Some(std::mem::take(&mut rest))
    })
}

/// The words of a folded sentence.
fn read(sentence: &str, ideas: &Ideas) -> Vec<JudgedWord> {
    let mut texts: Vec<String> = Vec::new();
    for part in sentence.split_whitespace().flat_map(by_script) {
        if part.chars().next().is_some_and(words::has_no_blanks) {
            let letters: Vec<char> = part.chars().collect();
            texts.extend(letters.chunks(MAX_RUN).map(|run| run.iter().collect::<String>()));
        } else if let Some((before, _)) = part.split_once("https://").or_else(|| part.split_once("http://")) {
            texts.extend(plain_words(before));
            texts.push(LINK.to_owned());
        } else if is_mailbox(part) {
            texts.push(MAILBOX.to_owned());
        } else {
            texts.extend(plain_words(part));
        }
    }
    (0..texts.len()).map(|at| word(texts.get(at..).unwrap_or_default(), ideas)).collect()
}

/// A part of a text without blanks, at the borders of scripts that have none between words.
fn by_script(part: &str) -> impl Iterator<Item = &str> {
    let mut rest = part;
    std::iter::from_fn(move || {
        let dense = words::has_no_blanks(rest.chars().next()?);
        let end = rest.find(|c: char| words::has_no_blanks(c) != dense).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(run)
    })
}

fn is_mailbox(part: &str) -> bool {
    part.split_once('@').is_some_and(|(name, host)| {
        name.ends_with(char::is_alphanumeric) && host.starts_with(char::is_alphanumeric) && host.contains('.')
    })
}

/// Words that French puts before a vowel.
const ELIDED: &[&str] = &["l", "d", "n", "s", "t", "j", "m", "c", "qu"];

/// Words with the hyphens and apostrophes inside them, every digit the same.
fn plain_words(part: &str) -> impl Iterator<Item = String> {
    part.split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '-'))
        .map(|word| word.trim_matches(['\'', '-']))
        .flat_map(|word| match word.split_once('\'') {
            Some((before, word)) if ELIDED.contains(&before) && word.len() > 1 => [before, word],
            Some(_) | None => ["", word],
        })
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().map(|c| if c.is_numeric() { '0' } else { c }).collect())
}

/// The first of these words, with its ideas.
fn word(texts: &[String], ideas: &Ideas) -> JudgedWord {
    let text = texts.first().cloned().unwrap_or_default();
    let dense = text.chars().next().is_some_and(words::has_no_blanks);
    if dense {
        // Two characters are about a word.
        let found = ideas.of_run(&text).into_iter().map(|(at, idea)| (at / 2, idea)).collect();
        return JudgedWord { dense, ideas: found, length: text.chars().count().div_ceil(2), text };
    }
    let found = ideas.of_word(texts).into_iter().map(|idea| (0, idea)).collect();
    JudgedWord { text, dense, ideas: found, length: 1 }
}

/// The features of some sentences, in the order of their numbers.
pub(super) fn features<'a>(said: impl Iterator<Item = &'a JudgedWord>, ideas: &Ideas) -> Vec<Feature> {
    let mut found: Vec<usize> = Vec::new();
    let mut places: Vec<(usize, Idea)> = Vec::new();
    let (mut place, mut before) = (0, EDGE);
    for word in said {
        places.extend(word.ideas.iter().map(|(at, idea)| (place + at, *idea)));
        place += word.length;
        if word.dense {
            add_runs(&word.text, &mut found);
            before = EDGE;
        } else {
            found.push(bucket(WORD, &[&word.text]));
            found.push(bucket(PAIR, &[before, &word.text]));
            before = &word.text;
        }
    }
    add_ideas(&mut places, ideas, &mut found);
    found.sort_unstable();
    found.dedup();
    let value = 1.0 / (found.len() as f32 + FEW).sqrt();
    found.into_iter().map(|number| (number, value)).collect()
}

fn add_runs(run: &str, found: &mut Vec<usize>) {
    let letters: Vec<char> = run.chars().collect();
    let mut text = String::new();
    for length in RUNS {
        for window in letters.windows(length) {
            text.clear();
            text.extend(window);
            found.push(bucket(RUN, &[&text]));
        }
    }
}

/// Ideas, two that follow each other, and three of which each follows another.
fn add_ideas(places: &mut [(usize, Idea)], ideas: &Ideas, found: &mut Vec<usize>) {
    places.sort_unstable();
    // For each idea those that follow it, a bit each.
    let mut after = [0u64; MAX_IDEAS];
    for (at, (place, idea)) in places.iter().enumerate() {
        found.push(bucket(IDEA, &[ideas.name(*idea)]));
        let near = places.iter().skip(at + 1).take_while(|(later, _)| later - place <= NEAR);
        if let Some(bits) = after.get_mut(*idea) {
            *bits |= near.fold(0, |bits, (_, later)| bits | bit(*later)) & !bit(*idea);
        }
    }
    let follow = |idea: Idea| ideas_of(after.get(idea).copied().unwrap_or_default());
    let mut threes = 0;
    for first in 0..MAX_IDEAS {
        for second in follow(first) {
            found.push(bucket(TWO_IDEAS, &[ideas.name(first), ideas.name(second)]));
            for third in follow(second).filter(|third| *third != first) {
                threes += 1;
                if threes > MAX_THREES {
                    break;
                }
                let mut three = [first, second, third];
                three.sort_unstable_by_key(|idea| Reverse(*idea));
                found.push(bucket(THREE_IDEAS, &three.map(|idea| ideas.name(idea))));
            }
        }
    }
}

fn bucket(kind: u8, parts: &[&str]) -> usize {
    feature_hash(kind, parts) % BUCKETS
}

/// The ideas whose bits are set, the smallest first.
fn ideas_of(mut bits: u64) -> impl Iterator<Item = Idea> {
    std::iter::from_fn(move || {
        let smallest = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(smallest as Idea)
    })
}

fn bit(idea: Idea) -> u64 {
    1 << (idea % MAX_IDEAS)
}
