//! Checks that are a query for what must not be there (O2, O10, O16), and the product's own audit of a data folder.

use std::path::Path;

use rusqlite::Connection;

use crate::record::Violation;

use super::case::violation;

/// Each finds rows that must not be there. A run that has not ended may wait for the user; whether it may is O1.
const QUERIES: [(&str, &str, &str); 8] = [
    (
        "O2",
        "a call has no result",
        "SELECT lower(hex(c.id)) FROM tool_calls c JOIN runs u ON u.id = c.run LEFT JOIN tool_results r ON r.call = c.id
            WHERE r.call IS NULL AND u.ended_at IS NOT NULL",
    ),
    (
        "O2",
        "a call has more than one result",
        "SELECT lower(hex(call)) FROM tool_results GROUP BY call HAVING count(*) > 1",
    ),
    (
        "O2",
        "a call was answered more than once",
        "SELECT body ->> '$.callId' FROM events WHERE kind = 'tool:complete'
            GROUP BY body ->> '$.callId' HAVING count(*) > 1",
    ),
    (
        "O2",
        "a message has more than 32 results",
        "SELECT lower(hex(c.run)) || ' step ' || c.step FROM tool_results r JOIN tool_calls c ON c.id = r.call
            GROUP BY c.run, c.step HAVING count(*) > 32",
    ),
    (
        "O10",
        "a call has no entry among the actions",
        "SELECT lower(hex(c.id)) FROM tool_calls c JOIN runs u ON u.id = c.run LEFT JOIN actions a ON a.id = c.id
            WHERE a.id IS NULL AND u.ended_at IS NOT NULL AND u.imported = 0",
    ),
    (
        "O10",
        "an action was undone more than once",
        "SELECT lower(hex(undo_of)) FROM actions WHERE undo_of IS NOT NULL AND status IN ('complete', 'unknown')
            GROUP BY undo_of HAVING count(*) > 1",
    ),
    ("O10", "an action has begun and never ended", "SELECT lower(hex(id)) FROM actions WHERE status = 'started'"),
    ("O16", "a foreign key points nowhere", "SELECT \"table\" || ' ' || coalesce(rowid, '') FROM pragma_foreign_key_check"),
];

/// Findings of the audit that other checks look at more closely.
const LOOKED_AT: [&str; 1] = ["a run has not ended"];

pub(super) fn check(conn: &Connection) -> Vec<Violation> {
    let mut found: Vec<Violation> =
        QUERIES.iter().flat_map(|(check, what, sql)| complain(check, conn, what, sql)).collect();
    let integrity = strings(conn, "SELECT integrity_check FROM pragma_integrity_check");
    let broken =
        integrity.unwrap_or_else(|error| vec![error.to_string()]).into_iter().filter(|row| row != "ok");
    found.extend(broken.map(|row| violation("O16", format!("the database is damaged: {row}"))));
    found
}

/// Returns the findings of the server's own audit.
pub(super) fn audit(data: &Path) -> Vec<Violation> {
    let findings = testkit::audit(data).into_iter();
    let ours = findings.filter(|finding| !LOOKED_AT.iter().any(|other| finding.starts_with(other)));
    ours.map(|finding| violation(check_of(&finding), format!("audit: {finding}"))).collect()
}

fn check_of(finding: &str) -> &'static str {
    let about = |words: &[&str]| words.iter().any(|word| finding.contains(word));
    if about(&["ledger", "action"]) {
        "O10"
    } else if about(&["a call ", "a result "]) {
        "O2"
    } else if about(&["run:end", "sequence", "next event number"]) {
        "O5"
    } else if about(&["tokens", "usage"]) {
        "O15"
    } else {
        "O16"
    }
}

pub(super) fn complain(check: &'static str, conn: &Connection, what: &str, sql: &str) -> Vec<Violation> {
    match strings(conn, sql) {
        Ok(rows) => rows.into_iter().map(|row| violation(check, format!("{what}: {row}"))).collect(),
        Err(error) => vec![violation(check, format!("{what}: this could not be asked: {error}"))],
    }
}

fn strings(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::tests::sample;

    const THREAD: &str = "INSERT INTO threads (id, app, user, created_at, updated_at)
            VALUES (zeroblob(16), 'a', 'u', 0, 0);
        INSERT INTO runs (id, thread, app, user, message, status, created_at)
            VALUES (zeroblob(16), zeroblob(16), 'a', 'u', zeroblob(16), 'running', 0);";

    fn call(id: &str) -> String {
        format!(
            "INSERT INTO tool_calls (id, run, step, idx, provider_id, name, seq)
                VALUES ({id}, zeroblob(16), 1, 0, 'x', 'pay', 1);
             INSERT INTO actions (id, app, user, tool, effect, status, started_at, position)
                VALUES ({id}, 'a', 'u', 'pay', 'irreversible', 'complete', 0, 1);
             INSERT INTO tool_results (call, run, status, seq) VALUES ({id}, zeroblob(16), 'complete', 2);"
        )
    }

    #[test]
    fn each_kind_of_damage_is_found() {
        let (_folder, conn) = sample::database();
        conn.execute_batch(&format!("{THREAD} {}", call("zeroblob(16)"))).unwrap();
        conn.execute_batch("DROP TRIGGER runs_end; UPDATE runs SET status = 'completed', ended_at = 1")
            .unwrap();
        assert_eq!(check(&conn), []);
        let undo = "INSERT INTO actions (id, app, user, tool, effect, status, started_at, undo_of, position)";
        let undone = format!(
            "DROP INDEX actions_undo;
             {undo} VALUES (randomblob(16), 'a', 'u', 'undoAction', 'idempotent', 'complete', 0, zeroblob(16), 2);
             {undo} VALUES (randomblob(16), 'a', 'u', 'undoAction', 'idempotent', 'complete', 0, zeroblob(16), 3);"
        );
        let answered = "DROP TRIGGER events_append;
            INSERT INTO events (thread, seq, kind, at, body)
                VALUES (zeroblob(16), 1, 'tool:complete', 0, '{\"callId\":\"c\"}'),
                       (zeroblob(16), 2, 'tool:complete', 0, '{\"callId\":\"c\"}');";
        for (damage, found) in [
            ("DELETE FROM tool_results", "a call has no result"),
            (answered, "a call was answered more than once"),
            ("DELETE FROM actions", "a call has no entry among the actions"),
            (undone.as_str(), "an action was undone more than once"),
            (
                "DROP TRIGGER actions_settle; UPDATE actions SET status = 'started'",
                "has begun and never ended",
            ),
            ("DELETE FROM threads", "a foreign key points nowhere"),
        ] {
            conn.execute_batch(&format!("BEGIN; {damage}")).unwrap();
            let violations = check(&conn);
            conn.execute_batch("ROLLBACK").unwrap();
            assert!(
                violations.iter().any(|violation| violation.what.contains(found)),
                "{found}: {violations:?}"
            );
        }
    }

    #[test]
    fn findings_of_the_audit_are_told_under_the_check_they_belong_to() {
        for (finding, check) in [
            ("the ledger: entry 3 is not what its hash says", "O10"),
            ("a call has not exactly one result: 00", "O2"),
            ("a thread's sequence has a gap: 00", "O5"),
            ("a run's tokens are not those of its steps: 00", "O15"),
            ("the text of a memory is not that of its newest version: 00", "O16"),
        ] {
            assert_eq!(check_of(finding), check, "{finding}");
        }
    }
}
