//! The tokenizers, and what they counted in long texts: the same instructions and turns are counted in every request.

use std::hash::{BuildHasher, RandomState};

use quick_cache::sync::Cache;

/// Texts of fewer bytes are counted sooner than looked up.
const MIN_KEPT_BYTES: usize = 256;
/// Counts that are kept; one that is not used goes first.
const MAX_KEPT: usize = 8192;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    O200k,
    Cl100k,
}

impl Table {
    pub(super) fn count(self, text: &str) -> usize {
        let name = match self {
            Table::O200k => "o200k_base",
            Table::Cl100k => "cl100k_base",
        };
        // Both tables are in the crate; without them every byte counts, which is never too few.
        tiktoken::get_encoding(name).map_or(text.len(), |table| table.count(text))
    }
}

#[derive(Debug)]
pub(super) struct Counts {
    /// Its secret keeps anybody from making two texts that are taken for one.
    hasher: RandomState,
    /// Counts by the hash of the text.
    kept: Cache<u64, usize>,
}

impl Counts {
    pub(super) fn of(&self, table: Table, text: &str) -> usize {
        if text.len() < MIN_KEPT_BYTES {
            return table.count(text);
        }
        let key = self.hasher.hash_one((table, text));
        if let Some(count) = self.kept.get(&key) {
            return count;
        }
        let count = table.count(text);
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
    fn long_texts_are_counted_once_for_each_table() {
        let counts = Counts::default();
        let text = "A quick brown fox. ".repeat(20);
        for _ in 0..2 {
            for table in [Table::O200k, Table::Cl100k] {
                assert_eq!(counts.of(table, &text), table.count(&text));
            }
        }
        assert_eq!(counts.len(), 2);
        counts.of(Table::O200k, &"a".repeat(MIN_KEPT_BYTES - 1));
        assert_eq!(counts.len(), 2, "short ones are not kept");
        counts.of(Table::O200k, &"a".repeat(MIN_KEPT_BYTES));
        assert_eq!(counts.len(), 3);
    }
}
