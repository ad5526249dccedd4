//! One user's memories and past messages, or the pieces of their documents, searched by words and by meaning.
//!
//! An index holds what one user of one app has, and nothing of another user, so that not even how rare a word is tells
//! one user about another. It is kept in memory and changed item by item; what is removed leaves nothing behind.

mod meaning;
mod people;
mod postings;
mod search;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{Role, ThreadId};
pub use store::ItemRef;

use self::meaning::Vectors;
use self::people::People;
use self::postings::Postings;
use self::threads::ThreadOrder;
use crate::dates::TimeSpan;
use crate::words;

/// Items of one index. A hundred thousand take about 100 MB.
pub const MAX_ITEMS: usize = 250_000;
/// Hits of one search.
pub const MAX_HITS: usize = 200;
/// Neighbours on each side that can be asked for.
pub const MAX_NEIGHBOURS: usize = 50;

#[derive(Debug, Clone, PartialEq)]
pub struct IndexItem {
    pub id: ItemRef,
    pub thread: Option<ThreadId>,
    /// Its order within its thread, or its document.
    pub place: u64,
    pub at: Timestamp,
    /// The name of who said it, if known.
    pub speaker: Option<Arc<str>>,
    pub role: Option<Role>,
    pub text: Arc<str>,
    /// From 0 to 1; decides between items that are equally near otherwise.
    pub importance: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecallFilter {
    Memories,
    Messages,
    Both,
    /// Pieces of documents, which have no speakers, threads or times to ask for.
    Documents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMethod {
    /// The words of the text alone.
    Words,
    /// The vectors alone.
    Vectors,
    /// Everything that is known.
    Hybrid,
}

#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub text: &'a str,
    /// Of the text that [`Index::to_embed`] makes of this one.
    pub vector: Option<&'a [f32]>,
    pub now: Timestamp,
    /// In which the text's "yesterday" is meant.
    pub zone: &'a TimeZone,
    /// Nothing from outside this span is found. The times that the text names are found out in any case, and only put
    /// items from then first.
    pub within: Option<TimeSpan>,
    pub limit: usize,
    pub among: RecallFilter,
    pub method: SearchMethod,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub id: ItemRef,
    /// From 0 to 1, and about as good in one search as in another.
    pub score: f32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the index is full with {MAX_ITEMS} items; remove some first")]
    Full,
    #[error("the index does not have this item; add the item first")]
    Unknown,
    #[error("the vector has {given} dimensions, and the index has {expected}; make a new index")]
    Length { given: usize, expected: usize },
    #[error("the vector is empty, too long or has no direction; embed the text again")]
    Vector,
}

/// A place for one item, used again when its item is removed. Everything about an item that searches read is in arrays by
/// slot.
type Slot = u32;

const NO_SLOT: Slot = Slot::MAX;

#[derive(Debug, Default)]
pub struct Index {
    slots: HashMap<ItemRef, Slot>,
    entries: Vec<Option<Entry>>,
    /// By slot, what every search reads of it.
    facts: Vec<SlotFacts>,
    /// By slot, how much it says, from 0 to 1.
    substance: Vec<f32>,
    /// By slot, whether the item asks a question, so that what follows may be the answer.
    asks: Vec<bool>,
    free: Vec<Slot>,
    postings: Postings,
    /// The terms of memories that tell something by themselves.
    names: Postings,
    threads: ThreadOrder,
    people: People,
    vectors: Vectors,
}

#[derive(Debug)]
struct Entry {
    item: IndexItem,
    /// The numbers of its terms, to take them out again.
    terms: Box<[u32]>,
    names: Box<[u32]>,
}

/// The default stands for no item.
#[derive(Debug, Clone, Copy, Default)]
struct SlotFacts {
    /// Seconds since 1970.
    at: i64,
    importance: f32,
    kind: IndexedKind,
    is_users: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum IndexedKind {
    #[default]
    Nothing,
    Memory,
    Message,
    Chunk,
}

impl Index {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the item, or replaces the one with its id. A vector stays as long as the text does.
    pub fn put(&mut self, item: IndexItem) -> Result<(), Refused> {
        if self.get(item.id) == Some(&item) {
            return Ok(()); // or a new vector would cost as much as a new text
        }
        if let Some(slot) = self.slots.get(&item.id).copied() {
            let old = self.entry(slot).map(|entry| Arc::clone(&entry.item.text));
            self.take_out(slot);
            if old.as_deref() != Some(&*item.text) {
                self.vectors.clear(slot);
            }
            self.put_in(slot, item);
            return Ok(());
        }
        if self.len() >= MAX_ITEMS {
            return Err(Refused::Full);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot::try_from(self.entries.len().saturating_sub(1)).unwrap_or(NO_SLOT)
        });
        self.slots.insert(item.id, slot);
        self.put_in(slot, item);
        Ok(())
    }

    /// Says whether it was there.
    pub fn remove(&mut self, id: ItemRef) -> bool {
        let Some(slot) = self.slots.remove(&id) else { return false };
        self.take_out(slot);
        self.remove_slots(&[slot]);
        true
    }

    /// Removes many at the price of looking once at the places of their words.
    pub fn remove_all(&mut self, ids: impl IntoIterator<Item = ItemRef>) {
        let slots: Vec<Slot> = ids.into_iter().filter_map(|id| self.slots.remove(&id)).collect();
        let terms: Vec<(Slot, Box<[u32]>)> =
            slots.iter().filter_map(|slot| Some((*slot, self.take_entry(*slot)?))).collect();
        self.postings.remove_all(&terms);
        self.remove_slots(&slots);
    }

    /// Gives the item its vector. All vectors of an index have the same length, and come from the same model.
    pub fn set_vector(&mut self, id: ItemRef, vector: &[f32]) -> Result<(), Refused> {
        let slot = self.slots.get(&id).copied().ok_or(Refused::Unknown)?;
        self.vectors.set(slot, vector)
    }

    pub fn get(&self, id: ItemRef) -> Option<&IndexItem> {
        self.entry(*self.slots.get(&id)?).map(|entry| &entry.item)
    }

    pub fn has_vector(&self, id: ItemRef) -> bool {
        self.slots.get(&id).is_some_and(|slot| self.vectors.has_vector(*slot))
    }

    /// How near the item's vector is to another, from -1 to 1; none if it has none.
    pub fn cosine(&self, id: ItemRef, vector: &[f32]) -> Option<f32> {
        self.vectors.cosine(*self.slots.get(&id)?, vector)
    }

    /// The item among at most `count` items before it and as many after it in its thread, in their order.
    pub fn neighbours(&self, id: ItemRef, count: usize) -> Vec<&IndexItem> {
        let Some(slot) = self.slots.get(&id).copied() else { return Vec::new() };
        let around = self.threads.with_neighbours(slot, count.min(MAX_NEIGHBOURS));
        around.into_iter().filter_map(|slot| self.entry(slot)).map(|entry| &entry.item).collect()
    }

    /// The text to embed for a search: the question as the people it names would put it themselves.
    pub fn to_embed(&self, question: &str) -> String {
        words::in_first_person(question, |token| !self.people.speakers_named(token).is_empty())
    }

    /// The nearest items, best first. The order of equals is always the same.
    pub fn search(&self, query: &Query<'_>) -> Vec<Hit> {
        search::search(self, query, None)
    }

    /// The nearest of these items, however near others are.
    pub fn search_among(&self, query: &Query<'_>, ids: impl IntoIterator<Item = ItemRef>) -> Vec<Hit> {
        let mut only = vec![false; self.facts.len()];
        for slot in ids.into_iter().filter_map(|id| self.slots.get(&id)) {
            only.get_mut(index(*slot)).into_iter().for_each(|only| *only = true);
        }
        search::search(self, query, Some(&only))
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether one more item would be refused.
    pub fn is_full(&self) -> bool {
        self.len() >= MAX_ITEMS
    }

    /// All items, in no order.
    pub fn items(&self) -> impl Iterator<Item = &IndexItem> {
        self.entries.iter().flatten().map(|entry| &entry.item)
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// About how much memory the index holds, the items' texts included.
    pub fn bytes(&self) -> usize {
        let own = |entry: &Entry| {
            let speaker = entry.item.speaker.as_ref().map_or(0, |speaker| speaker.len());
            entry.item.text.len() + speaker + size_of_val(&*entry.terms) + size_of_val(&*entry.names)
        };
        let entries: usize = self.entries.iter().flatten().map(own).sum();
        let places = self.entries.capacity() * size_of::<Option<Entry>>()
            + self.facts.capacity() * size_of::<SlotFacts>()
            + self.substance.capacity() * size_of::<f32>()
            + self.asks.capacity()
            + self.free.capacity() * size_of::<Slot>()
            + self.slots.capacity() * size_of::<(ItemRef, Slot)>();
        let words = self.postings.bytes() + self.names.bytes();
        entries + places + words + self.threads.bytes() + self.people.bytes() + self.vectors.bytes()
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(index(slot))?.as_ref()
    }

    fn put_in(&mut self, slot: Slot, item: IndexItem) {
        let terms = words::terms(&item.text);
        let substance = search::substance(item.id, terms.len());
        let terms = self.postings.add(slot, terms);
        let names = match item.id {
            ItemRef::Memory(_) => self.names.add(slot, words::telling_terms(&item.text)),
            ItemRef::Message(_) | ItemRef::Chunk(_) => Box::default(),
        };
        self.threads.add(slot, &item);
        self.people.add(slot, &item);
        let facts = SlotFacts {
            at: item.at.as_second(),
            importance: if item.importance.is_finite() { item.importance.clamp(0.0, 1.0) } else { 0.0 },
            kind: match item.id {
                ItemRef::Memory(_) => IndexedKind::Memory,
                ItemRef::Message(_) => IndexedKind::Message,
                ItemRef::Chunk(_) => IndexedKind::Chunk,
            },
            is_users: item.role == Some(Role::User),
        };
        set(&mut self.facts, slot, facts, SlotFacts::default());
        set(&mut self.substance, slot, substance, 0.0);
        set(&mut self.asks, slot, words::asks(&item.text), false);
        if let Some(entry) = self.entries.get_mut(index(slot)) {
            *entry = Some(Entry { item, terms, names });
        }
    }

    /// Leaves the vector.
    fn take_out(&mut self, slot: Slot) {
        if let Some(terms) = self.take_entry(slot) {
            self.postings.remove(slot, &terms);
        }
    }

    /// Leaves the vector and the places of its words, and returns the numbers of those.
    fn take_entry(&mut self, slot: Slot) -> Option<Box<[u32]>> {
        let entry = self.entries.get_mut(index(slot))?.take()?;
        set(&mut self.facts, slot, SlotFacts::default(), SlotFacts::default());
        set(&mut self.substance, slot, 0.0, 0.0);
        set(&mut self.asks, slot, false, false);
        self.threads.remove(slot, &entry.item);
        self.people.remove(slot, &entry.item);
        self.names.remove(slot, &entry.names);
        Some(entry.terms)
    }

    /// Frees the slots of items that were taken out.
    fn remove_slots(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.vectors.clear(*slot);
            self.free.push(*slot);
        }
        if self.slots.is_empty() {
            *self = Self::default();
        }
    }
}

fn index(slot: Slot) -> usize {
    slot as usize
}

/// Puts a value at a slot, with `empty` in the slots before it that have none.
fn set<T: Clone>(values: &mut Vec<T>, slot: Slot, value: T, empty: T) {
    if values.len() <= index(slot) {
        values.resize(index(slot) + 1, empty);
    }
    if let Some(place) = values.get_mut(index(slot)) {
        *place = value;
    }
}
