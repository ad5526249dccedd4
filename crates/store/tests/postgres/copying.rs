//! All data moves from SQLite to PostgreSQL and back, and nothing changes on the way.

use std::path::Path;
use std::sync::Arc;

use protocol::{Ids as _, RunStatus};
use store::copy::{CopyOutcome, StorePlace, copy};
use store::postgres::PostgresAddress;
use store::{
    Error, ItemRef, NewMemoryRow, NewVector, PackedVector, Store, StoreOptions, Target, inspection, sqlite,
};
use testkit::still::StandingClock;

use crate::support::{Fixture, Published, answer, end, principal, scope, step_end};
use crate::{address, open};

const MODEL: &str = "small";

/// Copies that are made before a store must have closed.
const MAX_COPIES: usize = 200;

/// An address with a schema of its own.
fn schema(name: &str) -> PostgresAddress {
    format!("{}?schema={name}_{}", address(), std::process::id()).parse().unwrap()
}

fn open_folder(folder: &Path) -> Store {
    let published = Arc::new(Published::default());
    Store::open_sqlite(folder, Arc::new(StandingClock), published, StoreOptions::default()).unwrap()
}

/// Conversations, memories with vectors, and texts with a character that PostgreSQL does not have.
async fn fill(store: &Store, fixture: &Fixture, rounds: u16) {
    let ids = &fixture.ids;
    for round in 0..rounds {
        let submission = fixture.submission(Target::New(ids.thread()));
        let run = submission.run;
        store.submit(submission).await.unwrap();
        let row = store.run(&principal("alice"), run).await.unwrap();
        let events = vec![step_end(vec![]), answer(ids.message()), end(run, RunStatus::Completed)];
        store.log(&row).record(events, vec![], vec![]).await.unwrap();
        let id = ids.memory();
        let memory = NewMemoryRow {
            id,
            text: format!("fact {id} with ü, 漢字 and \u{0}"),
            kind: "fact".into(),
            source: "user",
            sources: vec![],
            valid_from: None,
            created_at: None,
        };
        store.add_memory(&scope("alice"), memory, None).await.unwrap();
        let numbers: Vec<f32> = (0..384u16).map(|place| f32::from(place + round).sin()).collect();
        let item = ItemRef::Memory(id);
        let vector = NewVector { item, hash: [7; 16], vector: PackedVector::pack(&numbers) };
        store.put_vectors(&scope("alice"), MODEL, vec![vector]).await.unwrap();
    }
}

fn copied(from: &StorePlace, to: &StorePlace) -> CopyOutcome {
    let mut last = None;
    let outcome = copy(from, to, |progress| last = Some(progress)).unwrap();
    assert_eq!(outcome.audited.findings, [""; 0]);
    let last = last.unwrap();
    assert_eq!((last.rows, last.of), (outcome.rows() * 2, outcome.rows() * 2));
    outcome
}

/// Copies until the store that was dropped has closed its database.
fn copied_at_rest(from: &StorePlace, to: &StorePlace) -> CopyOutcome {
    let mut changed = 0;
    for _ in 0..MAX_COPIES {
        let outcome = copied(from, to);
        changed += outcome.changed_rows();
        if !outcome.was_in_use {
            assert!(changed > 0);
            return outcome;
        }
    }
    panic!("the store is not closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_data_move_to_postgresql_and_back() {
    let fixture = Fixture::new();
    let folders = tempfile::tempdir().unwrap();
    let (here, back) = (folders.path().join("here"), folders.path().join("back"));
    let there = schema("moved");
    let (from, to) = (StorePlace::Folder(here.clone()), StorePlace::Postgres(there.clone()));

    let store = open_folder(&here);
    fill(&store, &fixture, 20).await;
    let first = copied(&from, &to);
    assert!(first.was_in_use && first.changed_rows() == first.rows());

    // Rows that have changed since are copied once the server has stopped.
    fill(&store, &fixture, 3).await;
    drop(store);
    let second = copied_at_rest(&from, &to);
    assert!(second.rows() > first.rows());
    assert!(second.changed_rows() < first.rows() / 2, "{} of {}", second.changed_rows(), second.rows());
    assert_eq!(copied(&from, &to).changed_rows(), 0);
    assert_eq!(inspection::file_log(&here).unwrap(), inspection::postgres_log(&there).unwrap());

    // A server continues there.
    let store = open(&there);
    assert_eq!(store.recall_changes(&scope("alice"), 0, Some(MODEL), 9).await.unwrap().len(), 9);
    fill(&store, &fixture, 5).await;
    drop(store);
    let refused = copy(&from, &to, |_| {}).unwrap_err();
    assert!(
        matches!(&refused, Error::Unusable(why) if why.contains("has rows that are not from a copy")),
        "{refused}"
    );

    // And back again.
    copied_at_rest(&to, &StorePlace::Folder(back.clone()));
    assert_eq!(inspection::file_log(&back).unwrap(), inspection::postgres_log(&there).unwrap());
    let store = open_folder(&back);
    fill(&store, &fixture, 2).await;
    let memories = store.recall_changes(&scope("alice"), 0, Some(MODEL), 1_000).await.unwrap();
    assert!(memories.len() >= 30);
    drop(store);
    assert_eq!(sqlite::audit(&back).unwrap().findings, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_does_not_start_on_a_copy_that_was_cut() {
    let fixture = Fixture::new();
    let folders = tempfile::tempdir().unwrap();
    let (from, there) = (StorePlace::Folder(folders.path().to_owned()), schema("unfinished"));
    let store = open_folder(folders.path());
    fill(&store, &fixture, 5).await;
    let to = StorePlace::Postgres(there.clone());
    // The process that copies dies in the middle.
    let cut = copy(&from, &to, |progress| assert!(progress.rows < 40));
    assert!(matches!(cut, Err(Error::Closed)));
    let published = Arc::new(Published::default());
    let opened = Store::open_postgres(&there, Arc::new(StandingClock), published, StoreOptions::default());
    let why = opened.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(why.contains("run `rondo copy` again"), "{why}");
    let outcome = copied(&from, &to);
    assert!(outcome.was_in_use);
    let thread = store.titles(&scope("alice")).await.unwrap();
    drop(store);
    let store = open(&there);
    assert_eq!(store.titles(&scope("alice")).await.unwrap(), thread);
    assert!(store.memory_is_off(&scope("alice")).await.is_ok_and(|off| !off));
}

/// A server with another vault key could not decrypt the credentials of the copy. A server that is refused has changed
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_knows_the_vault_key_of_its_source() {
    let (here, there) = (schema("key_here"), schema("key_there"));
    let open_with = |address: &PostgresAddress, vault: &str| {
        let options = StoreOptions { vault: Some(vault.to_owned()), ..StoreOptions::default() };
        Store::open_postgres(address, Arc::new(StandingClock), Arc::new(Published::default()), options)
    };
    let store = open_with(&here, "its key").unwrap();
    store.put_credential(&scope("alice"), "mail", b"sealed".to_vec(), None).await.unwrap();
    drop(store);
    let (from, to) = (StorePlace::Postgres(here), StorePlace::Postgres(there.clone()));
    copied_at_rest(&from, &to);
    let refusal = open_with(&there, "another key").map(drop).unwrap_err().to_string();
    assert!(refusal.contains("another vault key has encrypted"), "{refusal}");
    assert_eq!(copied(&from, &to).changed_rows(), 0);
    drop(open_with(&there, "its key").unwrap());
}
