//! Statements that may go through a whole table, each with its reason.

use std::collections::BTreeSet;

use crate::performed_statement::Performed;

/// Commands that look through everything, beside the server and on connections of their own.
pub(crate) const AUDIT: &str = "audit";

/// Tables that do not grow with use: what an operator sets up, what there is one of, and what is there only while work is
/// under way or waits.
const SMALL: &[&str] = &[
    "app_revisions",
    "delta_log_0",
    "delta_log_1",
    "job_lines",
    "job_users",
    "mcp_tools",
    "missing_apps",
    "reservations",
    "secrets",
    "state",
];

/// Indexes over what is under way or waits, and not over what is done: as long as the work at hand, however old the
/// database is.
const UNDER_WAY: &[&str] = &[
    "actions_begun",
    "client_calls_by_run",
    "client_calls_open",
    "documents_unlisted",
    "jobs_in_line",
    "jobs_working",
    "proposals_open",
    "runs_one_active",
    "runs_unfinished",
    "runs_unfinished_by_thread",
];

/// How a statement begins that may, who performs it, and why it may.
const LISTED: &[(&str, &str, &str)] = &[
    (
        "start",
        "INSERT INTO skipped (thread, first, last, reason, at) SELECT id, next_seq, next_seq + ?1 - 1, ?2, ?3 FROM threads WHERE 1",
        "all threads of a restored copy leave numbers out, once, before the server is ready",
    ),
    ("start", "UPDATE threads SET next_seq = next_seq + ?1 WHERE 1", "the same"),
    (
        "reader",
        "WITH found AS MATERIALIZED ( SELECT rowid AS number, bm25(records_text",
        "it goes through what was found by words of one user, which has the same short name as the table",
    ),
];

/// How statements begin that only PostgreSQL gets, or that are a part of another one. The suites on PostgreSQL perform them.
const NOT_ALONE_ON_SQLITE: &[&str] = &[
    "WITH RECURSIVE branch (id, seq) AS ( SELECT id, seq FROM messages WHERE thread = ?1 AND id = ?2 UNION ALL SELECT m.id, \
     m.seq FROM branch JOIN messages",
    "DELETE FROM records_text WHERE number = ?1",
    "INSERT INTO records_text (number, owner, words)",
    "SELECT rowid AS number, bm25(records_text",
    "SELECT number, -ts_rank(words, asked)",
    "DELETE FROM texts WHERE user = ?1 AND source LIKE",
];

pub(crate) fn is_elsewhere(statement: &str) -> bool {
    NOT_ALONE_ON_SQLITE.iter().any(|begin| statement.starts_with(begin))
}

pub(crate) fn is_small(table: &str) -> bool {
    SMALL.contains(&table)
}

pub(crate) fn is_of_what_is_under_way(index: &str) -> bool {
    UNDER_WAY.contains(&index)
}

pub(crate) fn is_listed(statement: &Performed) -> bool {
    LISTED.iter().any(|listed| is_meant(listed, statement))
}

fn is_meant((performer, begin, _): &(&str, &str, &str), statement: &Performed) -> bool {
    *performer == statement.performer && statement.sql.starts_with(begin)
}

/// Exceptions that nothing needs.
pub(crate) fn unused_exceptions(performed: &BTreeSet<Performed>) -> Vec<String> {
    let unused =
        LISTED.iter().filter(|listed| !performed.iter().any(|statement| is_meant(listed, statement)));
    unused
        .map(|(_, begin, _)| format!("{begin}\n  is listed in exceptions.rs, and nothing performs it"))
        .collect()
}
