//! The whole log of a database, for those who check it from outside.

use std::path::Path;

use protocol::{Stored, ThreadId};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::deltas::{delta_events, logged_ranges};
use super::events::stored;
use super::read::{count, id, maybe_id};
use super::statements::Performer;
use super::{FILE, reader};
use crate::Error;

/// An event, and when it was stored, in milliseconds since 1970. Deltas that are not packed have no time.
pub struct LoggedRow {
    pub event: Stored,
    pub at: Option<i64>,
}

/// All events of a data folder in the order of their threads and numbers, wherever the database has them.
pub fn whole_log(folder: &Path) -> Result<Vec<LoggedRow>, Error> {
    let conn = reader(&folder.join(FILE), Performer::Audit)?;
    let moment = conn.unchecked_transaction()?;
    of_moment(&moment)
}

fn of_moment(conn: &Connection) -> Result<Vec<LoggedRow>, Error> {
    let mut log = Vec::new();
    let mut find = conn.prepare("SELECT seq, kind, body, run, thread, at FROM events")?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        log.push(LoggedRow { event: stored(id(row, 4)?, row)?, at: row.get(5)? });
    }
    let mut find = conn.prepare("SELECT first, body, run, thread, at FROM packed_deltas")?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        let thread: ThreadId = id(row, 3)?;
        let (ValueRef::Blob(body), Some(run)) = (row.get_ref(1)?, maybe_id(row, 2)?) else { continue };
        let at = row.get(4)?;
        log.extend(delta_events(thread, run, count(row, 0)?, body).map(|event| LoggedRow { event, at }));
    }
    for range in logged_ranges(conn)? {
        let mut next = conn.prepare_cached("SELECT next_seq FROM threads WHERE id = ?1")?;
        let next: Result<i64, _> = next.query_row([range.thread.bytes()], |row| row.get(0));
        // What is older is packed.
        if next.is_ok_and(|next| range.first >= u64::try_from(next).unwrap_or(0)) {
            log.extend(range.events().map(|event| LoggedRow { event, at: None }));
        }
    }
    log.sort_by_key(|row| (row.event.thread, row.event.seq));
    Ok(log)
}
