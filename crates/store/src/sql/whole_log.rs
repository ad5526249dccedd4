//! The whole log of a database, for those who check it from outside.

use protocol::{RunId, Stored, ThreadId};

use super::SqlConnection;
use super::deltas::{delta_events, logged_ranges};
use super::events::stored_event;
use super::read::{count, find_all, find_first, id};
use crate::Error;

/// An event, and when it was stored, in milliseconds since 1970. Deltas that are not packed have no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRow {
    pub event: Stored,
    pub at: Option<i64>,
}

/// All events in the order of their threads and numbers, wherever the database has them.
pub(crate) fn whole_log_on(conn: &SqlConnection) -> Result<Vec<LoggedRow>, Error> {
    let _moment = conn.moment()?;
    let statement = "SELECT seq, kind, body, run, thread, at FROM events";
    let mut log = find_all(conn, statement, [], |row| {
        Ok(LoggedRow { event: stored_event(id(row, 4)?, row)?, at: row.get(5)? })
    })?;
    let mut find = conn.prepare("SELECT first, body, run, thread, at FROM packed_deltas")?;
    let mut rows = find.query([])?;
    while let Some(row) = &rows.next()? {
        let (thread, run, at): (ThreadId, RunId, _) = (id(row, 3)?, id(row, 2)?, row.get(4)?);
        let body = row.value(1)?.as_blob()?;
        log.extend(delta_events(thread, run, count(row, 0)?, body).map(|event| LoggedRow { event, at }));
    }
    for range in logged_ranges(conn)? {
        let statement = "SELECT next_seq FROM threads WHERE id = ?1";
        let next = find_first(conn, statement, [range.thread.bytes()], |row| count(row, 0))?;
        // Older deltas are packed.
        if next.is_some_and(|next| range.first >= next) {
            log.extend(range.events().map(|event| LoggedRow { event, at: None }));
        }
    }
    log.sort_by_key(|row| (row.event.thread, row.event.seq));
    Ok(log)
}
