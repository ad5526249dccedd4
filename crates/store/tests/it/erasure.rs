//! A deleted thing is erased everywhere: at once if by hand, when its time for an undo is over if by a tool; and the
//! file gives its space back.

use std::sync::Arc;

use protocol::{CallId, Effect, Ids, RunStatus};
use serde_json::{Value, json};
use store::{Error, NewText, RunLog, Target, Write, source};

use crate::support::{Fixture, Forward, after, call, end, principal, result, scope, start, step_end};

async fn run_with_calls(fixture: &Fixture, count: usize) -> (RunLog, Vec<CallId>) {
    let (_, log) = fixture.run().await;
    let calls: Vec<CallId> = (0..count).map(|_| fixture.ids.call()).collect();
    log.record(vec![step_end(calls.iter().copied().map(call).collect())], vec![], vec![]).await.unwrap();
    (log, calls)
}

async fn act(log: &RunLog, id: CallId, write: Write) {
    log.record(vec![start(id, "echo", Effect::Reversible)], vec![], vec![]).await.unwrap();
    log.record(vec![result(id, "done")], vec![], vec![write]).await.unwrap();
}

fn file(content: Option<&str>, expected: u64) -> Write {
    Write::File { path: "a.md".into(), content: content.map(str::to_owned), expected }
}

async fn undo(fixture: &Fixture, id: CallId) -> Result<(), String> {
    let by = store::NewAction {
        id: fixture.ids.action(),
        tool: "undoAction".into(),
        effect: Effect::Idempotent,
        input: json!({}),
        actor: None,
    };
    match fixture.store.undo(&principal("alice"), id.into(), by, None).await {
        Ok(_) => Ok(()),
        Err(Error::Changed(reason)) => Err(reason),
        Err(error) => panic!("{error}"),
    }
}

/// Rows that hold the word, in any column that could.
fn rows_with(fixture: &Fixture, word: &str) -> i64 {
    let counts = [
        ("actions", "coalesce(input, '') || coalesce(output, '') || coalesce(changes, '')"),
        ("ledger_payloads", "payload"),
        ("files", "coalesce(content, '')"),
        ("records", "coalesce(data, '')"),
    ];
    let count = |(table, text): &(&str, &str)| -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE {text} LIKE '%{word}%'");
        fixture.database().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    counts.iter().map(count).sum()
}

/// Returns the output of a call, as a list of actions shows it.
async fn output(fixture: &Fixture, id: CallId) -> Value {
    fixture.store.action(&principal("alice"), id.into()).await.unwrap().output
}

async fn sweep(fixture: &Fixture, undo_before: i64) {
    while fixture.store.erase(after(undo_before)).await.unwrap() {}
    while fixture.store.tidy().await.unwrap() {}
}

#[tokio::test]
async fn what_a_tool_deleted_comes_back_until_its_time_is_over() {
    let clock = Arc::new(Forward::default());
    let fixture = Fixture::by(clock.clone());
    let (log, calls) = run_with_calls(&fixture, 3).await;
    act(&log, calls[0], file(Some("quokka"), 0)).await;
    act(&log, calls[1], file(None, 1)).await;
    clock.to(100);
    sweep(&fixture, -1).await;
    undo(&fixture, calls[1]).await.expect("its time is not over");
    sweep(&fixture, 100).await;
    assert!(rows_with(&fixture, "quokka") > 0, "it is there again, and so is what was done to it");
    let version = fixture.store.file_version(&scope("alice"), "a.md").await.unwrap();
    act(&log, calls[2], file(None, version)).await;
    sweep(&fixture, 99).await;
    assert!(rows_with(&fixture, "quokka") > 0, "deleted at 100");
    sweep(&fixture, 100).await;
    assert_eq!(rows_with(&fixture, "quokka"), 0);
    let refused = undo(&fixture, calls[2]).await.unwrap_err();
    assert!(refused.contains("was erased"), "{refused}");
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn what_the_user_deleted_is_erased_at_once_and_what_came_after_stays() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let (log, calls) = run_with_calls(&fixture, 2).await;
    act(&log, calls[0], file(Some("quokka"), 0)).await;
    fixture.store.put_file(&alice, file(None, 1), None).await.unwrap();
    act(&log, calls[1], file(Some("wombat"), 2)).await;
    let refused = undo(&fixture, calls[0]).await.unwrap_err();
    assert!(refused.contains("changed since"), "{refused}");
    assert_eq!(output(&fixture, calls[0]).await, json!("done"), "its event tells it");
    sweep(&fixture, -1).await;
    assert_eq!(output(&fixture, calls[0]).await, Value::Null, "the event is there, and nobody looks at it");
    assert_eq!(output(&fixture, calls[1]).await, json!("done"));
    assert_eq!(rows_with(&fixture, "quokka"), 0);
    let refused = undo(&fixture, calls[0]).await.unwrap_err();
    assert!(refused.contains("was erased"), "{refused}");
    undo(&fixture, calls[1]).await.expect("the file was made anew after that");
    assert_eq!(fixture.store.verify_ledger().await.unwrap().faults, Vec::<String>::new());
    assert!(!fixture.store.erase(after(-1)).await.unwrap(), "nothing is left to do");
}

#[tokio::test]
async fn words_of_a_deleted_record_leave_the_index() {
    let fixture = Fixture::new();
    let alice = scope("alice");
    let part = |name: &str| {
        let id = fixture.ids.record();
        (id, Write::Record { id, kind: "part".into(), data: Some(json!({ "name": name })), expected: 0 })
    };
    for number in 0..20 {
        fixture.store.put_record(&alice, part(&format!("stays{number}")).1, None).await.unwrap();
    }
    let (gone, write) = part("quokkaquokka");
    fixture.store.put_record(&alice, write, None).await.unwrap();
    let write = Write::Record { id: gone, kind: "part".into(), data: None, expected: 1 };
    fixture.store.put_record(&alice, write, None).await.unwrap();
    sweep(&fixture, -1).await;
    let blocks: Vec<Vec<u8>> = {
        let database = fixture.database();
        let mut find = database.prepare("SELECT block FROM records_text_data").unwrap();
        find.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let held = blocks.iter().any(|block| block.windows(6).any(|part| part == b"quokka"));
    assert!(!held, "a word of what is gone is still in the index");
    let query = store::RecordQuery { text: Some("stays7".into()), ..Default::default() };
    let page = store::PageOf { after: None, limit: 9 };
    assert_eq!(fixture.store.records(&alice, "part", query, page).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn a_profile_that_changes_leaves_no_prompt_with_what_it_was() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let everywhere = principal("alice").scope(protocol::AppId::new(""));
    let said =
        |version| store::ProfileRow { name: Some(format!("v{version}")), version, ..Default::default() };
    let keep = async |version: u64| {
        let text = NewText { source: source::of_profile(version), hash: [1; 16], text: "Alice".into() };
        let loaded = protocol::Event::ContextLoaded(protocol::ContextLoaded::default());
        log.record(vec![loaded], vec![], vec![Write::Keep(text)]).await.unwrap();
    };
    let kept = async |version: u64| {
        let named = [(source::of_profile(version), [1; 16])];
        fixture.store.texts(&scope("alice"), &named).await.unwrap()[0].is_some()
    };
    fixture.store.put_profile(&everywhere, said(0), None).await.unwrap();
    keep(1).await;
    assert!(kept(1).await);
    fixture.store.put_profile(&everywhere, said(1), None).await.unwrap();
    assert!(!kept(1).await);
    keep(1).await;
    assert!(!kept(1).await, "a run that began before does not bring it back");
    keep(2).await;
    assert!(kept(2).await);
}

#[tokio::test]
async fn the_file_gives_back_what_deleted_threads_took() {
    let fixture = Fixture::new();
    let her = principal("alice");
    let submitted = fixture.submit(Target::New(fixture.ids.thread())).await;
    let log = fixture.log(submitted).await;
    for _ in 0..40 {
        let text = "quokka ".repeat(20_000);
        let step = protocol::StepReset { step: 1, reason: text, model: None, usage: None };
        log.record(vec![protocol::Event::StepReset(step)], vec![], vec![]).await.unwrap();
    }
    log.record(vec![end(submitted.run, RunStatus::Failed)], vec![], vec![]).await.unwrap();
    fixture.store.delete_thread(&her, submitted.thread, None).await.unwrap();
    while fixture.store.purge(after(0), after(0)).await.unwrap() {}
    sweep(&fixture, -1).await;
    let Fixture { store, folder, .. } = fixture;
    drop((log, store));
    let lock = std::fs::File::open(folder.path().join("lock")).unwrap();
    tokio::task::spawn_blocking(move || lock.lock().unwrap()).await.unwrap();
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
    assert!(size("rondo.db") < 2 * 1024 * 1024, "{} bytes", size("rondo.db"));
    assert_eq!(size("rondo.db-wal"), 0);
    let bytes = std::fs::read(folder.path().join("rondo.db")).unwrap();
    assert!(!bytes.windows(6).any(|part| part == b"quokka"));
}

/// The schema as it was before texts named what they come from.
const BEFORE: [&str; 8] = [
    include_str!("../../src/sqlite/migrations/0001_log.sql"),
    include_str!("../../src/sqlite/migrations/0002_memories.sql"),
    include_str!("../../src/sqlite/migrations/0003_ledger.sql"),
    include_str!("../../src/sqlite/migrations/0004_memory.sql"),
    include_str!("../../src/sqlite/migrations/0005_context.sql"),
    include_str!("../../src/sqlite/migrations/0006_outside.sql"),
    include_str!("../../src/sqlite/migrations/0007_limits.sql"),
    include_str!("../../src/sqlite/migrations/0008_proof.sql"),
];

/// A thread whose prompt was made of instructions, and texts of users: of these instructions, of ones that no prompt has,
/// and of a profile.
const BEFORE_DATA: &str = r#"
    INSERT INTO threads (id, app, user, next_seq, created_at, updated_at)
        VALUES (x'00000000000000000000000000000001', 'app', 'alice', 2, 0, 0);
    INSERT INTO runs (id, thread, app, user, message, status, model, created_at)
        VALUES (x'00000000000000000000000000000002', x'00000000000000000000000000000001', 'app', 'alice',
                randomblob(16), 'running', 'm', 0);
    INSERT INTO events VALUES (x'00000000000000000000000000000001', 2, x'00000000000000000000000000000002',
        'context:loaded', 0, '{"parts":[{"source":"app_r","hash":"00000000000000000000000000000007"}]}');
    UPDATE threads SET next_seq = 3;
    INSERT INTO texts VALUES
        ('app', 'alice', 'app_r', x'00000000000000000000000000000007', 'Be kind.'),
        ('app', 'bob', 'app_r', x'00000000000000000000000000000007', 'Be kind.'),
        ('app', 'bob', 'app_q', x'00000000000000000000000000000008', 'Be brief.'),
        ('app', 'alice', 'user_alice', x'00000000000000000000000000000009', 'Lives in Oslo.');
    INSERT INTO snapshots VALUES (x'00000000000000000000000000000001',
        '[{"text":"Identity:"},{"memory":"mem_00000000000000000000000000000021","text":"- tea"}]', 5);
    INSERT INTO actions (id, app, user, tool, effect, status, input, output, changes, started_at, position) VALUES
        (x'00000000000000000000000000000031', 'app', 'alice', 'write', 'reversible', 'complete', '{}', '{}',
         '[{"what":"file","path":"a.md","before":null,"was":0,"version":1}]', 0, 1);"#;

#[tokio::test]
async fn a_database_from_before_keeps_instructions_once_and_finds_what_its_actions_changed() {
    let folder = tempfile::tempdir().unwrap();
    let old = rusqlite::Connection::open(folder.path().join("rondo.db")).unwrap();
    for sql in BEFORE.iter().chain([&BEFORE_DATA]) {
        old.execute_batch(sql).unwrap();
    }
    old.pragma_update(None, "user_version", 8).unwrap();
    drop(old);
    let published = Arc::new(crate::support::Published::default());
    let store = crate::support::open(folder.path(), published).unwrap();
    let conn = rusqlite::Connection::open(folder.path().join("rondo.db")).unwrap();
    let all = |sql: &str| -> Vec<String> {
        let mut find = conn.prepare(sql).unwrap();
        find.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(all("SELECT user || ':' || source || ':' || body FROM texts"), [":app_r:Be kind."]);
    assert_eq!(all("SELECT source FROM text_uses"), ["app_r"]);
    assert_eq!(all("SELECT thing FROM action_things"), ["file:a.md"]);
    let named = [("app_r".to_owned(), 7_u128.to_be_bytes())];
    assert_eq!(store.texts(&scope("bob"), &named).await.unwrap(), [Some("Be kind.".to_owned())]);
    let thread = protocol::ThreadId::new(uuid::Uuid::from_u128(1));
    let lines = store.snapshot(&scope("alice"), thread).await.unwrap().unwrap();
    let lines: Vec<(String, String)> = lines.into_iter().map(|line| (line.source, line.text)).collect();
    let memory = "mem_00000000000000000000000000000021".to_owned();
    assert_eq!(lines, [(thread.to_string(), "Identity:".into()), (memory, "- tea".into())]);
}

#[tokio::test]
async fn a_database_that_is_written_anew_holds_nothing_that_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rondo.db");
    {
        // As an older server has left it: no page is given back, and nothing is written over.
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(
            "PRAGMA secure_delete = OFF; PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL;",
        )
        .unwrap();
        for sql in BEFORE {
            old.execute_batch(sql).unwrap();
        }
        old.pragma_update(None, "user_version", 8).unwrap();
        let text = "quokka ".repeat(20_000);
        for number in 0..8_u8 {
            let insert = "INSERT INTO texts VALUES ('app', 'alice', 'x', ?1, ?2)";
            old.execute(insert, rusqlite::params![[number; 16], text]).unwrap();
        }
        old.execute("DELETE FROM texts", []).unwrap();
    }
    let holds = || std::fs::read(&path).unwrap().windows(6).any(|part| part == b"quokka");
    assert!(holds());
    let (before, now) = store::sqlite::compact(folder.path()).unwrap();
    assert!(now < before && now == std::fs::metadata(&path).unwrap().len(), "{before} {now}");
    assert!(!holds());
    let conn = rusqlite::Connection::open(&path).unwrap();
    let mode: i64 = conn.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap();
    assert_eq!(mode, 2, "from now on it gives pages back by itself");
    drop(conn);
    let published = Arc::new(crate::support::Published::default());
    let store = crate::support::open(folder.path(), published).unwrap();
    assert!(store::sqlite::compact(folder.path()).is_err(), "somebody uses it");
    drop(store);
}
