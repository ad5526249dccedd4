//! Which items stand together in a thread, and next to each other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use protocol::ThreadId;

use super::{IndexItem, ItemRef, NO_SLOT, Slot, index, set};

/// The number of no thread.
pub(super) const NO_THREAD: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct ThreadOrder {
    numbers: HashMap<ThreadId, u32>,
    threads: Vec<BTreeMap<(u64, ItemRef), Slot>>,
    /// Numbers of threads that have no items any more.
    free: Vec<u32>,
    places: Vec<ThreadPosition>,
}

/// The position of an item in its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadPosition {
    pub(super) thread: u32,
    pub(super) before: Slot,
    pub(super) after: Slot,
}

const NOWHERE: ThreadPosition = ThreadPosition { thread: NO_THREAD, before: NO_SLOT, after: NO_SLOT };

impl ThreadOrder {
    pub(super) fn add(&mut self, slot: Slot, item: &IndexItem) {
        set(&mut self.places, slot, NOWHERE, NOWHERE);
        let Some(id) = item.thread else { return };
        let number = self.number(id);
        let key = (item.place, item.id);
        let Some(thread) = self.threads.get_mut(number as usize) else { return };
        thread.insert(key, slot);
        let before = thread.range(..key).next_back().map_or(NO_SLOT, |(_, slot)| *slot);
        let after = thread.range(key..).nth(1).map_or(NO_SLOT, |(_, slot)| *slot);
        set(&mut self.places, slot, ThreadPosition { thread: number, before, after }, NOWHERE);
        self.join(before, slot);
        self.join(slot, after);
    }

    pub(super) fn remove(&mut self, slot: Slot, item: &IndexItem) {
        let place = self.place(slot);
        set(&mut self.places, slot, NOWHERE, NOWHERE);
        self.join(place.before, place.after);
        let Some(id) = item.thread else { return };
        let Some(thread) = self.threads.get_mut(place.thread as usize) else { return };
        thread.remove(&(item.place, item.id));
        if thread.is_empty() {
            self.numbers.remove(&id);
            self.free.push(place.thread);
        }
    }

    pub(super) fn place(&self, slot: Slot) -> ThreadPosition {
        self.places.get(index(slot)).copied().unwrap_or(NOWHERE)
    }

    /// Of all slots, in their order.
    pub(super) fn places(&self) -> &[ThreadPosition] {
        &self.places
    }

    /// By number of thread, how many items it has.
    pub(super) fn sizes(&self) -> impl ExactSizeIterator<Item = usize> {
        self.threads.iter().map(BTreeMap::len)
    }

    /// The slot between its neighbours, at most `count` on each side.
    pub(super) fn with_neighbours(&self, slot: Slot, count: usize) -> VecDeque<Slot> {
        let mut slots = VecDeque::from([slot]);
        let (mut first, mut last) = (slot, slot);
        for _ in 0..count {
            first = self.place(first).before;
            last = self.place(last).after;
            if first != NO_SLOT {
                slots.push_front(first);
            }
            if last != NO_SLOT {
                slots.push_back(last);
            }
        }
        slots
    }

    pub(super) fn bytes(&self) -> usize {
        let turns: usize = self.threads.iter().map(BTreeMap::len).sum();
        turns * size_of::<((u64, ItemRef), Slot)>()
            + self.threads.capacity() * size_of::<BTreeMap<(u64, ItemRef), Slot>>()
            + self.places.capacity() * size_of::<ThreadPosition>()
            + self.free.capacity() * size_of::<u32>()
            + self.numbers.capacity() * size_of::<(ThreadId, u32)>()
    }

    fn number(&mut self, id: ThreadId) -> u32 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.threads.push(BTreeMap::new());
            u32::try_from(self.threads.len().saturating_sub(1)).unwrap_or(NO_THREAD)
        });
        self.numbers.insert(id, number);
        number
    }

    fn join(&mut self, before: Slot, after: Slot) {
        if let Some(place) = self.places.get_mut(index(before)) {
            place.after = after;
        }
        if let Some(place) = self.places.get_mut(index(after)) {
            place.before = before;
        }
    }
}
