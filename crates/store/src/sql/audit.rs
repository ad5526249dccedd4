//! Looks through a whole database for what must never be there, whether or not a server is using it.

use super::SqlConnection;
use super::admin_audit::AuditCheck;
use super::read::{count, find_only};
use super::verify::verify_on;
use crate::Error;

/// The fault that SQLite finds in references. PostgreSQL lets none be broken.
const REFERENCES: (&str, &str) = (
    "a foreign key points nowhere",
    "SELECT \"table\" || ' ' || coalesce(rowid, '') FROM pragma_foreign_key_check",
);

/// Rows that one rule names at most.
const MAX_ROWS_PER_RULE: usize = 20;

/// Each query finds rows that must not be there at any moment. A deleted thread is left out: its rows go bit by bit.
/// Queries that say of a kind which kinds it is not use the index of facts, which has that condition.
const RULES: &[(&str, &str)] = &[
    (
        "an event has no thread",
        "SELECT DISTINCT lower(hex(thread)) FROM (SELECT thread FROM events UNION ALL SELECT thread FROM packed_deltas) e
            WHERE thread NOT IN (SELECT id FROM threads)",
    ),
    (
        "a thread's sequence has a gap",
        "WITH gaps AS (
            SELECT thread, before + 1 AS first, seq - 1 AS last FROM
                (SELECT thread, seq, lag(until, 1, 0) OVER (PARTITION BY thread ORDER BY seq) AS before FROM
                    (SELECT thread, seq, seq AS until FROM events
                        UNION ALL SELECT thread, first, last FROM packed_deltas) e) n
                WHERE seq <> before + 1)
         SELECT lower(hex(g.thread)) || ' ' || g.first || ' to ' || g.last FROM gaps g JOIN threads t ON t.id = g.thread
            WHERE t.deleted_at IS NULL
                AND g.last - g.first + 1 <> (SELECT coalesce(sum(s.last - s.first + 1), 0) FROM skipped s
                    WHERE s.thread = g.thread AND s.first BETWEEN g.first AND g.last)
                AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread = g.thread AND r.pruned_at IS NOT NULL
                    AND r.start_seq <= g.first AND r.end_seq >= g.last)",
    ),
    (
        "an event has a number that was skipped",
        "SELECT lower(hex(s.thread)) || ' ' || e.seq FROM skipped s JOIN events e
            ON e.thread = s.thread AND e.seq BETWEEN s.first AND s.last
         UNION ALL SELECT lower(hex(s.thread)) || ' ' || d.first FROM skipped s JOIN packed_deltas d
            ON d.thread = s.thread AND d.first <= s.last AND d.last >= s.first",
    ),
    (
        "the next event number of a thread does not follow its last event",
        "SELECT lower(hex(t.id)) FROM threads t WHERE t.deleted_at IS NULL AND t.next_seq <> 1 + max(
            coalesce((SELECT max(seq) FROM events e WHERE e.thread = t.id), 0),
            coalesce((SELECT max(d.last) FROM packed_deltas d WHERE d.thread = t.id), 0),
            coalesce((SELECT max(last) FROM skipped s WHERE s.thread = t.id), 0))",
    ),
    (
        "a run has not exactly one run:end, or events after it",
        "SELECT lower(hex(r.id)) FROM runs r JOIN threads t ON t.id = r.thread
            WHERE r.ended_at IS NOT NULL AND t.deleted_at IS NULL
                AND ((SELECT count(*) FROM events e WHERE e.run = r.id AND e.kind = 'run:end') <> 1
                    OR (SELECT max(seq) FROM events e WHERE e.run = r.id AND e.thread = r.thread) <> r.end_seq)",
    ),
    (
        "packed deltas have no run, or come after its end",
        "SELECT lower(hex(d.run)) FROM packed_deltas d LEFT JOIN runs r ON r.id = d.run
            WHERE r.id IS NULL OR d.thread <> r.thread OR d.last > r.end_seq OR r.pruned_at IS NOT NULL",
    ),
    (
        "an ended run still reserves a part of a budget",
        "SELECT lower(hex(s.holder)) FROM reservations s JOIN runs r ON r.id = s.holder WHERE r.ended_at IS NOT NULL",
    ),
    (
        "a call of an ended run has not exactly one result",
        "SELECT lower(hex(c.id)) FROM tool_calls c JOIN runs r ON r.id = c.run JOIN threads t ON t.id = r.thread
            WHERE r.ended_at IS NOT NULL AND t.deleted_at IS NULL
                AND ((SELECT count(*) FROM tool_results x WHERE x.call = c.id) <> 1
                    OR (SELECT count(*) FROM events e WHERE e.run = c.run AND e.kind = 'tool:complete'
                        AND e.kind <> 'text:delta' AND e.kind <> 'reasoning:delta' AND e.kind <> 'tool:input'
                        AND lower(replace(json_extract(e.body, '$.callId'), 'call_', '')) = lower(hex(c.id))) <> 1)",
    ),
    (
        "a result has no call",
        "SELECT lower(hex(call)) FROM tool_results WHERE call NOT IN (SELECT id FROM tool_calls)",
    ),
    (
        // Results from before there was a ledger have none.
        "a result has no action with the same outcome",
        "SELECT lower(hex(x.call)) FROM tool_results x JOIN runs r ON r.id = x.run
            LEFT JOIN events e ON e.thread = r.thread AND e.seq = x.seq
            WHERE r.imported = 0 AND coalesce(e.at, r.created_at) >= (SELECT min(at) FROM ledger) AND NOT EXISTS
                (SELECT 1 FROM actions a WHERE a.id = x.call AND a.run = x.run AND a.status = x.status)",
    ),
    (
        "a run that was made elsewhere has an action, or used something",
        "SELECT lower(hex(r.id)) FROM runs r WHERE r.imported = 1 AND (r.input_tokens + r.output_tokens + r.cost > 0
            OR r.ended_at IS NULL OR EXISTS (SELECT 1 FROM actions a WHERE a.run = r.id))",
    ),
    (
        "an ended run has an open proposal",
        "SELECT lower(hex(p.id)) FROM proposals p JOIN runs r ON r.id = p.run
            WHERE p.status = 'open' AND r.ended_at IS NOT NULL",
    ),
    (
        "an ended run has an open call of the client",
        "SELECT lower(hex(c.id)) FROM client_calls c JOIN runs r ON r.id = c.run
            WHERE c.status = 'open' AND r.ended_at IS NOT NULL",
    ),
    (
        "a run's tokens are not those of its steps",
        "SELECT lower(hex(r.id)) FROM runs r JOIN threads t ON t.id = r.thread
            WHERE t.deleted_at IS NULL AND r.input_tokens + r.output_tokens <>
                (SELECT coalesce(sum(CAST(json_extract(body, '$.usage.inputTokens') AS BIGINT)
                    + CAST(json_extract(body, '$.usage.outputTokens') AS BIGINT)), 0)
                    FROM events e WHERE e.run = r.id AND e.kind IN ('step:end', 'step:reset')
                        AND e.kind <> 'text:delta' AND e.kind <> 'reasoning:delta' AND e.kind <> 'tool:input')",
    ),
    (
        // It may be more: jobs call models too, and a deleted thread takes its runs with it.
        "the daily usage of a user is less than the usage of their runs",
        "SELECT r.app || ' ' || r.user FROM runs r GROUP BY r.app, r.user
            HAVING sum(r.input_tokens + r.output_tokens) > coalesce((SELECT sum(u.input_tokens + u.output_tokens)
                FROM usage u WHERE u.app = r.app AND u.user = r.user), 0)",
    ),
    (
        "an image has no content",
        "SELECT lower(hex(id)) FROM images WHERE id NOT IN (SELECT image FROM image_contents)",
    ),
    (
        "an image counts as used and no message shows it, or the other way round",
        "SELECT lower(hex(i.id)) FROM images i
            WHERE (i.unused_since IS NULL) <> EXISTS (SELECT 1 FROM image_uses u WHERE u.image = i.id)",
    ),
    (
        "the text of a memory is not that of its newest version",
        "SELECT lower(hex(m.id)) FROM memories m WHERE NOT EXISTS (SELECT 1 FROM memory_versions v
            WHERE v.memory = m.id AND v.version = m.version AND v.text = m.text AND v.kind = m.kind
                AND v.status = m.status AND v.valid_from IS NOT DISTINCT FROM m.valid_from
                AND v.valid_until IS NOT DISTINCT FROM m.valid_until)
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
        "an earlier version of a record or a file is not before its present one",
        "SELECT v.thing || ' ' || v.version FROM thing_versions v WHERE v.version >= coalesce(CASE WHEN v.thing LIKE 'file:%' THEN
            (SELECT f.version FROM files f WHERE f.app = v.app AND f.user = v.user AND f.path = substr(v.thing, 6)) ELSE
            (SELECT r.version FROM records r WHERE r.id = unhex(substr(v.thing, 5)) AND r.app = v.app AND r.user = v.user) END, 0)",
    ),
    (
        "a user's active memories are miscounted",
        "SELECT m.app || ' ' || m.user FROM memories m GROUP BY m.app, m.user
            HAVING count(*) FILTER (WHERE m.status = 'active') <> coalesce((SELECT c.active FROM memory_counts c
                WHERE c.app = m.app AND c.user = m.user), 0)",
    ),
];

/// The things that an audit has looked at, and the faults that it found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    pub threads: u64,
    pub runs: u64,
    pub events: u64,
    /// Entries of the ledger.
    pub entries: u64,
    /// Entries of the audit of admins.
    pub admin_entries: u64,
    /// Empty if nothing is wrong; in words for people.
    pub findings: Vec<String>,
}

/// Looks through the database as it is at one moment, through its ledger, and through the audit of admins.
pub(crate) fn audit_of(conn: &SqlConnection) -> Result<Audited, Error> {
    let moment = conn.moment()?;
    let mut findings = match conn {
        SqlConnection::Sqlite(_) => damage(conn)?,
        // PostgreSQL has checksums of its own, and tools that compare them.
        SqlConnection::Postgres(_) => vec![],
    };
    for (what, query) in RULES {
        findings.extend(rows(conn, query)?.into_iter().map(|row| format!("{what}: {row}")));
    }
    let number = |statement: &str| find_only(conn, statement, [], |row| count(row, 0));
    let (threads, runs) = (number("SELECT count(*) FROM threads")?, number("SELECT count(*) FROM runs")?);
    let deltas = "SELECT coalesce(CAST(sum(last - first + 1) AS BIGINT), 0) FROM packed_deltas";
    let events = number("SELECT count(*) FROM events")? + number(deltas)?;
    drop(moment);
    let ledger = verify_on(conn)?;
    findings.extend(ledger.faults.into_iter().map(|fault| format!("the ledger: {fault}")));
    let mut admins = AuditCheck::default();
    while !admins.is_done {
        admins = admins.next(conn)?;
    }
    findings.extend(admins.faults.into_iter().map(|fault| format!("the audit of admins: {fault}")));
    let (entries, admin_entries) = (ledger.entries, admins.entries);
    Ok(Audited { threads, runs, events, entries, admin_entries, findings })
}

/// Returns the faults that SQLite finds in its file, and in references from one table to another.
fn damage(conn: &SqlConnection) -> Result<Vec<String>, Error> {
    let damage =
        rows(conn, "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'")?;
    let in_a_line = |row: String| format!("the file is damaged: {}", row.replace('\n', " "));
    let mut findings: Vec<String> = damage.into_iter().map(in_a_line).collect();
    let (what, query) = REFERENCES;
    findings.extend(rows(conn, query)?.into_iter().map(|row| format!("{what}: {row}")));
    Ok(findings)
}

fn rows(conn: &SqlConnection, query: &str) -> Result<Vec<String>, Error> {
    let mut find = conn.prepare(query)?;
    let mut rows = find.query([])?;
    let mut found = Vec::new();
    while found.len() < MAX_ROWS_PER_RULE
        && let Some(row) = rows.next()?
    {
        found.push(row.get(0)?);
    }
    Ok(found)
}
