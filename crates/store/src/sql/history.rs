//! Messages with the rows each is made of: along a path, or those not yet looked at for memories.

use std::collections::HashSet;

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{MessageId, RunId, Seq, ThreadId};

use super::events::{IS_FACT, raw};
use super::message_paths;
use super::read::{FillingPage, count, find_all, find_first, find_only, id, maybe_id, sql, text, time};
use crate::{Error, MessageRole, MessageRow, PageOf, PageRows, RawEvent};

/// Messages that a path is followed back at most where nothing but the parents tells the way.
const MAX_WALKED: i64 = 20_000;

/// Steps of one run that are read; the schema allows no more.
const MAX_STEPS: i64 = 201;

/// A message with the event that has its text, and whether its run called tools.
const COLUMNS: &str = "m.id, m.role, m.parent, m.run, r.model, m.seq, m.created_at, e.seq, e.kind, e.body,
    EXISTS (SELECT 1 FROM tool_calls c WHERE c.run = m.run)";

/// The tables that the columns are from, after the table of messages.
const JOINS: &str =
    "LEFT JOIN runs r ON r.id = m.run LEFT JOIN events e ON e.thread = m.thread AND e.seq = m.seq";

/// The newest messages of the path that ends in `leaf`, oldest of them first.
pub(super) fn path(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    newest: usize,
) -> Result<Vec<MessageRow>, Error> {
    let read = walk(conn, thread, leaf, sql(newest as u64))?;
    read.into_iter().map(|read| complete_message(conn, read)).collect()
}

/// A page of the path that ends in `leaf`, oldest first. The path is walked if the rows do not have the places of
/// messages, because another program has written them.
pub(super) fn page(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    page: PageOf<Seq>,
) -> Result<PageRows<MessageRow>, Error> {
    let after = page.after.unwrap_or(0);
    let ids = match message_paths::messages_after(conn, (thread, leaf), after, page.limit.saturating_add(1))?
    {
        Some(ids) => ids,
        None => walked_after(conn, thread, leaf, after)?,
    };
    rows_of(conn, thread, ids, page.limit)
}

/// A page of the messages of these ids, in this order.
pub(super) fn rows_of(
    conn: &SqlConnection,
    thread: ThreadId,
    ids: Vec<MessageId>,
    limit: usize,
) -> Result<PageRows<MessageRow>, Error> {
    let mut filling = FillingPage::new(limit);
    for id in ids {
        let Some(read) = of_id(conn, thread, id)? else { continue };
        let row = complete_message(conn, read)?;
        let bytes = bytes_of(&row);
        if !filling.take(row, bytes) {
            break;
        }
    }
    Ok(filling.into_page())
}

/// The bytes of all that a message is made of.
pub(super) fn bytes_of(row: &MessageRow) -> usize {
    let events = row.said.iter().chain(&row.steps).chain(&row.results);
    events.map(|event| event.body.len()).sum()
}

/// Returns the messages of a thread that is not deleted, on any branch, that were not looked at for memories: oldest
/// first. Imported messages are not looked at.
pub(super) fn unextracted(
    conn: &SqlConnection,
    thread: ThreadId,
    limit: usize,
) -> Result<Vec<MessageRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS}
                FROM threads t JOIN messages m ON m.thread = t.id AND m.seq > t.extracted {JOINS}
                WHERE t.id = ?1 AND t.deleted_at IS NULL AND coalesce(r.imported, 0) <> 1 ORDER BY m.seq LIMIT ?2",
    );
    let read = find_all(conn, &statement, params![thread.bytes(), sql(limit as u64)], message)?;
    read.into_iter().map(|read| complete_message(conn, read)).collect()
}

/// A message as it was read first.
struct ReadMessage {
    row: MessageRow,
    /// Whether its run called tools.
    has_calls: bool,
}

/// A message with all that it is made of. Only a run that called tools has steps and results to show.
fn complete_message(
    conn: &SqlConnection,
    ReadMessage { mut row, has_calls }: ReadMessage,
) -> Result<MessageRow, Error> {
    if let (Some(run), MessageRole::Assistant, true) = (row.run, &row.role, has_calls) {
        row.steps = of_run(conn, run, "step:end", MAX_STEPS)?;
        row.results = of_run(conn, run, "tool:complete", MessageRow::MAX_RESULTS as i64)?;
        row.results_total = total(conn, run, &row.results)?;
    }
    Ok(row)
}

fn of_id(conn: &SqlConnection, thread: ThreadId, id: MessageId) -> Result<Option<ReadMessage>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM messages m {JOINS} WHERE m.thread = ?1 AND m.id = ?2");
    find_first(conn, &statement, params![thread.bytes(), id.bytes()], message)
}

/// The messages of a path after a number in the log, oldest first, where nothing but the parents tells the way.
fn walked_after(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    after: Seq,
) -> Result<Vec<MessageId>, Error> {
    let statement = "WITH RECURSIVE path (id, parent, seq, depth) AS (
             SELECT id, parent, seq, 1 FROM messages WHERE thread = ?1 AND id = ?2
             UNION ALL
             SELECT m.id, m.parent, m.seq, path.depth + 1
                 FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.parent WHERE path.depth < ?3)
         SELECT id, seq FROM path ORDER BY depth";
    let mut seen = HashSet::new();
    let mut ids: Vec<(MessageId, Seq)> =
        find_all(conn, statement, params![thread.bytes(), leaf.bytes(), MAX_WALKED], |row| {
            Ok((id(row, 0)?, count(row, 1)?))
        })?;
    ids.retain(|(id, seq)| *seq > after && seen.insert(*id)); // see `walk`
    Ok(ids.into_iter().rev().map(|(id, _)| id).collect())
}

/// The numbers of the oldest and the newest of the last messages of a thread up to `leaf`, if each is the parent of the
/// next one. None if the thread has branches there.
fn line_up_to(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    limit: i64,
) -> Result<Option<(Seq, Seq)>, Error> {
    let statement = "SELECT m.id, m.parent, m.seq FROM messages m
            WHERE m.thread = ?1 AND m.seq <= (SELECT seq FROM messages WHERE thread = ?1 AND id = ?2)
            ORDER BY m.seq DESC LIMIT ?3";
    let place = |row: &SqlRow<'_>| Ok((id(row, 0)?, maybe_id(row, 1)?, count(row, 2)?));
    let places: Vec<(MessageId, Option<MessageId>, Seq)> =
        find_all(conn, statement, params![thread.bytes(), leaf.bytes(), limit], place)?;
    let (Some((newest, _, last)), Some((_, above_oldest, first))) = (places.first(), places.last()) else {
        return Ok(None);
    };
    let is_whole = above_oldest.is_none() || sql(places.len() as u64) == limit;
    let mut pairs = places.iter().zip(places.iter().skip(1));
    let is_line = *newest == leaf && is_whole && pairs.all(|(later, earlier)| later.1 == Some(earlier.0));
    Ok(is_line.then_some((*first, *last)))
}

/// The newest messages of a path, oldest of them first, read by their numbers, which takes two thirds of the time of a
/// walk. None if the path is not a line of neighbours.
fn last_of_line(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    limit: i64,
) -> Result<Option<Vec<ReadMessage>>, Error> {
    let line = match line_up_to(conn, thread, leaf, limit) {
        Ok(line) => line,
        // After an error of PostgreSQL, the transaction refuses the walk, too.
        Err(Error::Postgres(error)) if error.as_db_error().is_some() => return Err(Error::Postgres(error)),
        Err(error) if !conn.is_usable() => return Err(error),
        Err(_) => None, // a row that cannot be read may belong to another branch
    };
    let Some((first, last)) = line else { return Ok(None) };
    let statement = format!(
        "SELECT {COLUMNS} FROM messages m {JOINS}
            WHERE m.thread = ?1 AND m.seq >= ?2 AND m.seq <= ?3 ORDER BY m.seq",
    );
    find_all(conn, &statement, params![thread.bytes(), sql(first), sql(last)], message).map(Some)
}

/// The newest messages alone, oldest of them first. A path whose parents form a ring is cut where it would repeat.
fn walk(
    conn: &SqlConnection,
    thread: ThreadId,
    leaf: MessageId,
    depth: i64,
) -> Result<Vec<ReadMessage>, Error> {
    if let Some(rows) = last_of_line(conn, thread, leaf, depth)? {
        return Ok(rows);
    }
    // Along the path, in this order: left to itself, the planner goes through the whole thread.
    let statement = format!(
        "WITH RECURSIVE path (id, parent, seq, depth) AS (
             SELECT id, parent, seq, 1 FROM messages WHERE thread = ?1 AND id = ?2
             UNION ALL
             SELECT m.id, m.parent, m.seq, path.depth + 1
                 FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.parent WHERE path.depth < ?3)
         SELECT {COLUMNS}
             FROM path CROSS JOIN messages m ON m.thread = ?1 AND m.id = path.id {JOINS}
             ORDER BY path.depth",
    );
    let mut rows = find_all(conn, &statement, params![thread.bytes(), leaf.bytes(), depth], message)?;
    let mut seen = HashSet::new();
    rows.retain(|read| seen.insert(read.row.id)); // of a repeated message the newest place counts
    rows.reverse();
    Ok(rows)
}

fn message(row: &SqlRow<'_>) -> Result<ReadMessage, Error> {
    let said: Option<i64> = row.get(7)?;
    let said = match said {
        Some(_) => Some(RawEvent { seq: count(row, 7)?, kind: text(row, 8)?, body: text(row, 9)? }),
        None => None,
    };
    let row_of_message = MessageRow {
        id: id(row, 0)?,
        role: MessageRole::parse(text(row, 1)?),
        parent: maybe_id(row, 2)?,
        run: maybe_id(row, 3)?,
        model: row.get(4)?,
        said,
        steps: Vec::new(),
        results: Vec::new(),
        results_total: 0,
        seq: count(row, 5)?,
        created_at: time(row, 6)?,
    };
    Ok(ReadMessage { row: row_of_message, has_calls: row.get(10)? })
}

fn of_run(conn: &SqlConnection, run: RunId, kind: &str, limit: i64) -> Result<Vec<RawEvent>, Error> {
    let statement = format!(
        "SELECT seq, kind, body FROM events WHERE run = ?1 AND kind = ?2 AND {IS_FACT} ORDER BY seq LIMIT ?3"
    );
    find_all(conn, &statement, params![run.bytes(), kind, limit], raw)
}

/// How many results there are; counted only when there are more than were read.
fn total(conn: &SqlConnection, run: RunId, read: &[RawEvent]) -> Result<u64, Error> {
    if read.len() < MessageRow::MAX_RESULTS {
        return Ok(read.len() as u64);
    }
    let statement =
        format!("SELECT count(*) FROM events WHERE run = ?1 AND kind = 'tool:complete' AND {IS_FACT}");
    find_only(conn, &statement, [run.bytes()], |row| count(row, 0))
}

#[cfg(test)]
mod tests;
