//! A database of an earlier version: brought up to date with what it holds.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::{Ids, KeyView, MemoryId, MemoryVersionView, Right, Rights, RunStatus, Usage};
use rusqlite::Connection;
use store::{ActionFilter, Error, NewMemoryRow, PageOf, RecallItem};
use testkit::still::CountingIds;

use crate::keys::new_key;
use crate::support::{Published, end, in_memory, open, principal, result, scope, step_end};

const FIRST: &str = include_str!("../../src/sqlite/migrations/0001_log.sql");
const SECOND: &str = include_str!("../../src/sqlite/migrations/0002_memories.sql");
const THIRD: &str = include_str!("../../src/sqlite/migrations/0003_ledger.sql");
const FOURTH: &str = include_str!("../../src/sqlite/migrations/0004_memory.sql");
const FIFTH: &str = include_str!("../../src/sqlite/migrations/0005_context.sql");

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
    // It is unknown how the last process ended, so what clients may have seen of the run under way is left out.
    assert_eq!((thread.title.as_deref(), thread.last_seq), (Some("kept"), 2 + 10_000));
    let ended = protocol::RunId::new(uuid::Uuid::from_u128(2));
    let ended = store.run(&alice, ended).await.unwrap();
    let before = Usage { input_tokens: 5, output_tokens: 6, ..Usage::default() };
    assert_eq!((ended.status, ended.usage), (RunStatus::Completed, before));
    assert_eq!(store.events(thread.id, None, 0).await.unwrap().len(), 1);
    store.log(&runs[0]).record(vec![step_end(vec![])], vec![], vec![]).await.unwrap();
    let day = store::day(protocol::Clock::now(&testkit::still::StandingClock));
    assert_eq!(store.usage_of_day(&scope("alice"), day).await.unwrap().total(), 7);
    let memory = NewMemoryRow {
        id: CountingIds::default().memory(),
        text: "x".into(),
        kind: "fact".into(),
        source: "user",
        sources: vec![],
        valid_from: None,
        created_at: None,
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
    let actions = store.actions(&alice, ActionFilter::default(), page).await.unwrap().rows;
    let known: Vec<_> = actions.into_iter().map(|row| (row.id, row.input)).collect();
    assert_eq!(known, [(call(4).into(), serde_json::Value::Null)]);
    let verified = store.verify_ledger().await.unwrap();
    assert_eq!((verified.entries, verified.faults), (1, vec![]));
    assert_eq!(store.active_memories(&scope("alice"), 9).await.unwrap().len(), 1);
}

/// Two memories, one forgotten, and three messages, one of them in a deleted thread.
const THIRD_DATA: &str = "
    INSERT INTO threads (id, app, user, next_seq, created_at, updated_at, deleted_at)
        VALUES (x'00000000000000000000000000000001', 'app', 'alice', 3, 0, 0, NULL),
               (x'00000000000000000000000000000002', 'app', 'alice', 2, 0, 0, 5);
    INSERT INTO runs (id, thread, app, user, message, status, created_at)
        SELECT id, id, app, user, id, 'queued', 0 FROM threads;
    INSERT INTO messages (id, thread, role, run, seq, created_at)
        VALUES (x'00000000000000000000000000000013', x'00000000000000000000000000000001', 'user',
                x'00000000000000000000000000000001', 1, 3),
               (x'00000000000000000000000000000012', x'00000000000000000000000000000001', 'assistant',
                x'00000000000000000000000000000001', 2, 4),
               (x'00000000000000000000000000000014', x'00000000000000000000000000000002', 'user',
                x'00000000000000000000000000000002', 1, 1);
    INSERT INTO memories (id, app, user, text, kind, status, access_count, last_accessed_at, source, created_at, updated_at)
        VALUES (x'00000000000000000000000000000021', 'app', 'alice', 'kept', 'fact', 'active', 3, 9, 'user', 7, 8),
               (x'00000000000000000000000000000022', 'app', 'alice', 'gone', 'fact', 'forgotten', 0, NULL, 'user', 7, 9);";

#[tokio::test]
async fn a_database_from_before_versions_has_first_ones_and_can_be_recalled() {
    let folder = tempfile::tempdir().unwrap();
    let old = Connection::open(folder.path().join("rondo.db")).unwrap();
    for sql in [FIRST, SECOND, THIRD, THIRD_DATA] {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 3).unwrap();
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let (alice, her) = (scope("alice"), principal("alice"));
    let id = |number| uuid::Uuid::from_u128(number);
    let told: Vec<_> = store
        .recall_changes(&alice, 0, None, 9)
        .await
        .unwrap()
        .into_iter()
        .map(|row| match row.what {
            RecallItem::Memory(row, None) => row.id.uuid(),
            RecallItem::Message(said, None) => said.id.uuid(),
            what @ (RecallItem::Memory(..)
            | RecallItem::Message(..)
            | RecallItem::Chunk(..)
            | RecallItem::DocumentGone(_)
            | RecallItem::ThreadGone(_)
            | RecallItem::Tombstones
            | RecallItem::Gone(_)) => panic!("{what:?}"),
        })
        .collect();
    assert_eq!(told, [id(0x13), id(0x12), id(0x21)], "what is there, in the order in which it came");
    let kept = MemoryId::new(id(0x21));
    let history = store.memory_history(&her, kept).await.unwrap();
    let row = &history.memory;
    assert_eq!((row.version, row.access_count, row.text.as_str()), (1, 3, "kept"));
    let reasons = |versions: &[MemoryVersionView]| -> Vec<(u64, String)> {
        versions.iter().map(|row| (row.version, row.reason.name().to_owned())).collect()
    };
    assert_eq!(reasons(&history.versions), [(1, "created".to_owned())]);
    assert_eq!(history.sources, []);
    let gone = MemoryId::new(id(0x22));
    let restored = store.restore_memory(&her, gone, None).await.unwrap();
    assert_eq!((restored.status.name(), restored.version), ("active", 2));
    let history = store.memory_history(&her, gone).await.unwrap();
    assert_eq!(reasons(&history.versions), [(1, "forgotten".to_owned()), (2, "restored".to_owned())]);
    store.forget_memory(&her, kept, None).await.unwrap();
    store.forget_memory(&her, gone, None).await.unwrap();
    let thread = protocol::ThreadId::new(id(1));
    assert_eq!(store.unextracted(thread, 9).await.unwrap().len(), 2);
    let stolen = Connection::open(folder.path().join("rondo.db")).unwrap();
    let stolen = stolen.execute("UPDATE memories SET user = 'mallory'", []).unwrap_err();
    assert!(stolen.to_string().contains("M1: a memory stays in its scope"));
}

/// Two memories of which recall was told, and a change that was the newest and is gone.
const FOURTH_DATA: &str = "
    INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
        VALUES (x'00000000000000000000000000000021', 'app', 'alice', 'one', 'fact', 'active', 'user', 7, 8),
               (x'00000000000000000000000000000022', 'app', 'alice', 'two', 'fact', 'active', 'user', 7, 9);
    INSERT INTO items (rev, app, user, kind, id) SELECT 40, app, user, 'memory', id FROM memories WHERE text = 'two';
    INSERT INTO items (app, user, kind, id) SELECT app, user, 'memory', id FROM memories WHERE text = 'one';
    INSERT INTO items (rev, app, user, kind, id) VALUES (90, 'app', 'alice', 'message', randomblob(16));
    DELETE FROM items WHERE rev = 90;";

#[tokio::test]
async fn a_database_from_before_documents_keeps_the_order_of_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let old = Connection::open(folder.path().join("rondo.db")).unwrap();
    for sql in [FIRST, SECOND, THIRD, FOURTH, FOURTH_DATA] {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 4).unwrap();
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let (alice, her) = (scope("alice"), principal("alice"));
    let revs = async || -> Vec<u64> {
        store.recall_changes(&alice, 0, None, 9).await.unwrap().into_iter().map(|row| row.rev).collect()
    };
    assert_eq!(revs().await, [40, 41]);
    let one = MemoryId::new(uuid::Uuid::from_u128(0x21));
    store.forget_memory(&her, one, None).await.unwrap();
    assert_eq!(revs().await, [40, 91, 92], "no number is used twice, also of what is gone");
    assert_ne!(store.secret().await.unwrap(), [0; 32]);
}

/// An action that was undone, the undo that did so, and one that was begun without a run.
const FIFTH_DATA: &str = "
    INSERT INTO actions VALUES
        (x'00000000000000000000000000000001', 'app', 'alice', x'00000000000000000000000000000011',
         x'00000000000000000000000000000012', 3, 'write', 'reversible', 'complete', '{\"a\":1}', '\"done\"',
         '[{\"what\":\"file\",\"path\":\"a.md\",\"before\":null,\"was\":0,\"version\":1}]', 5, 6,
         x'00000000000000000000000000000002', NULL, 1),
        (x'00000000000000000000000000000002', 'app', 'alice', NULL, NULL, NULL, 'undoAction', 'reversible', 'complete',
         '{}', '{}', NULL, 7, 0, NULL, x'00000000000000000000000000000001', 3),
        (x'00000000000000000000000000000003', 'app', 'alice', NULL, NULL, NULL, 'send', 'irreversible', 'started', '{}',
         NULL, NULL, 8, NULL, NULL, NULL, 6);";

#[tokio::test]
async fn a_database_from_before_undo_outside_keeps_its_actions_and_what_guards_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rondo.db");
    let old = Connection::open(&path).unwrap();
    for sql in [FIRST, SECOND, THIRD, FOURTH, FIFTH, FIFTH_DATA] {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 5).unwrap();
    let schema = |conn: &Connection| -> Vec<String> {
        let mut find = conn
            .prepare(
                "SELECT type || ' ' || sql FROM sqlite_schema WHERE tbl_name = 'actions' AND type <> 'table'
                AND sql IS NOT NULL ORDER BY name",
            )
            .unwrap();
        find.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let rows = |conn: &Connection| -> Vec<Vec<rusqlite::types::Value>> {
        let mut find = conn.prepare("SELECT * FROM actions ORDER BY id").unwrap();
        let row = |row: &rusqlite::Row<'_>| (0..17).map(|column| row.get(column)).collect();
        find.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let before = (schema(&old), rows(&old));
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let conn = Connection::open(&path).unwrap();
    assert_eq!(rows(&conn), before.1);
    let (kept, new): (Vec<_>, Vec<_>) = schema(&conn).into_iter().partition(|sql| before.0.contains(sql));
    assert_eq!(kept, before.0);
    assert!(new.iter().any(|sql| sql.contains("INDEX actions_undo ")), "{new:?}");
    let begun: Vec<_> = store.begun_actions().await.unwrap().into_iter().map(|row| row.tool).collect();
    assert_eq!(begun, ["send"]);
    let again = |status: &str| {
        let undo_of = "x'00000000000000000000000000000001'";
        let values = format!("'app', 'alice', 'undo', 'reversible', '{status}', 9, {undo_of}");
        let columns = "id, app, user, tool, effect, status, started_at, undo_of, position";
        let next = "(SELECT max(position) + 1 FROM actions)";
        conn.execute(&format!("INSERT INTO actions ({columns}) SELECT randomblob(16), {values}, {next}"), [])
    };
    for (status, free) in [
        ("failed", true),
        ("failed", true),
        ("denied", true),
        ("cancelled", true),
        ("started", false),
        ("complete", false),
        ("unknown", false),
    ] {
        assert_eq!(again(status).is_ok(), free, "{status}");
    }
}

/// The migrations between the fifth and the one that gives keys their rights.
const LATER: [&str; 7] = [
    include_str!("../../src/sqlite/migrations/0006_outside.sql"),
    include_str!("../../src/sqlite/migrations/0007_limits.sql"),
    include_str!("../../src/sqlite/migrations/0008_proof.sql"),
    include_str!("../../src/sqlite/migrations/0009_bounds.sql"),
    include_str!("../../src/sqlite/migrations/0010_shares_and_erasure.sql"),
    include_str!("../../src/sqlite/migrations/0011_same_memory.sql"),
    include_str!("../../src/sqlite/migrations/0012_deltas.sql"),
];

/// A key of a user, a key of an admin, and a revoked one.
const TWELFTH_DATA: &str = "
    INSERT INTO keys (id, hash, user, app, admin, created_at, revoked_at, made_by, revoked_by)
        VALUES (x'00000000000000000000000000000001', zeroblob(32), 'ann', 'app', 0, 5, NULL, NULL, NULL),
               (x'00000000000000000000000000000002', randomblob(32), 'olga', NULL, 1, 6, NULL, 'local', NULL),
               (x'00000000000000000000000000000003', randomblob(32), 'bob', NULL, 0, 7, 8, 'olga', 'olga');";

#[tokio::test]
async fn a_database_from_before_rights_keeps_its_keys_and_what_they_allow() {
    let folder = tempfile::tempdir().unwrap();
    let old = Connection::open(folder.path().join("rondo.db")).unwrap();
    for sql in [FIRST, SECOND, THIRD, FOURTH, FIFTH].into_iter().chain(LATER).chain([TWELFTH_DATA, DATA]) {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 12).unwrap();
    drop(old);
    let store = open(folder.path(), Arc::new(Published::default())).unwrap();
    let at = |millis| Timestamp::from_millisecond(millis).unwrap();
    let user =
        KeyView { created_at: at(5), made_by: None, ..new_key(uuid::Uuid::from_u128(1), "ann", Some("app")) };
    let admin = KeyView {
        admin: true,
        rights: Rights::USER.with(Right::Admin),
        created_at: at(6),
        made_by: Some("local".into()),
        ..new_key(uuid::Uuid::from_u128(2), "olga", None)
    };
    let revoked = KeyView {
        created_at: at(7),
        revoked_at: Some(at(8)),
        revoked_by: Some("olga".into()),
        ..new_key(uuid::Uuid::from_u128(3), "bob", None)
    };
    let keys = store.keys(None, PageOf { after: None, limit: 9 }).await.unwrap();
    assert_eq!(keys.rows, [user.clone(), admin, revoked]);
    assert_eq!(store.key_by_hash([0; 32]).await.unwrap(), Some(user));
    assert!(store.has_good_keys(at(9)).await.unwrap());
    let audited = store::sqlite::audit(folder.path()).unwrap();
    assert!(!audited.findings.iter().any(|finding| finding.starts_with("the audit of admins")));
    let runs = store.adopt().await.unwrap();
    assert_eq!(runs[0].actor, None);
}

/// Wherever a migration is cut, the next start finds the schema from before one of its steps, and continues (D5).
#[tokio::test]
async fn a_migration_that_is_cut_anywhere_is_made_good_by_the_next_start() {
    for version in 1..=testkit::earlier::VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        testkit::earlier::database(folder.path(), version, 3);
        let before = std::fs::read(folder.path().join("rondo.db")).unwrap();
        let store = open(folder.path(), Arc::new(Published::default())).unwrap();
        let wal = std::fs::read(folder.path().join("rondo.db-wal")).unwrap();
        drop(store);
        // A frame is a page of 4096 bytes and a header of 24.
        let cuts =
            (0..wal.len()).step_by(4120 * wal.len().div_ceil(4120 * 24)).flat_map(|at| [at, at + 2000]);
        for cut in cuts.chain([wal.len()]) {
            let image = in_memory();
            std::fs::write(image.path().join("rondo.db"), &before).unwrap();
            std::fs::write(image.path().join("rondo.db-wal"), &wal[..cut.min(wal.len())]).unwrap();
            let store = open(image.path(), Arc::new(Published::default())).unwrap();
            let audited = store::sqlite::audit(image.path()).unwrap();
            assert_eq!(audited.findings, [""; 0], "version {version}, cut at {cut} of {}", wal.len());
            assert_eq!((audited.threads, audited.runs), (3, 6), "version {version}, cut at {cut}");
            drop(store);
        }
    }
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
    assert!(newest >= 6);
    drop(open(folder.path(), Arc::new(Published::default())).unwrap());
    assert_eq!(version(), newest);
    let conn = Connection::open(folder.path().join("rondo.db")).unwrap();
    conn.pragma_update(None, "user_version", newest + 1).unwrap();
    let Err(Error::TooNew { found, known }) = open(folder.path(), Arc::new(Published::default())) else {
        panic!("a database of the future was opened");
    };
    assert_eq!((found, known), (newest + 1, newest));
}
