//! The invariants are the database's: no writer can break them, on any path.

use protocol::{Ids, RunStatus};
use rusqlite::Connection;
use store::{Error, MemoryOrigin, NewMemoryRow, Target};

use crate::support::{Fixture, answer, call, end, result, scope, step_end};

/// The statement is refused, and the refusal names the rule.
fn refused(conn: &Connection, sql: &str, rule: &str) {
    let error = conn.execute_batch(sql).expect_err(sql).to_string();
    assert!(error.contains(rule), "{sql}\nwas refused with: {error}\nexpected: {rule}");
    conn.execute_batch("ROLLBACK").ok();
}

fn rule(error: Error) -> String {
    let Error::Sql(error) = error else { panic!("not refused by the database: {error}") };
    error.to_string()
}

#[tokio::test]
async fn s1_events_have_no_gap_and_do_not_change() {
    let fixture = Fixture::new();
    fixture.run().await;
    let conn = fixture.database();
    let insert = |seq: u32| {
        format!(
            "INSERT INTO events SELECT id, {seq}, (SELECT id FROM runs), 'step:start', 0, '{{}}' FROM threads"
        )
    };
    refused(&conn, &insert(4), "S1: the sequence has a gap");
    refused(&conn, &insert(0), "S1: the sequence has a gap");
    refused(&conn, &insert(2), "UNIQUE constraint failed");
    refused(&conn, "UPDATE events SET body = '[]'", "S1: events do not change");
    refused(&conn, "DELETE FROM events", "S1: events stay");
    refused(&conn, "UPDATE threads SET next_seq = 1", "S1: a sequence never goes back");
    conn.execute_batch(&insert(3)).expect("the next number is taken");
}

#[tokio::test]
async fn r1_terminal_states_absorb_and_r4_nothing_follows_run_end() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let conn = fixture.database();
    refused(&conn, "UPDATE runs SET status = 'completed'", "R4: run:end is not the last event");
    refused(&conn, "UPDATE runs SET ended_at = 1", "R4: run:end is not the last event");
    refused(&conn, "UPDATE runs SET status = 'asleep'", "CHECK constraint failed");
    log.record(vec![end(submitted.run, RunStatus::Failed)], vec![], vec![]).await.unwrap();
    for status in ["queued", "running", "waiting", "completed", "failed", "cancelled", "interrupted"] {
        refused(&conn, &format!("UPDATE runs SET status = '{status}'"), "R1: an ended run does not change");
    }
    let late = log.record(vec![step_end(vec![])], vec![], vec![]).await.unwrap_err();
    assert!(rule(late).contains("R4: the run has ended"));
    let again = log.record(vec![end(submitted.run, RunStatus::Completed)], vec![], vec![]).await.unwrap_err();
    assert!(rule(again).contains("R4: the run has ended"));
}

#[tokio::test]
async fn t2_a_call_has_one_result_when_its_run_ends() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let id = fixture.ids.call();
    log.record(vec![step_end(vec![call(id)])], vec![], vec![]).await.unwrap();
    let early = log
        .record(vec![answer(fixture.ids.message()), end(submitted.run, RunStatus::Completed)], vec![], vec![])
        .await;
    assert!(rule(early.unwrap_err()).contains("T2: a call has no result"));
    let conn = fixture.database();
    let answers: i64 = conn
        .query_row("SELECT count(*) FROM messages WHERE role = 'assistant'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(answers, 0, "nothing of the refused transaction stays");
    assert_eq!(log.record(vec![result(id, "first")], vec![], vec![]).await.unwrap(), [true]);
    assert_eq!(
        log.record(vec![result(id, "second")], vec![], vec![]).await.unwrap(),
        [false],
        "T6: the first wins"
    );
    refused(
        &conn,
        "INSERT INTO tool_results SELECT call, run, 'failed', 9 FROM tool_results",
        "UNIQUE constraint failed",
    );
    refused(&conn, "UPDATE tool_results SET status = 'failed'", "T6: the first result stays");
    log.record(vec![answer(fixture.ids.message()), end(submitted.run, RunStatus::Completed)], vec![], vec![])
        .await
        .unwrap();
}

#[tokio::test]
async fn t3_a_result_needs_its_call_and_its_run() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let orphan = log.record(vec![result(fixture.ids.call(), "whose?")], vec![], vec![]).await.unwrap_err();
    assert!(rule(orphan).contains("FOREIGN KEY constraint failed"));
    let id = fixture.ids.call();
    log.record(vec![step_end(vec![call(id)])], vec![], vec![]).await.unwrap();
    let (_, other) = fixture.run().await;
    let foreign = other.record(vec![result(id, "mine")], vec![], vec![]).await.unwrap_err();
    assert!(rule(foreign).contains("FOREIGN KEY constraint failed"));
}

#[tokio::test]
async fn t4_a_step_holds_thirty_two_calls() {
    let fixture = Fixture::new();
    for (count, fits) in [(31, true), (32, true), (33, false), (37_130, false)] {
        let (_, log) = fixture.run().await;
        let calls = (0..count).map(|_| call(fixture.ids.call())).collect();
        let recorded = log.record(vec![step_end(calls)], vec![], vec![]).await;
        assert_eq!(recorded.is_ok(), fits, "{count} calls");
        if let Err(error) = recorded {
            assert!(rule(error).contains("CHECK constraint failed: idx"), "{count} calls");
        }
    }
}

#[tokio::test]
async fn t1_a_providers_id_is_unique_within_its_step() {
    let fixture = Fixture::new();
    let (_, log) = fixture.run().await;
    let named = |id| protocol::Call { provider_id: Some("same".into()), ..call(id) };
    let calls = vec![named(fixture.ids.call()), named(fixture.ids.call())];
    let error = log.record(vec![step_end(calls)], vec![], vec![]).await.unwrap_err();
    assert!(
        rule(error)
            .contains("UNIQUE constraint failed: tool_calls.run, tool_calls.step, tool_calls.provider_id")
    );
}

#[tokio::test]
async fn q1_a_thread_has_one_run_under_way() {
    let fixture = Fixture::new();
    let (submitted, log) = fixture.run().await;
    let conn = fixture.database();
    let second = "INSERT INTO runs (id, thread, app, user, message, status, start_seq, created_at)
                  SELECT randomblob(16), thread, app, user, message, 'running', 9, 0 FROM runs";
    refused(&conn, second, "UNIQUE constraint failed: runs.thread");
    let busy = fixture.store.submit(fixture.submission(Target::Existing(submitted.thread))).await;
    assert!(matches!(busy, Err(Error::Busy)));
    log.record(vec![end(submitted.run, RunStatus::Cancelled)], vec![], vec![]).await.unwrap();
    fixture.submit(Target::Existing(submitted.thread)).await;
}

#[tokio::test]
async fn rows_do_not_cross_threads_or_scopes() {
    let fixture = Fixture::new();
    fixture.run().await;
    let (other, _) = fixture.run().await;
    let conn = fixture.database();
    let stolen = "INSERT INTO runs (id, thread, app, user, message, status, start_seq, created_at)
                  SELECT randomblob(16), thread, app, 'mallory', message, 'queued', 9, 0 FROM runs LIMIT 1";
    refused(&conn, stolen, "FOREIGN KEY constraint failed");
    let hex: String = conn.query_row("SELECT hex(?1)", [other.run.bytes()], |row| row.get(0)).unwrap();
    let misplaced = format!(
        "INSERT INTO events SELECT thread, 3, x'{hex}', 'step:start', 0, '{{}}' FROM runs WHERE id <> x'{hex}'"
    );
    refused(&conn, &misplaced, "R4: the run has ended or is not of this thread");
    let adopted = "INSERT INTO messages (id, thread, parent, role, run, seq, created_at)
                   SELECT randomblob(16), a.thread, b.id, 'user', a.run, 99, 0
                   FROM messages a, messages b WHERE a.thread <> b.thread LIMIT 1";
    refused(&conn, adopted, "FOREIGN KEY constraint failed");
}

#[tokio::test]
async fn m5_what_a_memory_was_and_rests_on_does_not_change() {
    let fixture = Fixture::new();
    let memory = NewMemoryRow {
        id: fixture.ids.memory(),
        text: "lives in Oslo".into(),
        kind: "fact".into(),
        source: "user",
        sources: vec![MemoryOrigin { words: Some("I live in Oslo".into()), ..MemoryOrigin::default() }],
        valid_from: None,
        created_at: None,
    };
    fixture.store.add_memory(&scope("alice"), memory, None).await.unwrap();
    let conn = fixture.database();
    for set in
        ["text = 'x'", "status = 'expired'", "kind = 'x'", "version = 3", "version = 1", "valid_until = 1"]
    {
        refused(&conn, &format!("UPDATE memories SET {set}"), "M5: each change of a memory is a version");
    }
    conn.execute_batch("UPDATE memories SET access_count = 9").expect("being used is no change");
    refused(&conn, "UPDATE memory_versions SET text = 'x'", "M5: versions do not change");
    refused(&conn, "INSERT INTO memory_versions SELECT * FROM memory_versions", "UNIQUE constraint failed");
    let rule = "M5: a source changes only when its conversation is deleted";
    for set in [
        "words = 'x'",
        "thread = x'00', words = NULL",
        "at = 1, words = NULL",
        "memory = x'00', words = NULL",
    ] {
        refused(&conn, &format!("UPDATE memory_sources SET {set}"), rule);
    }
    let orphans = [
        "INSERT INTO memory_versions VALUES (randomblob(16), 1, 'x', 'x', 'active', 'created', NULL, NULL, 0)",
        "INSERT INTO memory_sources (memory, at) VALUES (randomblob(16), 0)",
        "INSERT INTO tombstones (app, user, memory, words, at) VALUES ('app', 'alice', randomblob(16), 'x', 0)",
        "INSERT INTO snapshots VALUES (randomblob(16), 0)",
        "INSERT INTO snapshot_lines VALUES (randomblob(16), 0, 'x', 0, 'x')",
        "INSERT INTO text_uses VALUES (randomblob(16), 'a', 'app_r', randomblob(16))",
    ];
    for orphan in orphans {
        refused(&conn, orphan, "FOREIGN KEY constraint failed");
    }
    refused(&conn, "UPDATE memories SET status = 'lost', version = 2", "CHECK constraint failed");
    refused(&conn, "UPDATE memory_counts SET active = -1", "CHECK constraint failed");
    conn.execute_batch("UPDATE memory_sources SET words = NULL").expect("a conversation may be deleted");
}
