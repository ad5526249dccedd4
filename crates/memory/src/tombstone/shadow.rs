//! The rest of words that were purged: enough to hide them where they are still said, too little to read them.
//!
//! A shadow holds how many words there were, 32 bits made of all of them in order, and 14 bits of each telling word,
//! which many other words have as well. All are made with a key of the server. A person who has the data folder can
//! test a guess of the whole sentence, and read nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::reworded_facts::ForgottenFacts;
use super::spans::spans;
use super::{comparison_form, is_mark};
use crate::words;

/// Bits that are kept of a telling word.
const TERM_BITS: u32 = 14;
/// A prime below two to the sixty-first: numbers made of words in order are taken modulo it.
const PRIME: u128 = (1 << 61) - 1;
/// Marks that tell terms from words, and the base from both.
const OF_WORD: u8 = 0;
const OF_TERM: u8 = 1;
const OF_BASE: u8 = 2;

/// The key that shadows are made with. Only the server knows it.
pub type ShadowKey = [u8; 32];

/// The rest of one sequence of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    words: u16,
    sequence: u32,
    terms: BTreeSet<u16>,
}

impl Shadow {
    /// None of a text without words.
    pub fn of(text: &str, key: &ShadowKey) -> Option<Self> {
        let words: Vec<u64> = spans(text).iter().map(|span| word(key, &comparison_form(span))).collect();
        let count = u16::try_from(words.len()).ok().filter(|count| *count > 0)?;
        let base = base(key);
        let whole = words.iter().fold(0, |whole, word| next(whole, *word, base));
        let terms = words::terms(text).iter().map(|text| term(key, text)).collect();
        Some(Self { words: count, sequence: short_hash(whole), terms })
    }

    /// As it is stored: the count of words, the bits of their order, and those of each term, big end first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.words.to_be_bytes().to_vec();
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.terms.iter().flat_map(|term| term.to_be_bytes()));
        bytes
    }

    /// None of bytes that are no shadow.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.split_first_chunk::<2>()?;
        let (sequence, rest) = rest.split_first_chunk::<4>()?;
        let (terms, []) = rest.as_chunks::<2>() else { return None };
        Some(Self {
            words: u16::from_be_bytes(*words),
            sequence: u32::from_be_bytes(*sequence),
            terms: terms.iter().map(|term| u16::from_be_bytes(*term)).collect(),
        })
    }
}

/// Many shadows, prepared once.
#[derive(Debug)]
pub(super) struct Shadows {
    key: ShadowKey,
    base: u128,
    /// When each sequence was purged, by its number of words and its bits.
    sequences: BTreeMap<u16, HashMap<u32, Timestamp>>,
    facts: ForgottenFacts<u16>,
}

impl Shadows {
    pub(super) fn new(shadows: &[(Shadow, Timestamp)], key: &ShadowKey) -> Self {
        let mut this =
            Self { key: *key, base: base(key), sequences: BTreeMap::new(), facts: ForgottenFacts::default() };
        for (shadow, at) in shadows {
            let of_length = this.sequences.entry(shadow.words).or_default();
            let newest = of_length.entry(shadow.sequence).or_insert(*at);
            *newest = (*newest).max(*at);
            this.facts.add(shadow.terms.clone(), shadow.terms.first().copied(), *at);
        }
        this
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Byte ranges of the text that were purged.
    pub(super) fn hidden_ranges(&self, text: &str, said_at: Timestamp) -> Vec<Range<usize>> {
        let spans: Vec<_> = spans(text).into_iter().filter(|span| !is_mark(text, span)).collect();
        let words: Vec<u64> = spans.iter().map(|span| word(&self.key, &comparison_form(span))).collect();
        let mut hidden = Vec::new();
        for (count, of_length) in &self.sequences {
            let count = usize::from(*count);
            let power = (1..count).fold(1, |power, _| power * self.base % PRIME);
            let mut whole = 0;
            for (last, newest) in words.iter().enumerate() {
                if let Some(gone) = last.checked_sub(count).and_then(|gone| words.get(gone)) {
                    whole = (whole + PRIME - u128::from(*gone) % PRIME * power % PRIME) % PRIME;
                }
                whole = next(whole, *newest, self.base);
                let Some(first) = (last + 1).checked_sub(count) else { continue };
                if of_length.get(&short_hash(whole)).is_some_and(|at| said_at <= *at)
                    && let (Some(begin), Some(end)) = (spans.get(first), spans.get(last))
                {
                    hidden.push(begin.start..end.end);
                }
            }
        }
        hidden
    }

    /// The text without sentences that say a purged fact in other words.
    pub(super) fn hide_retold<'a>(&self, text: Cow<'a, str>, said_at: Timestamp) -> Cow<'a, str> {
        let terms =
            |sentence: &str| words::terms(sentence).iter().map(|text| term(&self.key, text)).collect();
        self.facts.hide(text, said_at, terms)
    }
}

fn next(whole: u128, word: u64, base: u128) -> u128 {
    (whole * base % PRIME + u128::from(word) % PRIME) % PRIME
}

fn base(key: &ShadowKey) -> u128 {
    u128::from(number(key, OF_BASE, "")) % (PRIME - 2) + 2
}

fn word(key: &ShadowKey, word: &str) -> u64 {
    number(key, OF_WORD, word)
}

fn term(key: &ShadowKey, term: &str) -> u16 {
    (number(key, OF_TERM, term) & ((1 << TERM_BITS) - 1)) as u16
}

/// The bits that are kept of all words in order.
fn short_hash(whole: u128) -> u32 {
    (whole & u128::from(u32::MAX)) as u32
}

fn number(key: &ShadowKey, of: u8, text: &str) -> u64 {
    let digest = Sha256::new().chain_update(key).chain_update([of]).chain_update(text).finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
