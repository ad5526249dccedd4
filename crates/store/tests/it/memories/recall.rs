//! Recall: every change of a scope is told to the scope alone, in order, as it is now.

use std::collections::BTreeMap;

use protocol::{AppId, Ids, MemoryId, MessageId, RunStatus, Scope, ThreadId};
use store::{
    Error, ItemRef, ItemRow, MAX_ITEM_BYTES_PER_READ, MAX_ITEMS_PER_READ, MAX_VECTOR_NUMBERS, MemoryEdit,
    NewVector, PackedVector, RecallItem, StoredVector, SubmittedRun, Target,
};

use super::add;
use crate::support::{Fixture, after, answer, end, principal, scope, step_end};

const MODEL: &str = "small";

/// The items of a reader who has read every change.
#[derive(Default)]
struct Reader {
    rev: u64,
    memories: BTreeMap<MemoryId, (String, Option<StoredVector>)>,
    messages: BTreeMap<MessageId, (ThreadId, Option<StoredVector>)>,
    tombstones: usize,
}

impl Reader {
    /// Reads on to the end, `limit` changes at a time. Gives how many there were.
    async fn read(&mut self, fixture: &Fixture, limit: usize) -> usize {
        let mut read = 0;
        loop {
            let rows =
                fixture.store.recall_changes(&scope("alice"), self.rev, Some(MODEL), limit).await.unwrap();
            if rows.is_empty() {
                break;
            }
            assert!(rows.len() <= limit);
            read += rows.len();
            rows.into_iter().for_each(|row| self.take(row));
        }
        assert_eq!(fixture.store.recall_head(&scope("alice")).await.unwrap(), self.rev);
        read
    }

    fn take(&mut self, row: ItemRow) {
        assert!(row.rev > self.rev, "in order");
        self.rev = row.rev;
        match row.what {
            RecallItem::Memory(row, vector) if row.status == store::MemoryStatus::Active => {
                self.memories.insert(row.id, (row.text, vector));
            }
            RecallItem::Memory(row, _) => drop(self.memories.remove(&row.id)),
            RecallItem::Message(said, vector) => {
                assert!(said.said.unwrap().body.contains("\"text\""));
                self.messages.insert(said.id, (said.thread, vector));
            }
            RecallItem::ThreadGone(thread) => self.messages.retain(|_, (of, _)| *of != thread),
            RecallItem::Tombstones => self.tombstones += 1,
            RecallItem::Gone(ItemRef::Memory(id)) => drop(self.memories.remove(&id)),
            RecallItem::Gone(ItemRef::Message(id)) => drop(self.messages.remove(&id)),
            what @ (RecallItem::Chunk(..)
            | RecallItem::DocumentGone(_)
            | RecallItem::Gone(ItemRef::Chunk(_))) => {
                panic!("{what:?}")
            }
        }
    }

    fn texts(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = self.memories.values().map(|(text, _)| text.as_str()).collect();
        texts.sort_unstable();
        texts
    }
}

fn vector(item: ItemRef, byte: u8) -> NewVector {
    NewVector { item, hash: [byte; 16], vector: PackedVector::pack(&[f32::from(byte), 1.0]) }
}

async fn put(fixture: &Fixture, item: ItemRef, byte: u8) {
    fixture.store.put_vectors(&scope("alice"), MODEL, vec![vector(item, byte)]).await.unwrap();
}

/// A whole exchange in a thread: two messages.
async fn exchange(fixture: &Fixture, thread: Target) -> (SubmittedRun, MessageId) {
    let submitted = fixture.submit(thread).await;
    let message = fixture.ids.message();
    let events = vec![step_end(vec![]), answer(message), end(submitted.run, RunStatus::Completed)];
    fixture.log(submitted).await.record(events, vec![], vec![]).await.unwrap();
    (submitted, message)
}

#[tokio::test]
async fn a_reader_who_goes_on_and_one_who_starts_anew_hold_the_same() {
    let fixture = Fixture::new();
    let (alice, her) = (scope("alice"), principal("alice"));
    let mut along = Reader::default();
    assert_eq!(along.read(&fixture, 9).await, 0);
    let (submitted, said) = exchange(&fixture, Target::New(fixture.ids.thread())).await;
    assert_eq!((along.read(&fixture, 1).await, along.messages.len()), (2, 2));
    let row = add(&fixture, &alice, "one").await;
    let other = add(&fixture, &alice, "two").await;
    assert_eq!((along.read(&fixture, 9).await, along.texts()), (2, vec!["one", "two"]));
    let edit = MemoryEdit { text: Some("three".into()), kind: None };
    fixture.store.edit_memory(&her, row.id, edit, None).await.unwrap();
    assert_eq!((along.read(&fixture, 9).await, along.texts()), (1, vec!["three", "two"]));
    fixture.store.forget_memory(&her, other.id, None).await.unwrap();
    assert_eq!((along.read(&fixture, 9).await, along.texts(), along.tombstones), (2, vec!["three"], 1));
    fixture.store.restore_memory(&her, other.id, None).await.unwrap();
    assert_eq!(
        (along.read(&fixture, 9).await, along.texts(), along.tombstones),
        (2, vec!["three", "two"], 2)
    );
    put(&fixture, ItemRef::Message(said), 1).await;
    put(&fixture, ItemRef::Memory(row.id), 2).await;
    assert_eq!(along.read(&fixture, 9).await, 2);
    let expected = StoredVector { hash: [1; 16], vector: PackedVector::pack(&[1.0, 1.0]) };
    assert_eq!(along.messages[&said].1, Some(expected));
    let mut anew = Reader::default();
    anew.read(&fixture, 2).await;
    assert_eq!((&anew.memories, &anew.messages, anew.rev), (&along.memories, &along.messages, along.rev));
    let (kept, _) = exchange(&fixture, Target::New(fixture.ids.thread())).await;
    fixture.store.delete_thread(&her, submitted.thread, None).await.unwrap();
    along.read(&fixture, 9).await;
    let mut anew = Reader::default();
    anew.read(&fixture, 9).await;
    assert_eq!((anew.messages.len(), &anew.messages), (2, &along.messages));
    let head = along.rev;
    while fixture.store.purge(after(1), after(0)).await.unwrap() {}
    let mut purged = Reader::default();
    purged.read(&fixture, 9).await;
    assert!(purged.rev >= head, "the newest change never goes back");
    assert_eq!((&purged.messages, &purged.memories), (&along.messages, &along.memories));
    assert!(purged.messages.values().all(|(thread, _)| *thread == kept.thread));
}

#[tokio::test]
async fn a_message_is_told_with_the_event_that_holds_its_text() {
    let fixture = Fixture::new();
    let (submitted, answered) = exchange(&fixture, Target::New(fixture.ids.thread())).await;
    let rows = fixture.store.recall_changes(&scope("alice"), 0, None, 9).await.unwrap();
    let said: Vec<_> = rows
        .into_iter()
        .map(|row| match row.what {
            RecallItem::Message(said, None) => said,
            what @ (RecallItem::Memory(..)
            | RecallItem::Message(..)
            | RecallItem::Chunk(..)
            | RecallItem::DocumentGone(_)
            | RecallItem::ThreadGone(_)
            | RecallItem::Tombstones
            | RecallItem::Gone(_)) => panic!("{what:?}"),
        })
        .collect();
    assert_eq!(said[0].said.as_ref().map(|raw| raw.kind.as_str()), Some("message:user"));
    assert_eq!(said[1].said.as_ref().map(|raw| (raw.kind.as_str(), raw.seq)), Some(("stream:complete", 4)));
    assert_eq!((said[1].id, said[1].thread, said[1].seq), (answered, submitted.thread, 4));
    assert_eq!((said[0].role.name(), said[1].role.name(), said[1].at), ("user", "assistant", after(0)));
}

#[tokio::test]
async fn what_is_said_in_a_deleted_thread_is_not_recalled() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    let head = fixture.store.recall_head(&scope("alice")).await.unwrap();
    let message = fixture.ids.message();
    let events = vec![step_end(vec![]), answer(message), end(submitted.run, RunStatus::Cancelled)];
    log.record(events, vec![], vec![]).await.unwrap();
    put(&fixture, ItemRef::Message(message), 1).await;
    assert_eq!(fixture.store.recall_head(&scope("alice")).await.unwrap(), head);
    let rows = fixture.store.recall_changes(&scope("alice"), 0, None, 9).await.unwrap();
    let told: Vec<RecallItem> = rows.into_iter().map(|row| row.what).collect();
    let RecallItem::Gone(ItemRef::Message(_)) = told[0] else { panic!("{told:?}") };
    assert_eq!(told[1..], [RecallItem::ThreadGone(submitted.thread)]);
}

#[tokio::test]
async fn m1_nothing_of_another_scope_is_told_or_given_a_vector() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let elsewhere = Scope { app: AppId::new("other"), ..alice.clone() };
    let (_, message) = exchange(&fixture, Target::New(fixture.ids.thread())).await;
    let memory = add(&fixture, &alice, "hers").await;
    let head = fixture.store.recall_head(&alice).await.unwrap();
    for stranger in [&scope("mallory"), &elsewhere] {
        assert_eq!(fixture.store.recall_head(stranger).await.unwrap(), 0);
        assert_eq!(fixture.store.recall_changes(stranger, 0, None, 9).await.unwrap(), []);
        let vectors = vec![
            vector(ItemRef::Memory(memory.id), 6),
            vector(ItemRef::Message(message), 6),
            vector(ItemRef::Memory(fixture.ids.memory()), 6),
        ];
        fixture.store.put_vectors(stranger, MODEL, vectors).await.unwrap();
    }
    assert_eq!(fixture.store.recall_head(&alice).await.unwrap(), head);
    let count: i64 =
        fixture.database().query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
}

#[tokio::test]
async fn a_vector_goes_with_the_text_it_was_made_of() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let row = add(&fixture, &scope("alice"), "one").await;
    let item = ItemRef::Memory(row.id);
    let held = async || {
        let mut reader = Reader::default();
        reader.read(&fixture, 9).await;
        reader.memories.get(&row.id).and_then(|(_, vector)| vector.as_ref().map(|vector| vector.hash[0]))
    };
    put(&fixture, item, 1).await;
    put(&fixture, item, 2).await;
    fixture.store.put_vectors(&scope("alice"), "large", vec![vector(item, 9)]).await.unwrap();
    assert_eq!(held().await, Some(2), "the newest of the model that is asked for");
    let kind = MemoryEdit { text: None, kind: Some("place".into()) };
    fixture.store.edit_memory(&her, row.id, kind, None).await.unwrap();
    assert_eq!(held().await, Some(2));
    let text = MemoryEdit { text: Some("two".into()), kind: None };
    fixture.store.edit_memory(&her, row.id, text, None).await.unwrap();
    assert_eq!(held().await, None);
    put(&fixture, item, 3).await;
    fixture.store.forget_memory(&her, row.id, None).await.unwrap();
    put(&fixture, item, 4).await;
    let count: i64 =
        fixture.database().query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0, "nothing that was made of a forgotten text stays or comes");
    fixture.store.restore_memory(&her, row.id, None).await.unwrap();
    assert_eq!(held().await, None);
}

#[tokio::test]
async fn vectors_come_in_any_number_and_so_long() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let mut vectors = Vec::new();
    for number in 0..300 {
        let added = add(&fixture, &alice, &format!("x{number}")).await;
        vectors.push(vector(ItemRef::Memory(added.id), 1));
    }
    fixture.store.put_vectors(&alice, MODEL, vectors.clone()).await.unwrap();
    let mut reader = Reader::default();
    assert_eq!(reader.read(&fixture, 128).await, 300);
    assert!(reader.memories.values().all(|(_, vector)| vector.is_some()));
    let many = MAX_VECTOR_NUMBERS;
    for (numbers, good) in [(0, true), (1, true), (many, true), (many + 1, false)] {
        let long = NewVector { vector: PackedVector::pack(&vec![7.0; numbers]), ..vectors[0].clone() };
        let kept = fixture.store.put_vectors(&alice, MODEL, vec![long]).await;
        assert_eq!(kept.is_ok(), good, "{numbers} numbers");
        assert!(good || matches!(kept, Err(Error::Changed(_))));
    }
    fixture.store.put_vectors(&alice, MODEL, vec![]).await.unwrap();
}

#[tokio::test]
async fn one_read_is_bounded_in_items_and_bytes() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let fill = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_ITEMS_PER_READ} + 1)
         INSERT INTO items (app, user, kind, id) SELECT 'app', 'alice', 'memory', randomblob(16) FROM n"
    );
    fixture.database().execute(&fill, []).unwrap();
    let rows = fixture.store.recall_changes(&alice, 0, None, usize::MAX).await.unwrap();
    assert_eq!(rows.len(), MAX_ITEMS_PER_READ);
    assert!(rows.iter().all(|row| matches!(row.what, RecallItem::Gone(ItemRef::Memory(_)))));
    let bob = scope("bob");
    let many = MAX_ITEM_BYTES_PER_READ / (MAX_VECTOR_NUMBERS + 4) + 2;
    let mut vectors = Vec::new();
    for number in 0..many {
        let id = add(&fixture, &bob, &format!("x{number}")).await.id;
        let item = ItemRef::Memory(id);
        vectors.push(NewVector {
            item,
            hash: [0; 16],
            vector: PackedVector::pack(&[0.5; MAX_VECTOR_NUMBERS]),
        });
    }
    fixture.store.put_vectors(&bob, MODEL, vectors).await.unwrap();
    let first = fixture.store.recall_changes(&bob, 0, Some(MODEL), usize::MAX).await.unwrap();
    assert_eq!(first.len(), many - 1);
    let rest = fixture.store.recall_changes(&bob, first.last().unwrap().rev, Some(MODEL), 9).await.unwrap();
    assert_eq!(rest.len(), 1);
}

#[tokio::test]
async fn scopes_whose_vectors_are_missing_are_found() {
    let fixture = Fixture::new();
    let bob = scope("bob");
    let wanting = async |model: &str, limit| -> Vec<String> {
        let scopes = fixture.store.scopes_to_embed(model, None, limit).await.unwrap();
        scopes.into_iter().map(|scope| format!("{} {}", scope.app, scope.user)).collect()
    };
    assert!(wanting(MODEL, 9).await.is_empty());
    let (submitted, answered) = exchange(&fixture, Target::New(fixture.ids.thread())).await;
    let memory = add(&fixture, &bob, "bob's").await;
    assert_eq!(wanting(MODEL, 9).await, ["app alice", "app bob"]);
    assert_eq!(wanting(MODEL, 1).await, ["app alice"]);
    let next = fixture.store.scopes_to_embed(MODEL, Some(&scope("alice")), 1).await.unwrap();
    assert_eq!(next, [scope("bob")], "who comes behind");
    assert_eq!(fixture.store.scopes_to_embed(MODEL, Some(&scope("bob")), 9).await.unwrap(), []);
    put(&fixture, ItemRef::Message(answered), 1).await;
    assert_eq!(wanting(MODEL, 9).await, ["app alice", "app bob"], "the question has none");
    fixture.store.delete_thread(&principal("alice"), submitted.thread, None).await.unwrap();
    assert_eq!(wanting(MODEL, 9).await, ["app bob"]);
    fixture.store.put_vectors(&bob, MODEL, vec![vector(ItemRef::Memory(memory.id), 1)]).await.unwrap();
    assert!(wanting(MODEL, 9).await.is_empty());
    assert_eq!(wanting("large", 9).await, ["app bob"], "each model has its own");
    let edit = MemoryEdit { text: Some("new".into()), kind: None };
    fixture.store.edit_memory(&principal("bob"), memory.id, edit, None).await.unwrap();
    assert_eq!(wanting(MODEL, 9).await, ["app bob"]);
    fixture.store.forget_memory(&principal("bob"), memory.id, None).await.unwrap();
    assert!(wanting(MODEL, 9).await.is_empty());
}
