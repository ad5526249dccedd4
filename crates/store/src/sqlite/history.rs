//! Messages with the rows each is made of: along a path, or those not yet looked at for memories.

use std::collections::HashSet;

use protocol::{MessageId, RunId, Seq, ThreadId};
use rusqlite::{Connection, Row, params};

use super::events::raw;
use super::message_paths;
use super::read::{FillingPage, count, find_all, find_first, find_only, id, maybe_id, sql, text, time};
use crate::{Error, MessageRole, MessageRow, PageOf, PageRows, RawEvent};

/// Messages that a path is followed back at most where nothing but the parents tells the way.
const MAX_WALKED: i64 = 20_000;

/// Steps of one run that are read; the schema allows no more.
const MAX_STEPS: i64 = 201;

const COLUMNS: &str = "m.id, m.role, m.parent, m.run, r.model, m.seq, m.created_at";

/// The newest messages of the path that ends in `leaf`, oldest of them first.
pub(super) fn path(
    conn: &Connection,
    thread: ThreadId,
    leaf: MessageId,
    newest: usize,
) -> Result<Vec<MessageRow>, Error> {
    let mut rows = walk(conn, thread, leaf, sql(newest as u64))?;
    for row in &mut rows {
        fill(conn, thread, row)?;
    }
    Ok(rows)
}

/// A page of the path that ends in `leaf`, oldest first. Where the rows do not tell what stands where, because somebody
/// wrote them past us, the path is walked.
pub(super) fn page(
    conn: &Connection,
    thread: ThreadId,
    leaf: MessageId,
    page: PageOf<Seq>,
) -> Result<PageRows<MessageRow>, Error> {
    let after = page.after.unwrap_or(0);
    let rows = match message_paths::after(conn, (thread, leaf), after, page.limit.saturating_add(1))? {
        Some(ids) => {
            let rows = ids.into_iter().filter_map(|id| of_id(conn, thread, id).transpose());
            rows.collect::<Result<Vec<_>, _>>()?
        }
        None => {
            let mut rows = walk(conn, thread, leaf, MAX_WALKED)?;
            rows.retain(|row| row.seq > after);
            rows
        }
    };
    let mut filling = FillingPage::new(page.limit);
    for mut row in rows {
        fill(conn, thread, &mut row)?;
        let bytes = bytes_of(&row);
        if !filling.take(row, bytes) {
            break;
        }
    }
    Ok(filling.done())
}

/// The bytes of all that a message is made of.
fn bytes_of(row: &MessageRow) -> usize {
    let events = row.said.iter().chain(&row.steps).chain(&row.results);
    events.map(|event| event.body.len()).sum()
}

/// What was said in a thread that is not deleted, on any branch, and not looked at for memories: oldest first.
pub(super) fn unextracted(
    conn: &Connection,
    thread: ThreadId,
    limit: usize,
) -> Result<Vec<MessageRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS}
                FROM threads t JOIN messages m ON m.thread = t.id AND m.seq > t.extracted LEFT JOIN runs r ON r.id = m.run
                WHERE t.id = ?1 AND t.deleted_at IS NULL ORDER BY m.seq LIMIT ?2",
    );
    let mut rows = find_all(conn, &statement, params![thread.bytes(), sql(limit as u64)], message)?;
    for row in &mut rows {
        fill(conn, thread, row)?;
    }
    Ok(rows)
}

/// Adds what a message is made of.
fn fill(conn: &Connection, thread: ThreadId, row: &mut MessageRow) -> Result<(), Error> {
    row.said = event(conn, thread, row.seq)?;
    if let (Some(run), MessageRole::Assistant) = (row.run, &row.role) {
        row.steps = of_run(conn, run, "step:end", MAX_STEPS)?;
        row.results = of_run(conn, run, "tool:complete", MessageRow::MAX_RESULTS as i64)?;
        row.results_total = total(conn, run, &row.results)?;
    }
    Ok(())
}

fn of_id(conn: &Connection, thread: ThreadId, id: MessageId) -> Result<Option<MessageRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM messages m LEFT JOIN runs r ON r.id = m.run WHERE m.thread = ?1 AND m.id = ?2"
    );
    find_first(conn, &statement, params![thread.bytes(), id.bytes()], message)
}

/// The newest messages alone, oldest of them first. A path whose parents form a ring is cut where it would repeat.
fn walk(conn: &Connection, thread: ThreadId, leaf: MessageId, depth: i64) -> Result<Vec<MessageRow>, Error> {
    // Along the path, in this order: left to itself, the planner goes through the whole thread.
    let statement = format!(
        "WITH RECURSIVE path (id, parent, depth) AS (
             SELECT id, parent, 1 FROM messages WHERE thread = ?1 AND id = ?2
             UNION ALL
             SELECT m.id, m.parent, path.depth + 1
                 FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.parent WHERE path.depth < ?3)
         SELECT {COLUMNS}
             FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.id LEFT JOIN runs r ON r.id = m.run
             ORDER BY path.depth",
    );
    let mut rows = find_all(conn, &statement, params![thread.bytes(), leaf.bytes(), depth], message)?;
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.id)); // of a repeated message the newest place counts
    rows.reverse();
    Ok(rows)
}

fn message(row: &Row<'_>) -> rusqlite::Result<MessageRow> {
    Ok(MessageRow {
        id: id(row, 0)?,
        role: MessageRole::parse(text(row, 1)?),
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
    let statement = "SELECT seq, kind, body FROM events WHERE thread = ?1 AND seq = ?2";
    find_first(conn, statement, params![thread.bytes(), sql(seq)], raw)
}

fn of_run(conn: &Connection, run: RunId, kind: &str, limit: i64) -> Result<Vec<RawEvent>, Error> {
    let statement = "SELECT seq, kind, body FROM events WHERE run = ?1 AND kind = ?2
            AND kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input' ORDER BY seq LIMIT ?3";
    find_all(conn, statement, params![run.bytes(), kind, limit], raw)
}

/// How many results there are; counted only when there are more than were read.
fn total(conn: &Connection, run: RunId, read: &[RawEvent]) -> Result<u64, Error> {
    if read.len() < MessageRow::MAX_RESULTS {
        return Ok(read.len() as u64);
    }
    let statement = "SELECT count(*) FROM events WHERE run = ?1 AND kind = 'tool:complete'
            AND kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input'";
    find_only(conn, statement, [run.bytes()], |row| count(row, 0))
}

#[cfg(test)]
mod tests;
