//! One user's index with what it was made of.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use protocol::{Event, Role, ThreadId};
use store::{
    ChunkRow, ItemRef, ItemRow, MAX_ITEM_BYTES_PER_READ, MemoryRow, MemoryStatus, MessageRole, NewVector,
    PackedVector, RawEvent, RecallMessage, StoredVector,
};
use tokio::sync::Semaphore;

use super::documents::DocumentIndex;
use super::{Hash, hash};
use crate::index::{Index, IndexItem, RecallFilter, Refused};
use crate::tombstone::{FORGOTTEN, Forgotten};

/// Memory that one user's index may hold, about: what is oldest is left out of a larger one.
const MAX_INDEX_BYTES: usize = 256 << 20;
/// The part of the whole that is left out beyond that, so that this is not done for every message.
const LEFT_OUT: usize = 8;
/// Times that an index which is too large is looked at in a row.
const MAX_LOOKS: usize = 4;
/// Bytes of a text that an embedder reads; models for sentences see no more of it.
const MAX_EMBEDDED_BYTES: usize = 2_048;
/// Answers that refer to a memory, beyond which one more makes it no more important.
const MANY_ACCESSES: u64 = 20;

pub(super) struct UserIndex {
    state: RwLock<UserIndexState>,
    /// The task that reads rows for the index holds the permit.
    pub(super) turn: Semaphore,
}

impl Default for UserIndex {
    fn default() -> Self {
        Self { state: RwLock::default(), turn: Semaphore::new(1) }
    }
}

impl UserIndex {
    /// With what stands before a memory when it is embedded.
    pub(super) fn new(fact: &'static str) -> Self {
        let state = UserIndexState { fact, ..UserIndexState::default() };
        Self { state: RwLock::new(state), ..Self::default() }
    }

    /// Locked for a look or a change, never over an await.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, UserIndexState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, UserIndexState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct UserIndexState {
    pub(super) index: Index,
    pub(super) documents: DocumentIndex,
    /// The newest change that is in it, once all of them are.
    rev: u64,
    /// The newest change that is in it while everything is read.
    reading: Option<u64>,
    pub(super) forgotten: Arc<Forgotten>,
    /// The change up to which `forgotten` is known to be complete.
    pub(super) tombstones_of: u64,
    /// The hash of each text that has no vector of it; those of memories come first, those of pieces of documents last.
    bare: BTreeMap<ItemRef, Hash>,
    threads: HashMap<ThreadId, HashSet<ItemRef>>,
    /// Memory that it may hold.
    most_bytes: usize,
    /// Bytes of texts that came in since it was last looked at how much it holds.
    unweighed: usize,
    /// Text before a memory when it is embedded.
    fact: &'static str,
}

impl Default for UserIndexState {
    fn default() -> Self {
        Self {
            index: Index::new(),
            documents: DocumentIndex::default(),
            rev: 0,
            reading: None,
            forgotten: Arc::new(Forgotten::new(&[])),
            tombstones_of: 0,
            bare: BTreeMap::new(),
            threads: HashMap::new(),
            most_bytes: MAX_INDEX_BYTES,
            unweighed: 0,
            fact: "",
        }
    }
}

/// A text that has no vector.
pub(super) struct UnembeddedText {
    pub(super) id: ItemRef,
    pub(super) hash: Hash,
    pub(super) text: Arc<str>,
}

impl UnembeddedText {
    /// Its vector as it is kept; an empty one stands for a text of which none can be made.
    pub(super) fn vector(&self, numbers: &[f32]) -> NewVector {
        NewVector { item: self.id, hash: self.hash, vector: PackedVector::pack(numbers) }
    }
}

impl UserIndexState {
    /// Whether something up to this change may not be in it.
    pub(super) fn is_behind(&self, head: u64) -> bool {
        self.rev < head || self.reading.is_some()
    }

    /// The change after which to read on; none if nothing was read yet.
    pub(super) fn read_up_to(&self) -> Option<u64> {
        self.reading.or(Some(self.rev).filter(|rev| *rev > 0))
    }

    /// Everything is to be read again. The words in `forgotten` were complete when the newest change was `as_of`.
    pub(super) fn read_again(&mut self, forgotten: Forgotten, as_of: u64) {
        self.forgotten = Arc::new(forgotten);
        self.tombstones_of = as_of;
        self.reading = Some(0);
    }

    /// Nothing is left to read up to this change.
    pub(super) fn has_read_all(&mut self, head: u64) {
        self.rev = self.rev.max(head).max(self.reading.take().unwrap_or(0));
    }

    /// Whether the rows tell of a change of what is hidden, so that every text has to be read again.
    pub(super) fn hides_other_than(&self, rows: &[ItemRow]) -> bool {
        rows.iter()
            .any(|row| matches!(row.what, store::RecallItem::Tombstones) && row.rev > self.tombstones_of)
    }

    /// Takes in rows in the order of their changes, up to `head` or beyond.
    pub(super) fn take_in(&mut self, rows: Vec<ItemRow>, head: u64) {
        let newest = rows.last().map_or(0, |row| row.rev);
        self.put_rows(rows);
        match &mut self.reading {
            Some(reading) => *reading = newest.max(*reading),
            None => self.rev = self.rev.max(newest),
        }
        if newest >= head {
            self.has_read_all(newest);
        }
        self.make_room();
    }

    fn put_rows(&mut self, rows: Vec<ItemRow>) {
        let mut left_out = Ok(());
        for ItemRow { what, .. } in rows {
            match what {
                store::RecallItem::Memory(row, vector) if row.status == MemoryStatus::Active => {
                    left_out = left_out.and(self.put(memory(*row), vector));
                }
                store::RecallItem::Memory(row, _) => self.remove(ItemRef::Memory(row.id)),
                store::RecallItem::Message(said, vector) => match message(&said, &self.forgotten) {
                    Some(item) => {
                        self.threads.entry(said.thread).or_default().insert(item.id);
                        left_out = left_out.and(self.put(item, vector));
                    }
                    None => self.remove(ItemRef::Message(said.id)),
                },
                store::RecallItem::Chunk(row, vector) => left_out = left_out.and(self.put_chunk(row, vector)),
                store::RecallItem::DocumentGone(document) => {
                    for id in self.documents.remove_document(document) {
                        self.bare.remove(&ItemRef::Chunk(id));
                    }
                }
                store::RecallItem::ThreadGone(thread) => {
                    let gone = self.threads.remove(&thread).unwrap_or_default();
                    self.bare.retain(|id, _| !gone.contains(id));
                    self.index.remove_all(gone);
                }
                store::RecallItem::Gone(id) => self.remove(id),
                store::RecallItem::Tombstones => {}
            }
        }
        if let Err(error) = left_out {
            tracing::warn!(%error, "an item is left out of recall");
        }
    }

    fn put(&mut self, item: IndexItem, kept: Option<StoredVector>) -> Result<(), Refused> {
        let (id, hash) = (item.id, hash(&self.text_to_embed(&item)));
        self.unweighed += item.text.len();
        if self.index.is_full() {
            self.leave_out(self.index.len() / LEFT_OUT, |id| !matches!(id, ItemRef::Chunk(_)));
        }
        self.index.put(item)?;
        self.put_vector(id, hash, kept);
        Ok(())
    }

    fn put_chunk(&mut self, row: ChunkRow, kept: Option<StoredVector>) -> Result<(), Refused> {
        let (id, hash) = (ItemRef::Chunk(row.id), hash(&row.text));
        self.unweighed += row.text.len();
        if self.documents.index.is_full() {
            self.leave_out(self.documents.index.len() / LEFT_OUT, |id| matches!(id, ItemRef::Chunk(_)));
        }
        self.documents.put(row)?;
        self.put_vector(id, hash, kept);
        Ok(())
    }

    /// The text of an item that is embedded.
    fn text_to_embed(&self, item: &IndexItem) -> Arc<str> {
        match item.id {
            ItemRef::Memory(_) if !self.fact.is_empty() => format!("{}{}", self.fact, item.text).into(),
            ItemRef::Memory(_) | ItemRef::Message(_) | ItemRef::Chunk(_) => Arc::clone(&item.text),
        }
    }

    fn put_vector(&mut self, id: ItemRef, hash: Hash, kept: Option<StoredVector>) {
        let Some(kept) = kept.filter(|kept| kept.hash == hash) else {
            self.bare.insert(id, hash);
            return;
        };
        self.bare.remove(&id);
        let index = match id {
            ItemRef::Memory(_) | ItemRef::Message(_) => &mut self.index,
            ItemRef::Chunk(_) => &mut self.documents.index,
        };
        // One that cannot be used would be no better if it were made again.
        let used = index.set_vector(id, &kept.vector.numbers());
        if used.is_err() {
            tracing::debug!(item = ?id, ?used, "a vector cannot be compared with the others; the item is found by its words only");
        }
    }

    /// Leaves out what is oldest, if there is more than it may hold.
    fn make_room(&mut self) {
        if self.unweighed < MAX_ITEM_BYTES_PER_READ.min(self.most_bytes / LEFT_OUT) {
            return;
        }
        self.unweighed = 0;
        for _ in 0..MAX_LOOKS {
            let bytes = self.bytes();
            if bytes <= self.most_bytes {
                return;
            }
            let much = bytes - self.most_bytes / LEFT_OUT * (LEFT_OUT - 1);
            let each = (bytes / self.len().max(1)).max(1);
            self.leave_out(much / each + 1, |_| true);
        }
    }

    /// Leaves out the oldest of some, memories last: there are few of them, and each was worth being kept.
    fn leave_out(&mut self, count: usize, of: impl Fn(ItemRef) -> bool) {
        let all = self.index.items().chain(self.documents.index.items()).filter(|item| of(item.id));
        let age = |item: &IndexItem| (matches!(item.id, ItemRef::Memory(_)), item.at, item.id);
        let mut oldest: Vec<(bool, Timestamp, ItemRef)> = all.map(age).collect();
        if count < oldest.len() {
            oldest.select_nth_unstable(count);
            oldest.truncate(count);
        }
        tracing::warn!(items = oldest.len(), "a user has too many items for recall; the oldest are left out");
        let mut pieces = Vec::new();
        let mut others = Vec::new();
        for (_, _, id) in oldest {
            self.bare.remove(&id);
            match id {
                ItemRef::Chunk(id) => pieces.push(id),
                ItemRef::Memory(_) | ItemRef::Message(_) => others.push(id),
            }
        }
        for id in &others {
            let thread = self.index.get(*id).and_then(|item| item.thread);
            if let Some(thread) = thread
                && let Some(held) = self.threads.get_mut(&thread)
            {
                held.remove(id);
                if held.is_empty() {
                    self.threads.remove(&thread);
                }
            }
        }
        self.index.remove_all(others);
        self.documents.remove_all(&pieces);
    }

    fn remove(&mut self, id: ItemRef) {
        self.bare.remove(&id);
        match id {
            ItemRef::Memory(_) | ItemRef::Message(_) => drop(self.index.remove(id)),
            ItemRef::Chunk(id) => self.documents.remove(id),
        }
    }

    /// The index that has it.
    pub(super) fn index_of(&self, among: RecallFilter) -> &Index {
        match among {
            RecallFilter::Memories | RecallFilter::Messages | RecallFilter::Both => &self.index,
            RecallFilter::Documents => &self.documents.index,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len() + self.documents.index.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.documents.bytes()
    }

    pub(super) fn without_vector(&self, limit: usize) -> Vec<UnembeddedText> {
        let bare = |(id, hash): (&ItemRef, &Hash)| {
            let item = self.index.get(*id).or_else(|| self.documents.index.get(*id))?;
            Some(UnembeddedText { id: *id, hash: *hash, text: shortened(&self.text_to_embed(item)) })
        };
        self.bare.iter().filter_map(bare).take(limit).collect()
    }
}

fn memory(row: MemoryRow) -> IndexItem {
    IndexItem {
        id: ItemRef::Memory(row.id),
        thread: None,
        place: 0,
        at: row.valid_from.unwrap_or(row.created_at),
        speaker: None,
        role: None,
        text: row.text.into(),
        importance: row.access_count.min(MANY_ACCESSES) as f32 / MANY_ACCESSES as f32,
    }
}

/// None when there is nothing to find it by.
fn message(said: &RecallMessage, forgotten: &Forgotten) -> Option<IndexItem> {
    let text = words(said.said.as_ref()?)?;
    let text = forgotten.clear(&text, said.at);
    if text.replace(FORGOTTEN, "").trim().is_empty() {
        return None;
    }
    Some(IndexItem {
        id: ItemRef::Message(said.id),
        thread: Some(said.thread),
        place: said.seq,
        at: said.at,
        speaker: None,
        role: match said.role {
            MessageRole::User => Some(Role::User),
            MessageRole::Assistant => Some(Role::Assistant),
            MessageRole::Other(_) => None,
        },
        text: text.into(),
        importance: 0.0,
    })
}

fn words(raw: &RawEvent) -> Option<String> {
    match Event::read(&raw.kind, &raw.body) {
        Ok(Event::MessageUser(said)) => Some(said.text.trim().to_owned()),
        Ok(Event::StreamComplete(answer)) => Some(answer.text),
        Ok(Event::StepEnd(step)) => Some(step.text),
        Ok(_) | Err(_) => None,
    }
}

fn shortened(text: &Arc<str>) -> Arc<str> {
    let end = text.floor_char_boundary(MAX_EMBEDDED_BYTES);
    match text.get(..end) {
        Some(short) if short.len() < text.len() => short.into(),
        Some(_) | None => Arc::clone(text),
    }
}

#[cfg(test)]
mod tests;
