//! Which items have which words, and how often.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Slot, index};

/// An item that has a term, how often, and how many terms it has in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) slot: Slot,
    pub(super) times: u16,
    pub(super) length: u16,
}

#[derive(Debug, Default)]
pub(super) struct Postings {
    numbers: HashMap<Arc<str>, u32>,
    lists: Vec<List>,
    /// Numbers of terms that no item has any more.
    free: Vec<u32>,
    /// Terms of all items together, repeated ones too.
    length: u64,
}

#[derive(Debug, Default)]
struct List {
    term: Arc<str>,
    postings: Vec<Posting>,
}

impl Postings {
    /// Returns the numbers of the item's terms, by which it is removed again.
    pub(super) fn add(&mut self, slot: Slot, terms: Vec<String>) -> Box<[u32]> {
        let length = u16::try_from(terms.len()).unwrap_or(u16::MAX);
        self.length += u64::from(length);
        let mut counts: BTreeMap<String, u16> = BTreeMap::new();
        for term in terms {
            let times = counts.entry(term).or_default();
            *times = times.saturating_add(1);
        }
        let mut numbers = Vec::with_capacity(counts.len());
        for (term, times) in counts {
            let number = self.number(term);
            if let Some(list) = self.lists.get_mut(number as usize) {
                list.postings.push(Posting { slot, times, length });
                numbers.push(number);
            }
        }
        numbers.into_boxed_slice()
    }

    pub(super) fn remove(&mut self, slot: Slot, numbers: &[u32]) {
        let mut length = 0;
        for number in numbers {
            let Some(list) = self.lists.get_mut(*number as usize) else { continue };
            if let Some(at) = list.postings.iter().position(|posting| posting.slot == slot) {
                length = list.postings.swap_remove(at).length;
            }
            if list.postings.is_empty() {
                self.numbers.remove(&list.term);
                *list = List::default();
                self.free.push(*number);
            }
        }
        self.length = self.length.saturating_sub(u64::from(length));
    }

    /// Removes many items by the numbers of their terms, looking at each list once.
    pub(super) fn remove_all(&mut self, items: &[(Slot, Box<[u32]>)]) {
        let slots = items.iter().map(|(slot, _)| index(*slot) + 1).max().unwrap_or(0);
        let mut lengths: Vec<Option<u16>> = vec![None; slots];
        let mut is_touched = vec![false; self.lists.len()];
        for (slot, numbers) in items {
            lengths.get_mut(index(*slot)).into_iter().for_each(|length| *length = Some(0));
            for number in numbers {
                is_touched.get_mut(*number as usize).into_iter().for_each(|is_touched| *is_touched = true);
            }
        }
        let touched = self.lists.iter_mut().zip(0..).zip(is_touched).filter(|(_, is_touched)| *is_touched);
        for ((list, number), _) in touched {
            list.postings.retain(|posting| match lengths.get_mut(index(posting.slot)) {
                Some(Some(length)) => {
                    *length = posting.length;
                    false
                }
                Some(None) | None => true,
            });
            if list.postings.is_empty() {
                self.numbers.remove(&list.term);
                *list = List::default();
                self.free.push(number);
            }
        }
        let gone: u64 = lengths.into_iter().flatten().map(u64::from).sum();
        self.length = self.length.saturating_sub(gone);
    }

    pub(super) fn of(&self, term: &str) -> &[Posting] {
        let list = self.numbers.get(term).and_then(|number| self.lists.get(*number as usize));
        list.map_or(&[], |list| list.postings.as_slice())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn bytes(&self) -> usize {
        let list = |list: &List| list.term.len() + list.postings.capacity() * size_of::<Posting>();
        let lists: usize = self.lists.iter().map(list).sum();
        lists
            + self.lists.capacity() * size_of::<List>()
            + self.free.capacity() * size_of::<u32>()
            + self.numbers.capacity() * size_of::<(Arc<str>, u32)>()
    }

    fn number(&mut self, term: String) -> u32 {
        if let Some(number) = self.numbers.get(term.as_str()) {
            return *number;
        }
        let term: Arc<str> = term.into();
        let list = List { term: Arc::clone(&term), postings: Vec::new() };
        let number = if let Some(number) = self.free.pop() {
            if let Some(place) = self.lists.get_mut(number as usize) {
                *place = list;
            }
            number
        } else {
            self.lists.push(list);
            u32::try_from(self.lists.len().saturating_sub(1)).unwrap_or(u32::MAX)
        };
        self.numbers.insert(term, number);
        number
    }
}
