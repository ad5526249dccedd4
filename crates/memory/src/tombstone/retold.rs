//! Sentences that say a forgotten fact in other words, such as an answer that repeated it: they have all of its telling
//! words, in whatever order and form.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::{FORGOTTEN, Tombstone};
use crate::words::Words;

/// A single word is in too many sentences that mean something else.
pub(super) const MIN_TERMS: usize = 2;
const ENDS: [char; 4] = ['.', '!', '?', '\n'];

#[derive(Debug, Default)]
pub(super) struct Retold {
    words: Words,
    facts: Vec<Fact>,
    /// Facts by one of their terms.
    by_term: HashMap<String, Vec<usize>>,
}

#[derive(Debug)]
struct Fact {
    terms: BTreeSet<String>,
    at: Timestamp,
}

impl Retold {
    pub(super) fn new(tombstones: &[Tombstone]) -> Self {
        let mut this = Self::default();
        for tombstone in tombstones {
            let terms: BTreeSet<String> = this.words.terms(&tombstone.words).into_iter().collect();
            let longest = terms.iter().max_by_key(|term| term.len()).cloned();
            if let Some(longest) = longest.filter(|_| terms.len() >= MIN_TERMS) {
                this.by_term.entry(longest).or_default().push(this.facts.len());
                this.facts.push(Fact { terms, at: tombstone.at });
            }
        }
        this
    }

    /// The text with [`FORGOTTEN`] in the place of each such sentence.
    pub(super) fn hide<'a>(&self, text: Cow<'a, str>, said_at: Timestamp) -> Cow<'a, str> {
        if self.facts.is_empty() {
            return text;
        }
        hide_sentences(text, |sentence| self.is_fact(sentence, said_at))
    }

    fn is_fact(&self, sentence: &str, said_at: Timestamp) -> bool {
        let terms: BTreeSet<String> = self.words.terms(sentence).into_iter().collect();
        let known = terms.iter().filter_map(|term| self.by_term.get(term)).flatten();
        known
            .filter_map(|fact| self.facts.get(*fact))
            .any(|fact| said_at <= fact.at && fact.terms.is_subset(&terms))
    }
}

/// The text with [`FORGOTTEN`] in the place of each sentence that is to be hidden.
pub(super) fn hide_sentences(text: Cow<'_, str>, is_hidden: impl Fn(&str) -> bool) -> Cow<'_, str> {
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
        let tombstone = |words: &str| Tombstone {
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
