//! Sentences that say a forgotten fact in other words, such as an answer that repeated it: they have all of its telling
//! words, in any order and form.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use jiff::Timestamp;
use store::TombstoneRow;

use super::FORGOTTEN;
use crate::words;

/// A single word is in too many sentences that mean something else.
const MIN_TERMS: usize = 2;
const ENDS: [char; 4] = ['.', '!', '?', '\n'];

/// Facts by their telling words, each with the moment when it was forgotten.
#[derive(Debug)]
pub(super) struct ForgottenFacts<T> {
    facts: Vec<(BTreeSet<T>, Timestamp)>,
    /// Facts by one of their terms.
    by_term: HashMap<T, Vec<usize>>,
}

impl<T> Default for ForgottenFacts<T> {
    fn default() -> Self {
        Self { facts: Vec::new(), by_term: HashMap::new() }
    }
}

impl<T: Ord + Hash> ForgottenFacts<T> {
    /// Adds a fact that is looked up by one of its terms; a fact of too few terms is left out.
    pub(super) fn add(&mut self, terms: BTreeSet<T>, by: Option<T>, at: Timestamp) {
        if let Some(by) = by.filter(|_| terms.len() >= MIN_TERMS) {
            self.by_term.entry(by).or_default().push(self.facts.len());
            self.facts.push((terms, at));
        }
    }

    /// The text with [`FORGOTTEN`] in the place of each sentence that has all terms of a fact.
    pub(super) fn hide<'a>(
        &self,
        text: Cow<'a, str>,
        said_at: Timestamp,
        terms_of: impl Fn(&str) -> BTreeSet<T>,
    ) -> Cow<'a, str> {
        if self.facts.is_empty() {
            return text;
        }
        hide_sentences(text, |sentence| {
            let terms = terms_of(sentence);
            let known = terms.iter().filter_map(|term| self.by_term.get(term)).flatten();
            let mut facts = known.filter_map(|fact| self.facts.get(*fact));
            facts.any(|(fact, at)| said_at <= *at && fact.is_subset(&terms))
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Retold(ForgottenFacts<String>);

impl Retold {
    pub(super) fn new(tombstones: &[TombstoneRow]) -> Self {
        let mut this = Self::default();
        for tombstone in tombstones {
            let terms: BTreeSet<String> = words::terms(&tombstone.words).into_iter().collect();
            let longest = terms.iter().max_by_key(|term| term.len()).cloned();
            this.0.add(terms, longest, tombstone.at);
        }
        this
    }

    /// The text with [`FORGOTTEN`] in the place of each such sentence.
    pub(super) fn hide<'a>(&self, text: Cow<'a, str>, said_at: Timestamp) -> Cow<'a, str> {
        self.0.hide(text, said_at, |sentence| words::terms(sentence).into_iter().collect())
    }
}

/// The text with [`FORGOTTEN`] in the place of each sentence that is to be hidden.
fn hide_sentences(text: Cow<'_, str>, is_hidden: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let sentences: Vec<&str> = text.split_inclusive(ENDS).collect();
    let hidden: Vec<bool> = sentences.iter().map(|sentence| is_hidden(sentence)).collect();
    if !hidden.contains(&true) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for (sentence, is_hidden) in sentences.into_iter().zip(hidden) {
        if is_hidden {
            let body = sentence.trim_matches(|c: char| c.is_whitespace() || ENDS.contains(&c));
            out.push_str(&sentence.replacen(body, FORGOTTEN, 1));
        } else {
            out.push_str(sentence);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use protocol::MemoryId;
    use uuid::Uuid;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn retold() -> Retold {
        let tombstone = |words: &str| TombstoneRow {
            words: words.to_owned(),
            at: at(10),
            memory: MemoryId::new(Uuid::nil()),
        };
        Retold::new(&[tombstone("my cat is called Miso"), tombstone("I am vegan")])
    }

    #[test]
    fn a_sentence_with_all_telling_words_is_hidden_whole() {
        for (text, expected) in [
            ("Of course! Your cat is called Miso. Anything else?", "Of course! [forgotten]. Anything else?"),
            ("Miso, the calling cat", "[forgotten]"),
            ("What is my cat called?", "What is my cat called?"),
            ("Miso soup is fine.\nCats are called cats.", "Miso soup is fine.\nCats are called cats."),
            ("Vegan food it is.", "Vegan food it is."),
            ("", ""),
        ] {
            assert_eq!(retold().hide(text.into(), at(5)), expected, "{text}");
        }
        assert_eq!(
            retold().hide("Your cat is called Miso.".into(), at(11)),
            "Your cat is called Miso.",
            "said anew"
        );
    }
}
