//! The ledger's chains: every change by another program is found.

use protocol::{Effect, Ids};
use rusqlite::Connection;
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{NewAction, Verified};

use crate::actions::{act, action, file, record, run_with_calls};
use crate::support::{Fixture, principal, result, scope, start};

/// At least one for each column.
const DAMAGES: [&str; 51] = [
    "UPDATE ledger SET app = 'other' WHERE position = 2",
    "UPDATE ledger SET user = 'mallory' WHERE position = 2",
    "UPDATE ledger SET user = 'mallory'; UPDATE ledger_heads SET user = 'mallory';
     UPDATE ledger_payloads SET user = 'mallory'; UPDATE actions SET user = 'mallory'",
    "UPDATE ledger SET position = 99 WHERE position = 7",
    "UPDATE ledger SET action = randomblob(16) WHERE position = 2",
    "UPDATE ledger SET kind = 'late' WHERE position = 2",
    "UPDATE ledger SET at = at + 1 WHERE position = 1",
    "UPDATE ledger SET digest = randomblob(32) WHERE position = 1",
    "UPDATE ledger SET hash = randomblob(32) WHERE position = 7",
    "DELETE FROM ledger WHERE position = 1",
    "DELETE FROM ledger WHERE position = 7",
    "DELETE FROM ledger WHERE position = 3",
    "DELETE FROM ledger",
    "INSERT INTO ledger SELECT app, user, 8, action, kind, at, digest, hash FROM ledger WHERE position = 7",
    "UPDATE ledger_heads SET app = 'other'",
    "UPDATE ledger_heads SET user = 'mallory'",
    "UPDATE ledger_heads SET position = 6",
    "UPDATE ledger_heads SET hash = zeroblob(32)",
    "DELETE FROM ledger_heads",
    "UPDATE ledger_payloads SET app = 'other' WHERE position = 1",
    "UPDATE ledger_payloads SET user = 'mallory' WHERE position = 1",
    "UPDATE ledger_payloads SET position = 99 WHERE position = 1",
    "UPDATE ledger_payloads SET salt = zeroblob(16) WHERE position = 1",
    "UPDATE ledger_payloads SET payload = replace(payload, 'echo', 'oche') WHERE position = 1",
    "DELETE FROM ledger_payloads WHERE position = 4",
    "UPDATE actions SET id = randomblob(16) WHERE position = 1",
    "UPDATE actions SET app = 'other' WHERE position = 1",
    "UPDATE actions SET user = 'mallory' WHERE position = 1",
    "UPDATE actions SET actor = 'mallory' WHERE position = 1",
    "UPDATE actions SET thread = NULL WHERE position = 1",
    "UPDATE actions SET run = randomblob(16) WHERE position = 1",
    "UPDATE actions SET step = 2 WHERE position = 1",
    "UPDATE actions SET tool = 'innocent' WHERE position = 1",
    "UPDATE actions SET effect = 'read' WHERE position = 1",
    "UPDATE actions SET status = 'denied' WHERE position = 1",
    "UPDATE actions SET status = 'started' WHERE position = 3",
    "UPDATE actions SET status = 'complete' WHERE position = 4",
    "UPDATE actions SET input = '{}' WHERE position = 1",
    "UPDATE actions SET input = NULL WHERE position = 1",
    "UPDATE actions SET output = 'not JSON' WHERE position = 4",
    "UPDATE actions SET output = '\"other\"' WHERE position = 3",
    "UPDATE actions SET changes = NULL WHERE position = 1",
    "UPDATE actions SET changes = replace(changes, '\"version\":1', '\"version\":2') WHERE position = 1",
    "UPDATE actions SET changes = 'not JSON' WHERE position = 3",
    "UPDATE actions SET started_at = started_at - 1 WHERE position = 1",
    "UPDATE actions SET duration_ms = 0 WHERE position = 1",
    "UPDATE actions SET duration_ms = NULL WHERE position = 1",
    "UPDATE actions SET undone_by = NULL WHERE position = 1",
    "UPDATE actions SET undo_of = NULL WHERE position = 5",
    "UPDATE actions SET position = 99 WHERE position = 1",
    "DELETE FROM actions WHERE position = 1",
];

/// An undone action with changes, an action without intent, one under way, and another scope.
async fn filled() -> Fixture {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 3).await;
    act(&log, calls[0], vec![record(fixture.ids.record(), json!({ "x": 0.1 }), 0), file("a", Some("b"), 0)])
        .await
        .unwrap();
    log.record(vec![result(calls[1], "refused")], vec![], vec![]).await.unwrap();
    log.record(vec![start(calls[2], "look", Effect::Read)], vec![], vec![]).await.unwrap();
    let by = NewAction {
        id: fixture.ids.action(),
        tool: "undo".into(),
        effect: Effect::Reversible,
        input: json!({}),
        actor: None,
    };
    fixture.store.undo(&principal("alice"), calls[0].into(), by, None).await.unwrap();
    fixture
}

async fn faults(fixture: &Fixture) -> Vec<String> {
    let verified = fixture.store.verify_ledger().await.unwrap();
    let audited = store::sqlite::audit(fixture.folder.path()).unwrap();
    let told: Vec<_> =
        audited.findings.iter().filter_map(|finding| finding.strip_prefix("the ledger: ")).collect();
    assert_eq!(
        (audited.entries, told),
        (verified.entries, verified.faults.iter().map(String::as_str).collect())
    );
    verified.faults
}

fn without_guards(fixture: &Fixture) -> Connection {
    let conn = fixture.database();
    conn.execute_batch(
        "DROP TRIGGER ledger_fixed; DROP TRIGGER ledger_stays; DROP TRIGGER actions_undone_once;
         DROP TRIGGER actions_settle;",
    )
    .unwrap();
    conn
}

#[tokio::test]
async fn e3_whatever_is_tampered_with_is_found() {
    let fixture = filled().await;
    assert_eq!(faults(&fixture).await, Vec::<String>::new());
    let conn = without_guards(&fixture);
    for damage in DAMAGES {
        let backup = fixture.folder.path().join("backup.db");
        conn.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
        conn.execute_batch(&format!("BEGIN; {damage}; COMMIT")).expect(damage);
        let found = faults(&fixture).await;
        assert!(!found.is_empty(), "not found: {damage}");
        restore(&conn, &backup);
        std::fs::remove_file(backup).unwrap();
    }
    assert_eq!(faults(&fixture).await, Vec::<String>::new());
}

fn restore(conn: &Connection, backup: &std::path::Path) {
    conn.execute("ATTACH ?1 AS backup", [backup.to_str().unwrap()]).unwrap();
    let tables = ["ledger", "ledger_heads", "ledger_payloads", "actions"];
    let all =
        tables.map(|table| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM backup.{table};"));
    conn.execute_batch(&format!("BEGIN; {} COMMIT; DETACH backup", all.concat())).unwrap();
}

#[tokio::test]
async fn e3_entries_stay_as_they_are_and_an_undo_stays_done() {
    let fixture = filled().await;
    let conn = fixture.database();
    for (statement, rule) in [
        ("UPDATE ledger SET at = 0", "E3: entries do not change"),
        ("DELETE FROM ledger", "E3: entries stay"),
        ("UPDATE actions SET undone_by = NULL WHERE position = 1", "E4: an action is undone once"),
        (
            "UPDATE actions SET status = 'failed' WHERE position = 1",
            "E1: the outcome of an action does not change",
        ),
        ("UPDATE records SET version = version, data = '1'", "E4: a version only grows"),
        ("UPDATE records SET version = 9, user = 'mallory'", "a record stays in its scope"),
        ("DELETE FROM records", "E4: a deleted record keeps its version"),
        ("UPDATE files SET version = 1", "E4: a version only grows"),
        ("DELETE FROM files", "E4: a deleted file keeps its version"),
    ] {
        let error = conn.execute_batch(statement).expect_err(statement).to_string();
        assert!(error.contains(rule), "{statement}: {error}");
    }
}

#[tokio::test]
async fn e3_chains_are_a_scopes_own_and_longer_than_a_page() {
    let fixture = Fixture::new();
    assert_eq!(fixture.store.verify_ledger().await.unwrap(), Verified::default());
    for user in ["alice", "bob"] {
        let mut submission = fixture.submission(store::Target::New(fixture.ids.thread()));
        submission.scope = scope(user);
        let submitted = fixture.store.submit(submission).await.unwrap().0;
        let row = fixture.store.run(&principal(user), submitted.run).await.unwrap();
        let log = fixture.store.log(&row);
        for step in 1..=10 {
            let calls: Vec<_> = (0..32).map(|_| fixture.ids.call()).collect();
            let protocol::Event::StepEnd(end) =
                crate::support::step_end(calls.iter().map(|id| crate::support::call(*id)).collect())
            else {
                panic!("a step ends");
            };
            let end = protocol::Event::StepEnd(protocol::StepEnd { step, ..end });
            let results = calls.iter().map(|id| result(*id, "done"));
            log.record([end].into_iter().chain(results).collect(), vec![], vec![]).await.unwrap();
        }
    }
    let verified = fixture.store.verify_ledger().await.unwrap();
    assert_eq!(verified, Verified { scopes: 2, entries: 640, erased: 0, faults: vec![] });
    without_guards(&fixture).execute_batch("UPDATE ledger SET at = 0 WHERE position > 100").unwrap();
    assert_eq!(faults(&fixture).await.len(), Verified::MAX_FAULTS);
}

#[tokio::test]
async fn e3_a_chain_can_be_checked_from_outside_by_what_is_written_about_it() {
    let fixture = filled().await;
    let conn = fixture.database();
    let mut before: [u8; 32] = Sha256::digest("app\0alice").into();
    let mut find = conn
        .prepare(
            "SELECT action, kind, at, hash, salt, payload FROM ledger
                JOIN ledger_payloads USING (app, user, position) ORDER BY position",
        )
        .unwrap();
    let mut rows = find.query([]).unwrap();
    let mut position = 0_u64;
    while let Some(row) = rows.next().unwrap() {
        position += 1;
        let (action, kind): (Vec<u8>, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let (at, salt, payload): (i64, Vec<u8>, String) =
            (row.get(2).unwrap(), row.get(4).unwrap(), row.get(5).unwrap());
        let digest = Sha256::digest([&salt, payload.as_bytes()].concat());
        let bytes =
            [&before[..], &position.to_be_bytes(), &action, kind.as_bytes(), &at.to_be_bytes(), &digest[..]]
                .concat();
        before = row.get(3).unwrap();
        assert_eq!(before, <[u8; 32]>::from(Sha256::digest(bytes)), "entry {position}");
    }
    assert_eq!(position, 7);
}

/// Returns the outcomes in a user's chain.
fn payloads(conn: &Connection) -> Vec<(i64, String)> {
    let mut find = conn.prepare("SELECT position, payload FROM ledger_payloads ORDER BY position").unwrap();
    let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn what_came_out_of_a_call_is_stored_once_and_the_chain_covers_it() {
    let fixture = Fixture::new();
    let (_, log, calls) = run_with_calls(&fixture, 2).await;
    let words = "only-once ".repeat(1_000);
    log.record(vec![start(calls[0], "echo", Effect::Read)], vec![], vec![]).await.unwrap();
    log.record(vec![result(calls[0], &words)], vec![], vec![]).await.unwrap();
    log.record(vec![result(calls[1], &words)], vec![], vec![]).await.unwrap();
    for call in &calls {
        assert_eq!(action(&fixture, *call).await.output, json!(words));
    }
    let conn = fixture.database();
    let texts: i64 = conn
        .query_row(
            "SELECT (SELECT count(*) FROM events WHERE instr(body, 'only-once'))
                + (SELECT count(*) FROM actions WHERE instr(coalesce(output, ''), 'only-once'))
                + (SELECT count(*) FROM ledger_payloads WHERE instr(payload, 'only-once'))",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(texts, 2, "one for each call");
    assert_eq!(faults(&fixture).await, [""; 0]);
    conn.execute_batch("DROP TRIGGER events_fixed; DROP TRIGGER events_kept").unwrap();
    conn.execute_batch(
        "UPDATE events SET body = replace(body, 'only-once', 'only-now') WHERE kind = 'tool:complete'",
    )
    .unwrap();
    let found = faults(&fixture).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("has an event that does not match its digest"), "{found:?}");
    conn.execute_batch("DELETE FROM events WHERE kind = 'tool:complete'").unwrap();
    let found = faults(&fixture).await;
    assert!(found[1].ends_with("has lost the event with its result"), "{found:?}");
}

/// Writes the chain as versions up to 0008 wrote it: with each output in its entry and in its action.
fn as_before(conn: &Connection) {
    conn.execute_batch("UPDATE actions SET output =
            (SELECT e.body -> '$.output' FROM tool_results x JOIN events e ON e.thread = actions.thread AND e.seq = x.seq
                WHERE x.call = actions.id) WHERE run IS NOT NULL AND status <> 'started'")
        .unwrap();
    let mut before: [u8; 32] = Sha256::digest("app\0alice").into();
    for (position, payload) in payloads(conn) {
        let (action, kind, at): (Vec<u8>, String, i64) = conn
            .query_row("SELECT action, kind, at FROM ledger WHERE position = ?1", [position], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        let mut said: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&payload).unwrap();
        if said.remove("outputIn").is_some() {
            let output: String = conn
                .query_row("SELECT output FROM actions WHERE id = ?1", [&action], |row| row.get(0))
                .unwrap();
            said.insert("output".into(), serde_json::from_str(&output).unwrap());
        }
        let payload = serde_json::to_string(&said).unwrap();
        let digest: [u8; 32] = Sha256::digest([&[7; 16], payload.as_bytes()].concat()).into();
        let place = (position as u64).to_be_bytes();
        let all = [&before[..], &place, &action, kind.as_bytes(), &at.to_be_bytes(), &digest[..]].concat();
        before = Sha256::digest(all).into();
        conn.execute(
            "UPDATE ledger SET digest = ?2, hash = ?3 WHERE position = ?1",
            (position, digest, before),
        )
        .unwrap();
        conn.execute(
            "UPDATE ledger_payloads SET salt = ?2, payload = ?3 WHERE position = ?1",
            (position, [7_u8; 16], payload),
        )
        .unwrap();
    }
    conn.execute("UPDATE ledger_heads SET hash = ?1", [before]).unwrap();
}

#[tokio::test]
async fn entries_that_hold_their_output_themselves_are_read_and_verified_as_before() {
    let fixture = filled().await;
    let (_, log, calls) = run_with_calls(&fixture, 1).await;
    log.record(vec![result(calls[0], "long ago")], vec![], vec![]).await.unwrap();
    let conn = without_guards(&fixture);
    as_before(&conn);
    let old = payloads(&conn);
    assert!(old.iter().any(|(_, said)| said.contains("long ago")), "{old:?}");
    assert_eq!(action(&fixture, calls[0]).await.output, json!("long ago"));
    assert_eq!(faults(&fixture).await, [""; 0]);
    conn.execute_batch("UPDATE actions SET output = '\"other\"' WHERE instr(output, 'long ago')").unwrap();
    assert_eq!(faults(&fixture).await.len(), 1);
}
