//! The offline audit of a data folder: what must hold of it once no run is under way, after any crash.

use std::path::Path;

use rusqlite::Connection;

use crate::database::postgres_of;

/// Holds only when nothing is under way; the rest holds always, and is the product's own audit.
const UNFINISHED: &str = "SELECT lower(hex(id)) || ' ' || status FROM runs WHERE ended_at IS NULL";

/// Returns the faults of the database in this data folder; empty when there are none.
pub fn audit(data: &Path) -> Vec<String> {
    if let Some(address) = postgres_of(data) {
        return store::postgres::audit(&address).expect("the database can be read").findings;
    }
    let mut findings = store::sqlite::audit(data).expect("the database can be read").findings;
    let conn = Connection::open(data.join("rondo.db")).expect("the database opens");
    let mut unfinished = conn.prepare(UNFINISHED).expect("the query is SQL");
    let rows = unfinished.query_map([], |row| row.get::<_, String>(0)).expect("the query runs");
    findings.extend(rows.map(|row| format!("a run has not ended: {}", row.expect("the row is text"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestApp;
    use crate::upstream::{Reply, ScriptedCall};

    /// Takes away what prevents damage, and adds a memory.
    const FRAGILE: &str = "PRAGMA foreign_keys = OFF;
        DROP TRIGGER events_kept; DROP TRIGGER runs_absorb; DROP TRIGGER runs_end; DROP TRIGGER threads_seq_grows;
        DROP TRIGGER messages_fixed; DROP TRIGGER events_fixed; DROP TRIGGER events_append;
        INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
            VALUES (zeroblob(16), 'test', 'local', 'x', 'fact', 'active', 'user', 0, 0);
        INSERT INTO memory_versions (memory, version, text, kind, status, reason, at)
            SELECT id, version, text, kind, status, 'created', 0 FROM memories;
        INSERT INTO items (app, user, kind, id) SELECT app, user, 'memory', id FROM memories;";

    /// The damage that is done, and the fault that is then found.
    const DAMAGE: &[(&str, &str)] = &[
        ("UPDATE messages SET thread = x'00'", "a foreign key points nowhere"),
        ("UPDATE runs SET ended_at = NULL, status = 'running'", "a run has not ended"),
        (
            "INSERT INTO reservations SELECT id, app, user, 1, 1 FROM runs",
            "an ended run still reserves a part of a budget",
        ),
        ("DELETE FROM tool_results", "a call of an ended run has not exactly one result"),
        (
            "DELETE FROM events WHERE kind = 'tool:complete'",
            "a call of an ended run has not exactly one result",
        ),
        ("DELETE FROM tool_calls", "a result has no call"),
        ("DELETE FROM actions", "a result has no action with the same outcome"),
        (
            "INSERT INTO proposals (id, app, user, run, tool, input, hash, status, expires_at, created_at)
                SELECT randomblob(16), app, user, id, 'x', '{}', zeroblob(32), 'open', 0, 0 FROM runs",
            "an ended run has an open proposal",
        ),
        (
            "INSERT INTO client_calls (id, app, user, thread, run, status, expires_at, created_at)
                SELECT c.id, r.app, r.user, r.thread, r.id, 'open', 0, 0 FROM runs r JOIN tool_calls c ON c.run = r.id",
            "an ended run has an open call of the client",
        ),
        ("DELETE FROM events WHERE kind = 'run:end'", "a run has not exactly one run:end"),
        ("UPDATE runs SET end_seq = end_seq - 1", "a run has not exactly one run:end"),
        ("DELETE FROM events WHERE seq = 3", "a thread's sequence has a gap"),
        ("DELETE FROM events WHERE seq = 1", "a thread's sequence has a gap"),
        (
            "UPDATE events SET seq = seq + 9 WHERE seq = (SELECT max(seq) FROM events);
                INSERT INTO skipped SELECT thread, max(seq) - 8, max(seq) - 1, 'power loss', 0 FROM events",
            "a thread's sequence has a gap",
        ),
        (
            "INSERT INTO skipped SELECT id, next_seq - 1, next_seq + 9, 'power loss', 0 FROM threads",
            "an event has a number that was skipped",
        ),
        (
            "INSERT INTO skipped SELECT id, next_seq, next_seq + 9, 'restored', 0 FROM threads",
            "the next event number of a thread does not follow its last event",
        ),
        ("UPDATE events SET thread = x'00'", "an event has no thread"),
        (
            "UPDATE threads SET next_seq = next_seq - 1",
            "the next event number of a thread does not follow its last event",
        ),
        ("UPDATE runs SET output_tokens = output_tokens + 1", "a run's tokens are not those of its steps"),
        (
            "UPDATE usage SET input_tokens = 0",
            "the daily usage of a user is less than the usage of their runs",
        ),
        ("DELETE FROM memory_versions", "the text of a memory is not that of its newest version"),
        (
            "UPDATE memories SET version = 2, text = 'y'",
            "the text of a memory is not that of its newest version",
        ),
        (
            "INSERT INTO memory_versions SELECT memory, 2, text, kind, status, reason, NULL, NULL, 0
                FROM memory_versions",
            "the text of a memory is not that of its newest version",
        ),
        ("DELETE FROM items WHERE kind = 'memory'", "an active memory cannot be recalled"),
        ("UPDATE items SET user = 'mallory' WHERE kind = 'memory'", "an active memory cannot be recalled"),
        ("DELETE FROM items WHERE kind = 'message'", "a message cannot be recalled"),
        ("DELETE FROM memory_counts", "a user's active memories are miscounted"),
        ("UPDATE ledger_payloads SET payload = '{}'", "the ledger: "),
        (
            "PRAGMA writable_schema = 1; DELETE FROM sqlite_schema WHERE name = 'runs_by_thread'",
            "the file is damaged: ",
        ),
    ];

    #[tokio::test]
    async fn each_kind_of_damage_is_found() {
        let app = TestApp::start().await;
        app.upstream.script([
            Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#)),
            Reply::says("Done."),
        ]);
        app.say("Hello").await;
        assert_eq!(audit(&app.data()), Vec::<String>::new());
        assert_eq!(damaged(&app, FRAGILE), Vec::<String>::new());
        for (damage, found) in DAMAGE {
            let findings = damaged(&app, &format!("{FRAGILE} {damage}"));
            assert!(findings.iter().any(|finding| finding.starts_with(found)), "{damage}: {findings:?}");
        }
    }

    /// Numbers that were left out, and deltas that were pruned, leave gaps that are no damage.
    #[tokio::test]
    async fn a_gap_that_is_accounted_for_is_none() {
        let app = TestApp::start().await;
        app.upstream.script([Reply::says("Hello.")]);
        app.say("Hello").await;
        let skip = "INSERT INTO skipped SELECT id, next_seq, next_seq + 9, 'power loss', 0 FROM threads;
            UPDATE threads SET next_seq = next_seq + 10;";
        let event = "INSERT INTO events SELECT id, next_seq, NULL, 'thread:named', 0, '{}' FROM threads;
            UPDATE threads SET next_seq = next_seq + 1;";
        let prune = "DELETE FROM packed_deltas; UPDATE runs SET pruned_at = 1;";
        for sound in
            [skip, prune, &format!("{skip} {event}"), &format!("{skip} {skip} {event} {skip} {prune}")]
        {
            assert_eq!(damaged(&app, sound), Vec::<String>::new(), "{sound}");
        }
    }

    /// Returns the findings of an audit of a copy of the app's database to which something was done.
    fn damaged(app: &TestApp, damage: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("rondo.db");
        app.database().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        Connection::open(copy).unwrap().execute_batch(damage).unwrap();
        audit(folder.path())
    }
}
