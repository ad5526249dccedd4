//! Counts of the tokenizers for long texts and for lists of tools: most instructions, turns and tools are counted again in
//! every request.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use ::tokens::Vocabulary;
use quick_cache::sync::Cache;

use crate::ToolSpec;

/// Texts of fewer bytes are counted sooner than looked up.
const MIN_KEPT_BYTES: usize = 256;
/// Counts that are kept; one that is not used goes first.
const MAX_KEPT: usize = 8192;
/// Lists of tools whose counts are kept. All runs of an app share its list. A run that declares tools has a list of its own.
const MAX_KEPT_TOOLS: usize = 256;

#[derive(Debug)]
pub(super) struct Counts {
    /// Its secret keeps an attacker from making two texts that are taken for one.
    hasher: RandomState,
    /// Counts by the hash of the text.
    kept: Cache<u64, usize>,
    /// Counts of each tool of a list, by the address of the list.
    tools: Cache<(usize, Vocabulary), ToolCounts>,
}

/// The counts of a list of tools. As long as they are kept, no other list has its address.
#[derive(Debug, Clone)]
struct ToolCounts {
    _list: Weak<[ToolSpec]>,
    counts: Arc<[usize]>,
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

    /// The tokens of each tool of a list, as `count` says when the list is new.
    pub(super) fn of_tools(
        &self,
        vocabulary: Vocabulary,
        tools: &Arc<[ToolSpec]>,
        count: impl Fn(&ToolSpec) -> usize,
    ) -> Arc<[usize]> {
        let key = (Arc::as_ptr(tools).addr(), vocabulary);
        if let Some(known) = self.tools.get(&key) {
            return known.counts;
        }
        let counts: Arc<[usize]> = tools.iter().map(count).collect();
        self.tools.insert(key, ToolCounts { _list: Arc::downgrade(tools), counts: Arc::clone(&counts) });
        counts
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { hasher: RandomState::new(), kept: Cache::new(MAX_KEPT), tools: Cache::new(MAX_KEPT_TOOLS) }
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
    fn a_list_of_tools_is_counted_once_for_each_vocabulary() {
        let counts = Counts::default();
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({}),
        };
        let list: Arc<[ToolSpec]> = [tool("one"), tool("three")].into();
        let calls = std::cell::Cell::new(0);
        let count = |tool: &ToolSpec| {
            calls.set(calls.get() + 1);
            tool.name.len()
        };
        for _ in 0..3 {
            assert_eq!(*counts.of_tools(Vocabulary::O200k, &list, count), [3, 5]);
        }
        assert_eq!(calls.get(), 2);
        counts.of_tools(Vocabulary::Cl100k, &list, count);
        assert_eq!(calls.get(), 4);
        for length in 1..1000 {
            let other: Arc<[ToolSpec]> = [tool(&"x".repeat(length)), tool("")].into();
            assert_eq!(*counts.of_tools(Vocabulary::O200k, &other, count), [length, 0]);
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
