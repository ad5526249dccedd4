//! Items that an index finds, keeps and lets go.

mod changes;
mod finding;

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use protocol::{ChunkId, MemoryId, MessageId, Role, ThreadId};
use uuid::Uuid;

use super::*;

const NOW: &str = "2024-06-15T12:00:00Z";
static ZONE: TimeZone = TimeZone::UTC;

fn memory_id(number: u128) -> ItemRef {
    ItemRef::Memory(MemoryId::new(Uuid::from_u128(number)))
}

fn message_id(number: u128) -> ItemRef {
    ItemRef::Message(MessageId::new(Uuid::from_u128(number)))
}

fn chunk_id(number: u128) -> ItemRef {
    ItemRef::Chunk(ChunkId::new(Uuid::from_u128(number)))
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn days_ago(days: i64) -> Timestamp {
    now().checked_sub(SignedDuration::from_hours(days * 24)).unwrap()
}

fn memory(number: u128, text: &str) -> IndexItem {
    IndexItem {
        id: memory_id(number),
        thread: None,
        place: 0,
        at: days_ago(1),
        speaker: None,
        role: None,
        text: text.into(),
        importance: 0.5,
    }
}

/// A message of a thread, in the order of their numbers.
fn message(number: u128, thread: u128, text: &str) -> IndexItem {
    IndexItem {
        id: message_id(number),
        thread: Some(ThreadId::new(Uuid::from_u128(thread))),
        place: number as u64,
        ..memory(0, text)
    }
}

fn chunk(number: u128, text: &str) -> IndexItem {
    IndexItem { id: chunk_id(number), place: number as u64, importance: 0.0, ..memory(0, text) }
}

fn said_by(speaker: &str, item: IndexItem) -> IndexItem {
    IndexItem { speaker: Some(speaker.into()), ..item }
}

fn index(items: impl IntoIterator<Item = IndexItem>) -> Index {
    let mut index = Index::new();
    for item in items {
        index.put(item).unwrap();
    }
    index
}

fn query(text: &str) -> Query<'_> {
    Query {
        text,
        vector: None,
        now: now(),
        zone: &ZONE,
        within: None,
        limit: 10,
        among: RecallFilter::Both,
        method: SearchMethod::Hybrid,
    }
}

fn found_ids(index: &Index, query: &Query<'_>) -> Vec<ItemRef> {
    index.search(query).into_iter().map(|hit| hit.id).collect()
}
