//! Reading the log.

use std::borrow::Cow;
use std::sync::Arc;

use crate::sql::SqlValue;
use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{Kind, MessageId, RunId, Seq, Stored, ThreadId};

use super::deltas::{DeltaRange, delta_events};
use super::read::{count, find_all, find_first, has_any, id, maybe_id, sql, text};
use super::{RowsOf, SqlStore};
use crate::{Error, MAX_BYTES_PER_READ, MAX_EVENTS_PER_READ, RawEvent};

/// The condition that an event is a fact, and not a delta. It repeats the WHERE of the index `events_facts`, so that
/// the planner uses the index. The audit spells it out, because its statements are constants, too.
pub(super) const IS_FACT: &str =
    "kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input'";

/// Facts of one run that are read back when it is replayed: more than its limits allow it to write. There are 201 steps,
/// 200 calls with a start, a result, two of a proposal and 20 sources each, and retries of each of nine models.
const MAX_FACTS: i64 = 65_536;

impl SqlStore {
    pub(crate) async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error> {
        // First what is in memory: when it leaves that place, it is in the database already.
        let open = self.open_deltas.deltas_of(thread).filter(|open| run.is_none_or(|run| run == open.run));
        self.readers.read(move |conn| events(conn, (thread, run), after, open.as_ref())).await
    }

    pub(crate) async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error> {
        let statement =
            format!("SELECT seq, kind, body FROM events WHERE run = ?1 AND {IS_FACT} ORDER BY seq LIMIT ?2");
        let facts =
            move |conn: &SqlConnection| find_all(conn, &statement, params![run.bytes(), MAX_FACTS], raw);
        self.readers.read(facts).await
    }

    pub(crate) async fn first_message(&self, thread: ThreadId) -> Result<Option<MessageId>, Error> {
        // A message without any words goes before a greeting.
        let statement = "SELECT m.id FROM messages m LEFT JOIN events e ON e.thread = m.thread AND e.seq = m.seq
                WHERE m.thread = ?1 AND (m.role = 'user'
                    AND NOT coalesce(CASE WHEN json_valid(e.body)
                        THEN trim(json_extract(e.body, '$.text')) = '' AND json_extract(e.body, '$.parts') IS NULL END, 1 = 0))
                ORDER BY m.seq LIMIT 1";
        let first =
            move |conn: &SqlConnection| find_first(conn, statement, [thread.bytes()], |row| id(row, 0));
        self.readers.read_now(RowsOf::ALL, first).await
    }

    pub(crate) async fn is_named(&self, thread: ThreadId) -> Result<bool, Error> {
        self.readers.read_now(RowsOf::ALL, move |conn| is_named(conn, thread)).await
    }

    pub(crate) async fn head(&self, thread: ThreadId) -> Result<Seq, Error> {
        let statement = "SELECT next_seq - 1 FROM threads WHERE id = ?1";
        let head =
            move |conn: &SqlConnection| find_first(conn, statement, [thread.bytes()], |row| count(row, 0));
        let open = self.open_deltas.last_of(thread).unwrap_or(0);
        Ok(self.readers.read(head).await?.ok_or(Error::NotFound("thread"))?.max(open))
    }
}

/// Events after a number, of a thread or of one run of it: those of the database, then those that are in memory only.
fn events(
    conn: &SqlConnection,
    (thread, run): (ThreadId, Option<RunId>),
    after: Seq,
    open: Option<&DeltaRange>,
) -> Result<Vec<Arc<Stored>>, Error> {
    // One statement, so that all of it is of one moment, and whether the run was pruned is as old as the rows. Packed
    // deltas have no kind.
    let mut find = conn.prepare(
        "SELECT seq, kind, body, run, (SELECT pruned_at FROM runs WHERE id = ?3) IS NOT NULL, NULL FROM events
            WHERE thread = ?1 AND seq > ?2 AND (?3 IS NULL OR run = ?3)
         UNION ALL
         SELECT first, NULL, NULL, run, (SELECT pruned_at FROM runs WHERE id = ?3) IS NOT NULL, body FROM packed_deltas
            WHERE thread = ?1 AND last > ?2 AND (?3 IS NULL OR run = ?3) AND first >=
                coalesce((SELECT max(first) FROM packed_deltas WHERE thread = ?1 AND first <= ?2), 0)
         ORDER BY 1 LIMIT ?4",
    )?;
    let run_bytes = run.as_ref().map(RunId::bytes);
    let mut rows = find.query(params![thread.bytes(), sql(after), run_bytes, MAX_EVENTS_PER_READ as i64])?;
    let mut page = EventPage { after, ..EventPage::default() };
    let mut read = 0;
    while let Some(row) = &rows.next()? {
        read += 1;
        if row.get(4)? {
            return Err(Error::Pruned);
        }
        if row.value(1)? != SqlValue::Null {
            page.add(stored_event(thread, row)?);
        } else if let (Some(run), SqlValue::Blob(body)) = (maybe_id(row, 3)?, row.value(5)?) {
            delta_events(thread, run, count(row, 0)?, body).for_each(|event| page.add(event));
        }
        if page.is_full() {
            return Ok(page.events);
        }
    }
    // A full page may leave rows out that come before the open deltas.
    if read < MAX_EVENTS_PER_READ {
        open.into_iter().flat_map(DeltaRange::events).for_each(|event| page.add(event));
    }
    Ok(page.events)
}

/// Events that are read, each once and in order.
#[derive(Default)]
struct EventPage {
    events: Vec<Arc<Stored>>,
    bytes: usize,
    /// The number of the last one.
    after: Seq,
}

impl EventPage {
    fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES_PER_READ || self.events.len() >= MAX_EVENTS_PER_READ
    }

    /// Adds an event, if it comes later than those that are there, and there is room.
    fn add(&mut self, event: Stored) {
        if event.seq > self.after && !self.is_full() {
            self.after = event.seq;
            self.bytes += event.body.len();
            self.events.push(Arc::new(event));
        }
    }
}

/// An event of a row with its number, kind, body and run.
pub(super) fn stored_event(thread: ThreadId, row: &SqlRow<'_>) -> Result<Stored, Error> {
    let RawEvent { seq, kind, body } = raw(row)?;
    let kind = Kind::parse(&kind).map_or(Cow::Owned(kind), |kind| Cow::Borrowed(kind.name()));
    Ok(Stored { thread, seq, run: maybe_id(row, 3)?, kind, body: body.into() })
}

/// Whether the thread has a title, or is gone.
pub(super) fn is_named(conn: &SqlConnection, thread: ThreadId) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM threads WHERE id = ?1 AND title IS NULL AND deleted_at IS NULL";
    Ok(!has_any(conn, statement, [thread.bytes()])?)
}

/// The first three columns as a row of the log.
pub(super) fn raw(row: &SqlRow<'_>) -> Result<RawEvent, Error> {
    Ok(RawEvent { seq: count(row, 0)?, kind: text(row, 1)?, body: text(row, 2)? })
}
