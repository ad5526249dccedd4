//! Messages with the rows each is made of: along a path, or those not yet looked at for memories.

use std::collections::HashSet;

use protocol::{MessageId, RunId, Seq, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::events::raw;
use super::read::{count, id, maybe_id, sql, text, time};
use crate::{Error, MessageRow, RawEvent, Window};

/// Messages a path is followed back at most.
const MAX_PATH: i64 = 20_000;

/// Steps of one run that are read; the schema allows no more.
const MAX_STEPS: i64 = 201;

pub(super) fn path(
    conn: &Connection,
    thread: ThreadId,
    leaf: MessageId,
    window: Window,
) -> Result<Vec<MessageRow>, Error> {
    fill(conn, thread, skeleton(conn, thread, leaf, window)?)
}

/// What was said in a thread that is not deleted, on any branch, and not looked at for memories: oldest first.
pub(super) fn unextracted(
    conn: &Connection,
    thread: ThreadId,
    limit: usize,
) -> Result<Vec<MessageRow>, Error> {
    let rows = conn
        .prepare_cached(
            "SELECT m.id, m.role, m.parent, m.run, r.model, m.seq, m.created_at
                FROM threads t JOIN messages m ON m.thread = t.id AND m.seq > t.extracted LEFT JOIN runs r ON r.id = m.run
                WHERE t.id = ?1 AND t.deleted_at IS NULL ORDER BY m.seq LIMIT ?2",
        )?
        .query_map(params![thread.bytes(), sql(limit as u64)], message)?
        .collect::<Result<Vec<_>, _>>()?;
    fill(conn, thread, rows)
}

/// Adds what each message is made of.
fn fill(conn: &Connection, thread: ThreadId, mut rows: Vec<MessageRow>) -> Result<Vec<MessageRow>, Error> {
    for row in &mut rows {
        row.said = event(conn, thread, row.seq)?;
        if let (Some(run), "assistant") = (row.run, row.role.as_str()) {
            row.steps = of_run(conn, run, "step:end", MAX_STEPS)?;
            row.results = of_run(conn, run, "tool:complete", MessageRow::MAX_RESULTS as i64)?;
            row.results_total = total(conn, run, &row.results)?;
        }
    }
    Ok(rows)
}

/// The messages alone, oldest first. A path whose parents form a ring is cut where it would repeat.
fn skeleton(
    conn: &Connection,
    thread: ThreadId,
    leaf: MessageId,
    window: Window,
) -> Result<Vec<MessageRow>, Error> {
    let (after, limit) = match window {
        Window::Newest(limit) => (0, limit),
        Window::After(seq, limit) => (seq, limit),
    };
    let newest = matches!(window, Window::Newest(_));
    let depth = if newest { sql(limit as u64) } else { MAX_PATH };
    // Along the path, in this order: left to itself, the planner goes through the whole thread.
    let mut find = conn.prepare_cached(
        "WITH RECURSIVE path (id, parent, depth) AS (
             SELECT id, parent, 1 FROM messages WHERE thread = ?1 AND id = ?2
             UNION ALL
             SELECT m.id, m.parent, path.depth + 1
                 FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.parent WHERE path.depth < ?3)
         SELECT m.id, m.role, m.parent, m.run, r.model, m.seq, m.created_at, path.depth
             FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.id LEFT JOIN runs r ON r.id = m.run
             WHERE +m.seq > ?4 ORDER BY path.depth DESC",
    )?;
    let found = find.query_map(params![thread.bytes(), leaf.bytes(), depth, sql(after)], message)?;
    let mut rows = found.collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::new();
    rows.reverse(); // newest first, so that of a repeated message the newest place counts
    rows.retain(|row| seen.insert(row.id));
    rows.reverse();
    rows.truncate(limit);
    Ok(rows)
}

fn message(row: &Row<'_>) -> rusqlite::Result<MessageRow> {
    Ok(MessageRow {
        id: id(row, 0)?,
        role: text(row, 1)?,
        parent: maybe_id(row, 2)?,
        run: maybe_id(row, 3)?,
        model: row.get(4)?,
        said: None,
        steps: Vec::new(),
        results: Vec::new(),
        results_total: 0,
        seq: count(row, 5)?,
        created_at: time(row, 6)?,
    })
}

fn event(conn: &Connection, thread: ThreadId, seq: Seq) -> Result<Option<RawEvent>, Error> {
    let mut find =
        conn.prepare_cached("SELECT seq, kind, body FROM events WHERE thread = ?1 AND seq = ?2")?;
    Ok(find.query_row(params![thread.bytes(), sql(seq)], raw).optional()?)
}

fn of_run(conn: &Connection, run: RunId, kind: &str, limit: i64) -> Result<Vec<RawEvent>, Error> {
    let mut find = conn.prepare_cached(
        "SELECT seq, kind, body FROM events WHERE run = ?1 AND kind = ?2
            AND kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input' ORDER BY seq LIMIT ?3",
    )?;
    let rows = find.query_map(params![run.bytes(), kind, limit], raw)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many results there are; counted only when there are more than were read.
fn total(conn: &Connection, run: RunId, read: &[RawEvent]) -> Result<u64, Error> {
    if read.len() < MessageRow::MAX_RESULTS {
        return Ok(read.len() as u64);
    }
    let mut find = conn.prepare_cached(
        "SELECT count(*) FROM events WHERE run = ?1 AND kind = 'tool:complete'
            AND kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input'",
    )?;
    Ok(find.query_row([run.bytes()], |row| count(row, 0))?)
}
