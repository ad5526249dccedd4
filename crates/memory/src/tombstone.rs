//! Words that were forgotten, and are not used until they are said anew.
//!
//! A tombstone holds the exact words a forgotten memory rested on; of one that was purged, a [`Shadow`] is left. The
//! forgotten words stay in the log, but code that reads it to make prompts or memories reads it through [`Forgotten`].

mod reworded_facts;
mod shadow;
pub(crate) mod spans;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use jiff::Timestamp;
use serde_json::Value;
use store::TombstoneRow;

use reworded_facts::Retold;
use shadow::Shadows;
pub use shadow::{Shadow, ShadowKey};
use spans::{WordSpan, spans};

/// The mark in the place of forgotten words.
pub const FORGOTTEN: &str = "[forgotten]";

/// Many tombstones, prepared once: a text is then read in one pass, however many there are.
#[derive(Debug)]
pub struct Forgotten {
    /// Words that occur in any tombstone, by number.
    numbers: HashMap<String, u32>,
    /// A tree of word sequences; the first node is its root.
    nodes: Vec<Node>,
    retold: Retold,
    shadows: Shadows,
    /// Messages after this moment are left alone.
    newest: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    next: HashMap<u32, usize>,
    /// The newest tombstone whose words end here.
    ends: Option<Timestamp>,
}

const ROOT: usize = 0;

impl Forgotten {
    pub fn new(tombstones: &[TombstoneRow]) -> Self {
        Self::with_shadows(tombstones, &[], &ShadowKey::default())
    }

    /// Tombstones together with the shadows of purged words, which were made with this key.
    pub fn with_shadows(
        tombstones: &[TombstoneRow],
        shadows: &[(Shadow, Timestamp)],
        key: &ShadowKey,
    ) -> Self {
        let purged = shadows.iter().map(|(_, at)| *at);
        let newest = tombstones.iter().map(|tombstone| tombstone.at).chain(purged).max();
        let (retold, shadows) = (Retold::new(tombstones), Shadows::new(shadows, key));
        let nodes = vec![Node::default()];
        let mut this = Self { numbers: HashMap::new(), nodes, retold, shadows, newest };
        for tombstone in tombstones {
            this.add(tombstone);
        }
        this
    }

    fn add(&mut self, tombstone: &TombstoneRow) {
        let words = spans(&tombstone.words);
        if words.is_empty() {
            return;
        }
        let mut here = ROOT;
        for word in &words {
            let fresh_number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(comparison_form(word)).or_insert(fresh_number);
            let fresh_node = self.nodes.len();
            let Some(node) = self.nodes.get_mut(here) else { return };
            here = *node.next.entry(number).or_insert(fresh_node);
            if here == fresh_node {
                self.nodes.push(Node::default());
            }
        }
        if let Some(node) = self.nodes.get_mut(here) {
            node.ends = node.ends.max(Some(tombstone.at));
        }
    }

    /// The text of a message with every forgotten word sequence replaced by [`FORGOTTEN`]. Words said after they were
    /// forgotten stay.
    pub fn redact<'a>(&self, text: &'a str, said_at: Timestamp) -> Cow<'a, str> {
        let hidden = self.hidden_ranges(text, said_at);
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for range in hidden {
            out.push_str(text.get(done..range.start).unwrap_or_default());
            out.push_str(FORGOTTEN);
            done = range.end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// The redacted text, and without sentences that say a forgotten fact in other words. For texts that models see;
    /// what a memory rests on must be the exact words.
    pub fn clear<'a>(&self, text: &'a str, said_at: Timestamp) -> Cow<'a, str> {
        if !self.reaches(said_at) {
            return Cow::Borrowed(text);
        }
        let retold = self.retold.hide(self.redact(text, said_at), said_at);
        self.shadows.hide_retold(retold, said_at)
    }

    /// Clears every text of a JSON value, names of fields included.
    pub fn clear_json(&self, value: &mut Value, said_at: Timestamp) {
        if !self.reaches(said_at) {
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(cleared) = self.clear(text, said_at) {
                    *text = cleared;
                }
            }
            Value::Array(values) => {
                for value in values {
                    self.clear_json(value, said_at);
                }
            }
            Value::Object(fields) => {
                let all = std::mem::take(fields);
                fields.extend(all.into_iter().map(|(name, mut value)| {
                    self.clear_json(&mut value, said_at);
                    (self.clear(&name, said_at).into_owned(), value)
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether something was forgotten after this moment, so that it may be in what was said then.
    pub fn reaches(&self, said_at: Timestamp) -> bool {
        self.newest.is_some_and(|newest| said_at <= newest)
    }

    /// Byte ranges to hide, in order, apart from each other.
    fn hidden_ranges(&self, text: &str, said_at: Timestamp) -> Vec<Range<usize>> {
        if !self.reaches(said_at) {
            return Vec::new();
        }
        let mut all = self.hidden_by_words(text, said_at);
        if !self.shadows.is_empty() {
            all.extend(self.shadows.hidden_ranges(text, said_at));
        }
        all.sort_by_key(|range| (range.start, range.end));
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(all.len());
        for range in all {
            match apart.last_mut() {
                Some(before) if range.start < before.end => before.end = before.end.max(range.end),
                Some(_) | None => apart.push(range),
            }
        }
        apart
    }

    fn hidden_by_words(&self, text: &str, said_at: Timestamp) -> Vec<Range<usize>> {
        let spans = spans(text);
        let number = |span: &WordSpan| {
            self.numbers.get(&comparison_form(span)).copied().filter(|_| !is_mark(text, span))
        };
        let numbers: Vec<Option<u32>> = spans.iter().map(number).collect();
        let range = |first: usize| {
            let last = first + self.longest_sequence(numbers.get(first..)?, said_at)?;
            Some(spans.get(first)?.start..spans.get(last)?.end)
        };
        (0..numbers.len()).filter_map(range).collect()
    }

    /// How many words after the first belong to the longest forgotten sequence that begins there.
    fn longest_sequence(&self, numbers: &[Option<u32>], said_at: Timestamp) -> Option<usize> {
        let mut node = self.nodes.get(ROOT)?;
        let mut longest = None;
        for (offset, number) in numbers.iter().enumerate() {
            let Some(next) = number.and_then(|number| node.next.get(&number)) else { break };
            let Some(child) = self.nodes.get(*next) else { break };
            node = child;
            if node.ends.is_some_and(|at| said_at <= at) {
                longest = Some(offset);
            }
        }
        longest
    }
}

/// Apostrophes are punctuation like any other here: `dont` and `don't` are the same word.
fn comparison_form(span: &WordSpan) -> String {
    span.word.replace('\'', "")
}

/// True for the word of an earlier [`FORGOTTEN`], which no person wrote.
fn is_mark(text: &str, span: &WordSpan) -> bool {
    let start = span.start.checked_sub(1);
    start.and_then(|start| text.get(start..=span.end)) == Some(FORGOTTEN)
}
