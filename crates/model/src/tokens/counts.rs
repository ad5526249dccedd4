//! Counts of the tokenizers for long texts: most instructions and turns are counted again in every request.

use std::hash::{BuildHasher, RandomState};

use ::tokens::Vocabulary;
use quick_cache::sync::Cache;

/// Texts of fewer bytes are counted sooner than looked up.
const MIN_KEPT_BYTES: usize = 256;
/// Counts that are kept; one that is not used goes first.
const MAX_KEPT: usize = 8192;

#[derive(Debug)]
pub(super) struct Counts {
    /// Its secret keeps anybody from making two texts that are taken for one.
    hasher: RandomState,
    /// Counts by the hash of the text.
    kept: Cache<u64, usize>,
}

impl Counts {
    pub(super) fn of(&self, vocabulary: Vocabulary, text: &str) -> usize {
        if text.len() < MIN_KEPT_BYTES {
            return vocabulary.count(text);
        }
        let key = self.hasher.hash_one((vocabulary, text));
        if let Some(count) = self.kept.get(&key) {
            return count;
        }
        let count = vocabulary.count(text);
        self.kept.insert(key, count);
        count
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { hasher: RandomState::new(), kept: Cache::new(MAX_KEPT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_number_of_counts_is_bounded() {
        let counts = Counts::default();
        counts.kept.insert(0, 7);
        for key in 1..=(MAX_KEPT as u64 * 5) {
            counts.kept.insert(key, 1);
            assert!(key % 1000 != 0 || counts.kept.get(&0) == Some(7), "after {key}");
            assert!(counts.len() <= MAX_KEPT);
        }
    }

    #[test]
    fn long_texts_are_counted_once_for_each_vocabulary() {
        let counts = Counts::default();
        let text = "A quick brown fox. ".repeat(20);
        for _ in 0..2 {
            for vocabulary in [Vocabulary::O200k, Vocabulary::Cl100k] {
                assert_eq!(counts.of(vocabulary, &text), vocabulary.count(&text));
            }
        }
        assert_eq!(counts.len(), 2);
        counts.of(Vocabulary::O200k, &"a".repeat(MIN_KEPT_BYTES - 1));
        assert_eq!(counts.len(), 2, "short ones are not kept");
        counts.of(Vocabulary::O200k, &"a".repeat(MIN_KEPT_BYTES));
        assert_eq!(counts.len(), 3);
    }
}
