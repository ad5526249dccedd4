//! A text as numbers that weights can be learned for.

use app::BUCKETS;

use crate::words;

/// A feature's number below [`BUCKETS`], and how much of it there is; the squares of all add up to one.
pub type Feature = (usize, f32);

/// Bytes of a text that are looked at. The topic of a text is told at its beginning.
pub(super) const MAX_TEXT_BYTES: usize = 2 * 1024;
/// Letters of a word that are looked at.
const MAX_WORD_CHARS: usize = 40;
/// How much a run of letters counts beside a whole word: there are many of them.
const RUN_WEIGHT: f32 = 0.5;
/// Lengths of runs of letters, borders of the word included.
const RUNS: std::ops::RangeInclusive<usize> = 3..=5;
/// Lengths of runs in scripts without blanks, whose words are short.
const DENSE_RUNS: std::ops::RangeInclusive<usize> = 1..=3;
/// Stands before the first word and after the last.
const EDGE: &str = "^";

/// Kinds of features, so that a word is not taken for a run of letters.
const WORD: u8 = b'w';
const PAIR: u8 = b'p';
const RUN: u8 = b'r';

/// The features of a text, in the order of their numbers.
pub fn features(text: &str) -> Vec<Feature> {
    let read = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
    let words: Vec<String> = words::tokens(read).map(word).collect();
    let mut found: Vec<Feature> = Vec::new();
    let mut before = EDGE;
    for word in &words {
        found.push((bucket(WORD, &[word]), 1.0));
        found.push((bucket(PAIR, &[before, word]), 1.0));
        add_runs(word, &mut found);
        before = word;
    }
    if !words.is_empty() {
        found.push((bucket(PAIR, &[before, EDGE]), 1.0));
    }
    normalised_features(found)
}

/// A word as it is compared: lower case, without accents, every number the same.
fn word(token: &str) -> String {
    let mut out = String::with_capacity(token.len());
    let mut in_number = false;
    for letter in words::folded(token).chars().take(MAX_WORD_CHARS) {
        let digit = letter.is_numeric();
        if !digit {
            out.push(letter);
        } else if !in_number {
            out.push('0');
        }
        in_number = digit;
    }
    out
}

fn add_runs(word: &str, found: &mut Vec<Feature>) {
    let dense = word.chars().next().is_some_and(words::has_no_blanks);
    let letters: Vec<char> =
        if dense { word.chars().collect() } else { format!("<{word}>").chars().collect() };
    let mut run = String::new();
    for length in if dense { DENSE_RUNS } else { RUNS } {
        for window in letters.windows(length) {
            run.clear();
            run.extend(window);
            found.push((bucket(RUN, &[&run]), RUN_WEIGHT));
        }
    }
}

/// Each feature once, however often it is there, and all of length one together.
fn normalised_features(mut found: Vec<Feature>) -> Vec<Feature> {
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    found.dedup_by_key(|feature| feature.0);
    let length = found.iter().map(|(_, value)| value * value).sum::<f32>().sqrt();
    found.into_iter().map(|(at, value)| (at, value / length)).collect()
}

fn bucket(kind: u8, parts: &[&str]) -> usize {
    feature_hash(kind, parts) % BUCKETS
}

/// FNV-1a, 32 bits, to be folded onto buckets.
pub(crate) fn feature_hash(kind: u8, parts: &[&str]) -> usize {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(PRIME);
    let mut hash = mix(BASIS, kind);
    for part in parts {
        hash = part.bytes().fold(hash, mix);
        hash = mix(hash, b' ');
    }
    (hash ^ (hash >> 15)) as usize
}
