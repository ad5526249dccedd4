//! The offline audit of a data folder: what must hold of it once no run is under way, whatever happened before.

use std::path::Path;

use rusqlite::Connection;

/// Each query finds rows that must not be there.
const QUERIES: [(&str, &str); 7] = [
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
];

/// What is wrong with the database in this data folder; empty when nothing is.
pub fn audit(data: &Path) -> Vec<String> {
    let conn = Connection::open(data.join("rondo.db")).expect("the database opens");
    let mut findings: Vec<String> = rows(&conn, "SELECT integrity_check FROM pragma_integrity_check");
    findings.retain(|row| row != "ok");
    for (what, query) in QUERIES {
        findings.extend(rows(&conn, query).into_iter().map(|row| format!("{what}: {row}")));
    }
    findings
}

fn rows(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("the query is SQL");
    let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
    rows.collect::<Result<_, _>>().expect("the rows are text")
}
