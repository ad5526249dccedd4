//! The tokenizers, and what they counted in long texts: the same instructions and turns are counted in every request.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Texts of fewer bytes are counted sooner than looked up.
const MIN_KEPT_BYTES: usize = 256;
/// Counts of a generation; there are two.
const MAX_KEPT: usize = 4096;

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

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Its secret keeps anybody from making two texts that are taken for one.
    hasher: RandomState,
    /// Held for a look, never while counting.
    kept: Mutex<Kept>,
}

/// What was counted, by the hash of the text. When the young are many, they become the old, and the old are forgotten.
#[derive(Debug, Default)]
struct Kept {
    young: HashMap<u64, usize>,
    old: HashMap<u64, usize>,
}

impl Counts {
    pub(super) fn of(&self, table: Table, text: &str) -> usize {
        if text.len() < MIN_KEPT_BYTES {
            return table.count(text);
        }
        let key = self.hasher.hash_one((table, text));
        if let Some(count) = self.kept().get(key) {
            return count;
        }
        let count = table.count(text);
        self.kept().put(key, count);
        count
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let kept = self.kept();
        kept.young.len() + kept.old.len()
    }
}

impl Kept {
    fn get(&mut self, key: u64) -> Option<usize> {
        if let Some(count) = self.young.get(&key) {
            return Some(*count);
        }
        let count = self.old.remove(&key)?;
        self.put(key, count);
        Some(count)
    }

    fn put(&mut self, key: u64, count: usize) {
        if self.young.len() >= MAX_KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_number_of_counts_is_bounded() {
        let mut kept = Kept::default();
        kept.put(0, 7);
        for key in 1..=(MAX_KEPT as u64 * 10) {
            kept.put(key, 1);
            assert!(key % 1000 != 0 || kept.get(0) == Some(7), "after {key}");
            assert!(kept.young.len() <= MAX_KEPT && kept.old.len() <= MAX_KEPT);
        }
        assert_eq!(kept.get(1), None, "the oldest are gone");
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
