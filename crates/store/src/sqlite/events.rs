//! Reading the log.

use std::borrow::Cow;
use std::sync::Arc;

use protocol::{Kind, MessageId, RunId, Seq, Stored, ThreadId};
use rusqlite::{Connection, Row, params};

use super::Sqlite;
use super::read::{count, find_all, find_first, has_any, id, maybe_id, sql, text};
use crate::{Error, MAX_BYTES_PER_READ, MAX_EVENTS_PER_READ, RawEvent};

/// Facts of one run that are read back when it is replayed: more than its limits allow it to write. There are 201 steps,
/// 200 calls with a start, a result, two of a proposal and 20 sources each, and retries of each of nine models.
const MAX_FACTS: i64 = 65_536;

impl Sqlite {
    pub(crate) async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error> {
        self.readers.read(move |conn| events(conn, thread, run, after)).await
    }

    pub(crate) async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error> {
        let statement = "SELECT seq, kind, body FROM events WHERE run = ?1
                        AND kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input' ORDER BY seq LIMIT ?2";
        let facts = move |conn: &Connection| find_all(conn, statement, params![run.bytes(), MAX_FACTS], raw);
        self.readers.read(facts).await
    }

    pub(crate) async fn first_message(&self, thread: ThreadId) -> Result<Option<MessageId>, Error> {
        let statement = "SELECT id FROM messages WHERE thread = ?1 ORDER BY seq LIMIT 1";
        let first = move |conn: &Connection| find_first(conn, statement, [thread.bytes()], |row| id(row, 0));
        self.readers.read(first).await
    }

    pub(crate) async fn is_named(&self, thread: ThreadId) -> Result<bool, Error> {
        self.readers.read(move |conn| is_named(conn, thread)).await
    }

    pub(crate) async fn head(&self, thread: ThreadId) -> Result<Seq, Error> {
        let statement = "SELECT next_seq - 1 FROM threads WHERE id = ?1";
        let head =
            move |conn: &Connection| find_first(conn, statement, [thread.bytes()], |row| count(row, 0));
        self.readers.read(head).await?.ok_or(Error::NotFound("thread"))
    }
}

fn events(
    conn: &Connection,
    thread: ThreadId,
    run: Option<RunId>,
    after: Seq,
) -> Result<Vec<Arc<Stored>>, Error> {
    // One statement, so that whether the run was pruned is as old as the rows.
    let mut find = conn.prepare_cached(
        "SELECT seq, kind, body, run, (SELECT pruned_at FROM runs WHERE id = ?3) IS NOT NULL FROM events
            WHERE thread = ?1 AND seq > ?2 AND (?3 IS NULL OR run = ?3) ORDER BY seq LIMIT ?4",
    )?;
    let run_bytes = run.as_ref().map(RunId::bytes);
    let mut rows = find.query(params![thread.bytes(), sql(after), run_bytes, MAX_EVENTS_PER_READ as i64])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if row.get(4)? {
            return Err(Error::Pruned);
        }
        let event = stored(thread, row)?;
        bytes += event.body.len();
        found.push(Arc::new(event));
        if bytes >= MAX_BYTES_PER_READ {
            break;
        }
    }
    Ok(found)
}

fn stored(thread: ThreadId, row: &Row<'_>) -> rusqlite::Result<Stored> {
    let RawEvent { seq, kind, body } = raw(row)?;
    let kind = Kind::parse(&kind).map_or(Cow::Owned(kind), |kind| Cow::Borrowed(kind.name()));
    Ok(Stored { thread, seq, run: maybe_id(row, 3)?, kind, body: body.into() })
}

/// Whether the thread has a title, or is gone.
pub(super) fn is_named(conn: &Connection, thread: ThreadId) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM threads WHERE id = ?1 AND title IS NULL AND deleted_at IS NULL";
    Ok(!has_any(conn, statement, [thread.bytes()])?)
}

/// The first three columns as a row of the log.
pub(super) fn raw(row: &Row<'_>) -> rusqlite::Result<RawEvent> {
    Ok(RawEvent { seq: count(row, 0)?, kind: text(row, 1)?, body: text(row, 2)? })
}
