//! A database of an earlier version: brought up to date with what it holds.

use std::sync::Arc;

use protocol::{Ids, RunStatus, Usage};
use rusqlite::Connection;
use store::{
    ActionFilter, Actions, Error, Log, Maintenance, Memories, NewMemory, PageOf, Runs, Threads, Usages,
};
use testkit::still::CountingIds;

use crate::support::{Published, end, open, principal, result, scope, step_end};

const FIRST: &str = include_str!("../../src/sqlite/migrations/0001_log.sql");
const SECOND: &str = include_str!("../../src/sqlite/migrations/0002_memories.sql");

/// One thread with a run that has ended and one that is under way.
const DATA: &str = "
    INSERT INTO threads (id, app, user, title, next_seq, created_at, updated_at)
        VALUES (x'00000000000000000000000000000001', 'app', 'alice', 'kept', 2, 0, 0);
    INSERT INTO runs (id, thread, app, user, message, status, model, input_tokens, output_tokens, created_at)
        VALUES (x'00000000000000000000000000000002', x'00000000000000000000000000000001', 'app', 'alice',
                randomblob(16), 'running', 'm', 5, 6, 0);
    INSERT INTO events VALUES (x'00000000000000000000000000000001', 1 + 1,
        x'00000000000000000000000000000002', 'run:end', 0, '{}');
    UPDATE runs SET status = 'completed', ended_at = 1, end_seq = 2;
    UPDATE threads SET next_seq = 3;
    INSERT INTO runs (id, thread, app, user, message, status, model, created_at)
        VALUES (x'00000000000000000000000000000003', x'00000000000000000000000000000001', 'app', 'alice',
                randomblob(16), 'running', 'm', 1);";

#[tokio::test]
async fn a_database_of_the_first_version_keeps_what_it_holds_and_takes_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let old = Connection::open(folder.path().join("rondo.db")).unwrap();
    old.execute_batch(FIRST).unwrap();
    old.execute_batch(DATA).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let alice = principal("alice");
    let runs = store.adopt().await.unwrap();
    let thread = store.thread(&alice, runs[0].thread).await.unwrap();
    assert_eq!((thread.title.as_deref(), thread.last_seq), (Some("kept"), 2));
    let ended = protocol::RunId::new(uuid::Uuid::from_u128(2));
    let ended = store.run(&alice, ended).await.unwrap();
    let before = Usage { input_tokens: 5, output_tokens: 6, ..Usage::default() };
    assert_eq!((ended.status, ended.usage), (RunStatus::Completed, before));
    assert_eq!(store.events(thread.id, None, 0).await.unwrap().len(), 1);
    store.log(&runs[0]).record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let day = store::day(protocol::Clock::now(&testkit::still::StandingClock));
    assert_eq!(store.usage_of_day(&scope("alice"), day).await.unwrap().total(), 7);
    let memory = NewMemory {
        id: CountingIds::default().memory(),
        text: "x".into(),
        kind: "fact".into(),
        source: "user",
    };
    store.add_memory(&scope("alice"), memory, None).await.unwrap();
}

/// A run of the second version that was cut while a tool of it ran.
const SECOND_DATA: &str = "
    INSERT INTO threads (id, app, user, next_seq, created_at, updated_at)
        VALUES (x'00000000000000000000000000000001', 'app', 'alice', 2, 0, 0);
    INSERT INTO runs (id, thread, app, user, message, status, start_seq, created_at)
        VALUES (x'00000000000000000000000000000002', x'00000000000000000000000000000001', 'app', 'alice',
                randomblob(16), 'running', 1, 0);
    INSERT INTO events VALUES (x'00000000000000000000000000000001', 2, x'00000000000000000000000000000002',
        'step:end', 0, '{}');
    UPDATE threads SET next_seq = 3;
    INSERT INTO tool_calls VALUES (x'00000000000000000000000000000003', x'00000000000000000000000000000002', 1, 0,
        'a', 'echo', 2), (x'00000000000000000000000000000004', x'00000000000000000000000000000002', 1, 1, 'b', 'echo', 2);
    INSERT INTO tool_results VALUES (x'00000000000000000000000000000003', x'00000000000000000000000000000002',
        'complete', 2);
    INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
        VALUES (randomblob(16), 'app', 'alice', 'kept', 'fact', 'active', 'user', 0, 0);";

#[tokio::test]
async fn a_database_from_before_the_ledger_goes_on_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let old = Connection::open(folder.path().join("rondo.db")).unwrap();
    for sql in [FIRST, SECOND, SECOND_DATA] {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 2).unwrap();
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let runs = store.adopt().await.unwrap();
    let log = store.log(&runs[0]);
    let call = |number| protocol::CallId::new(uuid::Uuid::from_u128(number));
    let late = log.record(vec![result(call(3), "again")], vec![], vec![]).await.unwrap();
    assert_eq!(late, [false]);
    let ended = vec![result(call(4), "done"), end(runs[0].id, RunStatus::Completed)];
    log.record(ended, vec![], vec![]).await.unwrap();
    let (alice, page) = (scope("alice"), PageOf { after: None, limit: 9 });
    let actions = store.actions(&alice, ActionFilter::default(), page).await.unwrap();
    let known: Vec<_> = actions.into_iter().map(|row| (row.id, row.input)).collect();
    assert_eq!(known, [(call(4).into(), serde_json::Value::Null)]);
    let verified = store.verify_ledger().await.unwrap();
    assert_eq!((verified.entries, verified.faults), (1, vec![]));
    assert_eq!(store.active_memories(&scope("alice"), 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn opening_twice_changes_nothing_and_a_newer_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let version = || {
        let conn = Connection::open(folder.path().join("rondo.db")).unwrap();
        conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap()
    };
    drop(open(folder.path(), Arc::new(Published::default())).unwrap());
    let newest = version();
    assert!(newest >= 3);
    drop(open(folder.path(), Arc::new(Published::default())).unwrap());
    assert_eq!(version(), newest);
    let conn = Connection::open(folder.path().join("rondo.db")).unwrap();
    conn.pragma_update(None, "user_version", newest + 1).unwrap();
    let Err(Error::TooNew { found, known }) = open(folder.path(), Arc::new(Published::default())) else {
        panic!("a database of the future was opened");
    };
    assert_eq!((found, known), (newest + 1, newest));
}
