//! The speakers of items, and the people whom a question names.

use std::collections::HashMap;
use std::sync::Arc;

use super::{IndexItem, Slot, index, set};
use crate::words;

/// Speakers that are told apart. No user talks to more people in one app.
const MAX_SPEAKERS: usize = 1_000;
/// Letters of a short form of a name, such as "Mel", at least.
const MIN_SHORT_FORM_CHARS: usize = 3;
/// The number that stands for no speaker.
pub(super) const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct People {
    numbers: HashMap<Arc<str>, u32>,
    known: Vec<Known>,
    free: Vec<u32>,
    /// By slot, who said it.
    said: Vec<u32>,
}

#[derive(Debug, Default)]
struct Known {
    /// The words of the name, in lower case.
    names: Vec<String>,
    items: usize,
}

impl People {
    pub(super) fn add(&mut self, slot: Slot, item: &IndexItem) {
        let number = item.speaker.as_ref().map_or(NOBODY, |speaker| self.number(speaker));
        if let Some(known) = self.known.get_mut(number as usize) {
            known.items += 1;
        }
        set(&mut self.said, slot, number, NOBODY);
    }

    pub(super) fn remove(&mut self, slot: Slot, item: &IndexItem) {
        let number = self.said.get(index(slot)).copied().unwrap_or(NOBODY);
        set(&mut self.said, slot, NOBODY, NOBODY);
        let Some(known) = self.known.get_mut(number as usize) else { return };
        known.items = known.items.saturating_sub(1);
        if known.items == 0 {
            *known = Known::default();
            if let Some(speaker) = &item.speaker {
                self.numbers.remove(speaker);
            }
            self.free.push(number);
        }
    }

    /// By slot, the number of who said it.
    pub(super) fn speakers(&self) -> &[u32] {
        &self.said
    }

    /// The speakers whom a word of a question names: by a name or, if no speaker has it, by a short form of one.
    pub(super) fn speakers_named(&self, token: &str) -> Vec<u32> {
        let name = words::name(token);
        let is_written_large = token.chars().next().is_some_and(char::is_uppercase);
        // "Will" may be a name; "will" is not.
        if words::is_stop_word(&name) && !is_written_large {
            return Vec::new();
        }
        let by_name = self.numbers_of(|names| names.contains(&name));
        let can_be_short = is_written_large && name.chars().count() >= MIN_SHORT_FORM_CHARS;
        if !by_name.is_empty() || !can_be_short {
            return by_name;
        }
        self.numbers_of(|names| names.iter().any(|whole| whole.starts_with(&name)))
    }

    fn numbers_of(&self, is_meant: impl Fn(&[String]) -> bool) -> Vec<u32> {
        let meant = self.known.iter().zip(0..).filter(|(known, _)| is_meant(&known.names));
        meant.map(|(_, number)| number).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.known.iter().flat_map(|known| &known.names).map(String::len).sum();
        names
            + self.known.capacity() * size_of::<Known>()
            + (self.said.capacity() + self.free.capacity()) * size_of::<u32>()
            + self.numbers.capacity() * size_of::<(Arc<str>, u32)>()
    }

    fn number(&mut self, speaker: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(speaker) {
            return *number;
        }
        if self.numbers.len() >= MAX_SPEAKERS {
            return NOBODY;
        }
        let names = words::tokens(speaker).map(words::name).filter(|name| !name.is_empty());
        let known = Known { names: names.collect(), items: 0 };
        let number = if let Some(number) = self.free.pop() {
            if let Some(place) = self.known.get_mut(number as usize) {
                *place = known;
            }
            number
        } else {
            self.known.push(known);
            u32::try_from(self.known.len().saturating_sub(1)).unwrap_or(NOBODY)
        };
        self.numbers.insert(Arc::clone(speaker), number);
        number
    }
}
