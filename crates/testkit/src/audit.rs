//! The offline audit of a data folder: what must hold of it once no run is under way, whatever happened before.

use std::path::Path;

use rusqlite::Connection;

/// Each query finds rows that must not be there.
const QUERIES: [(&str, &str); 15] = [
    (
        "a foreign key points nowhere",
        "SELECT \"table\" || ' ' || coalesce(rowid, '') FROM pragma_foreign_key_check",
    ),
    ("a run has not ended", "SELECT lower(hex(id)) || ' ' || status FROM runs WHERE ended_at IS NULL"),
    (
        "a call has not exactly one result",
        "SELECT lower(hex(c.id)) FROM tool_calls c
         WHERE (SELECT count(*) FROM tool_results r WHERE r.call = c.id) <> 1
            OR (SELECT count(*) FROM events e WHERE e.run = c.run AND e.kind = 'tool:complete'
                AND lower(replace(json_extract(e.body, '$.callId'), 'call_', '')) = lower(hex(c.id))) <> 1",
    ),
    (
        "a result has no call",
        "SELECT lower(hex(call)) FROM tool_results WHERE call NOT IN (SELECT id FROM tool_calls)",
    ),
    (
        "a result has no action that ended like it",
        "SELECT lower(hex(r.call)) FROM tool_results r
         WHERE NOT EXISTS (SELECT 1 FROM actions a WHERE a.id = r.call AND a.run = r.run AND a.status = r.status)",
    ),
    (
        "an ended run has an open proposal",
        "SELECT lower(hex(p.id)) FROM proposals p JOIN runs r ON r.id = p.run
         WHERE p.status = 'open' AND r.ended_at IS NOT NULL",
    ),
    (
        "a run has not exactly one run:end, or events after it",
        "SELECT lower(hex(r.id)) FROM runs r WHERE r.ended_at IS NOT NULL
         AND ((SELECT count(*) FROM events e WHERE e.run = r.id AND e.kind = 'run:end') <> 1
              OR (SELECT max(seq) FROM events e WHERE e.run = r.id AND e.thread = r.thread) <> r.end_seq)",
    ),
    (
        "a thread's sequence has a gap",
        "SELECT lower(hex(thread)) FROM events GROUP BY thread HAVING min(seq) <> 1 OR max(seq) <> count(*)",
    ),
    (
        "a thread's next number is not the one after its last",
        "SELECT lower(hex(t.id)) FROM threads t WHERE t.deleted_at IS NULL
         AND t.next_seq <> 1 + coalesce((SELECT max(seq) FROM events e WHERE e.thread = t.id), 0)",
    ),
    (
        "a run's tokens are not those of its steps",
        "SELECT lower(hex(r.id)) FROM runs r WHERE r.input_tokens + r.output_tokens <>
            (SELECT coalesce(sum(body ->> '$.usage.inputTokens' + body ->> '$.usage.outputTokens'), 0)
                FROM events e WHERE e.run = r.id AND e.kind IN ('step:end', 'step:reset'))",
    ),
    (
        // It may be more: jobs call models too, and a deleted thread takes its runs with it.
        "a user's days hold less than their runs have used",
        "SELECT r.app || ' ' || r.user FROM runs r GROUP BY r.app, r.user
            HAVING sum(r.input_tokens + r.output_tokens) > coalesce((SELECT sum(u.input_tokens + u.output_tokens)
                FROM usage u WHERE u.app = r.app AND u.user = r.user), 0)",
    ),
    (
        "a memory is not its newest version",
        "SELECT lower(hex(m.id)) FROM memories m WHERE NOT EXISTS (SELECT 1 FROM memory_versions v
            WHERE v.memory = m.id AND v.version = m.version AND v.text = m.text AND v.kind = m.kind
                AND v.status = m.status AND v.valid_from IS m.valid_from AND v.valid_until IS m.valid_until)
            OR EXISTS (SELECT 1 FROM memory_versions v WHERE v.memory = m.id AND v.version > m.version)",
    ),
    (
        "an active memory cannot be recalled",
        "SELECT lower(hex(m.id)) FROM memories m WHERE m.status = 'active' AND NOT EXISTS
            (SELECT 1 FROM items i WHERE i.kind = 'memory' AND i.id = m.id AND i.app = m.app AND i.user = m.user)",
    ),
    (
        "a message cannot be recalled",
        "SELECT lower(hex(m.id)) FROM messages m JOIN threads t ON t.id = m.thread WHERE t.deleted_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM items i WHERE i.kind = 'message' AND i.id = m.id
                AND i.app = t.app AND i.user = t.user)",
    ),
    (
        "a user's active memories are miscounted",
        "SELECT m.app || ' ' || m.user FROM memories m GROUP BY m.app, m.user
            HAVING sum(m.status = 'active') <> coalesce((SELECT c.active FROM memory_counts c
                WHERE c.app = m.app AND c.user = m.user), 0)",
    ),
];

/// What is wrong with the database in this data folder; empty when nothing is.
pub fn audit(data: &Path) -> Vec<String> {
    let mut findings = examine(&Connection::open(data.join("rondo.db")).expect("the database opens"));
    let ledger = store::sqlite::verify(data).expect("the ledger can be read");
    findings.extend(ledger.faults.into_iter().map(|fault| format!("the ledger: {fault}")));
    findings
}

fn examine(conn: &Connection) -> Vec<String> {
    let mut findings: Vec<String> = rows(conn, "SELECT integrity_check FROM pragma_integrity_check");
    findings.retain(|row| row != "ok");
    for (what, query) in QUERIES {
        findings.extend(rows(conn, query).into_iter().map(|row| format!("{what}: {row}")));
    }
    findings
}

fn rows(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("the query is SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
    rows.collect::<Result<_, _>>().expect("the rows are text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestApp;
    use crate::upstream::{Call, Reply};

    /// Takes away what prevents damage, and adds a memory.
    const FRAGILE: &str = "PRAGMA foreign_keys = OFF;
        DROP TRIGGER events_kept; DROP TRIGGER runs_absorb; DROP TRIGGER runs_end; DROP TRIGGER threads_seq_grows;
        INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
            VALUES (zeroblob(16), 'test', 'local', 'x', 'fact', 'active', 'user', 0, 0);
        INSERT INTO memory_versions (memory, version, text, kind, status, reason, at)
            SELECT id, version, text, kind, status, 'created', 0 FROM memories;
        INSERT INTO items (app, user, kind, id) SELECT app, user, 'memory', id FROM memories;";

    #[tokio::test]
    async fn each_kind_of_damage_is_found() {
        let app = TestApp::start().await;
        app.upstream
            .script([Reply::stream().call(Call::new("echo", r#"{"text":"x"}"#)), Reply::says("Done.")]);
        app.say("Hello").await;
        assert_eq!(audit(&app.data()), Vec::<String>::new());
        let conn = app.database();
        conn.execute_batch(FRAGILE).unwrap();
        assert_eq!(examine(&conn), Vec::<String>::new());
        for (damage, found) in [
            ("UPDATE messages SET thread = x'00'", "a foreign key points nowhere"),
            ("UPDATE runs SET ended_at = NULL, status = 'running'", "a run has not ended"),
            ("DELETE FROM tool_results", "a call has not exactly one result"),
            ("DELETE FROM events WHERE kind = 'tool:complete'", "a call has not exactly one result"),
            ("DELETE FROM tool_calls", "a result has no call"),
            ("DELETE FROM actions", "a result has no action that ended like it"),
            (
                "INSERT INTO proposals (id, app, user, run, tool, input, hash, status, expires_at, created_at)
                    SELECT randomblob(16), app, user, id, 'x', '{}', zeroblob(32), 'open', 0, 0 FROM runs",
                "an ended run has an open proposal",
            ),
            ("DELETE FROM events WHERE kind = 'run:end'", "a run has not exactly one run:end"),
            ("UPDATE runs SET end_seq = end_seq - 1", "a run has not exactly one run:end"),
            ("DELETE FROM events WHERE seq = 3", "a thread's sequence has a gap"),
            (
                "UPDATE threads SET next_seq = next_seq - 1",
                "a thread's next number is not the one after its last",
            ),
            (
                "UPDATE runs SET output_tokens = output_tokens + 1",
                "a run's tokens are not those of its steps",
            ),
            ("UPDATE usage SET input_tokens = 0", "a user's days hold less than their runs have used"),
            ("DELETE FROM memory_versions", "a memory is not its newest version"),
            ("UPDATE memories SET version = 2, text = 'y'", "a memory is not its newest version"),
            (
                "INSERT INTO memory_versions SELECT memory, 2, text, kind, status, reason, NULL, NULL, 0
                    FROM memory_versions",
                "a memory is not its newest version",
            ),
            ("DELETE FROM items WHERE kind = 'memory'", "an active memory cannot be recalled"),
            ("UPDATE items SET user = 'mallory' WHERE kind = 'memory'", "an active memory cannot be recalled"),
            ("DELETE FROM items WHERE kind = 'message'", "a message cannot be recalled"),
            ("DELETE FROM memory_counts", "a user's active memories are miscounted"),
        ] {
            conn.execute_batch("BEGIN; DROP TRIGGER messages_fixed").unwrap();
            conn.execute_batch(damage).unwrap();
            let findings = examine(&conn);
            conn.execute_batch("ROLLBACK").unwrap();
            assert!(findings.iter().any(|finding| finding.starts_with(found)), "{damage}: {findings:?}");
        }
        conn.execute_batch("UPDATE ledger_payloads SET payload = '{}'").unwrap();
        let findings = audit(&app.data());
        assert!(findings.iter().any(|finding| finding.starts_with("the ledger: ")), "{findings:?}");
    }
}
