//! After something was removed: free pages go back to the file system, and the write-ahead log is started anew, so that
//! no file holds what is gone. Removed bytes are overwritten with zeros as they are removed (`secure_delete`).

use std::sync::atomic::{AtomicU8, Ordering};

use super::SqlConnection;
use super::append::Batch;
use super::read::has_any;
use crate::Error;

/// Pages (of 4 KiB) given back in one transaction: a few milliseconds, so that streams do not feel it.
const PAGES_PER_STEP: i64 = 256;

/// Free pages that stay in the file for what is written next.
const KEPT_PAGES: i64 = 256;

/// The answer of `PRAGMA auto_vacuum` for a database that can give pages back.
const INCREMENTAL: i64 = 2;

/// Names that something was removed which may still be in the write-ahead log.
const REMOVED: &str = "removed";

/// Whether the write-ahead log is to be started anew after the next commit.
#[derive(Debug, Default)]
pub(crate) struct WalRestart(AtomicU8);

impl WalRestart {
    const NO: u8 = 0;
    const NOW: u8 = 1;
    /// A reader of an old moment was in the way at the last attempt.
    const LATER: u8 = 2;

    pub(crate) fn is_wanted_now(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::NOW
    }

    pub(crate) fn is_left(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::LATER
    }

    pub(crate) fn note_attempt(&self, done: bool) {
        self.0.store(if done { Self::NO } else { Self::LATER }, Ordering::Release);
    }

    fn request_cleanup(&self) {
        self.0.store(Self::NOW, Ordering::Release);
    }
}

/// Something was removed that no file may hold.
pub(crate) fn note_removed(conn: &SqlConnection) -> Result<(), Error> {
    conn.execute("INSERT INTO state (name, value) VALUES (?1, '') ON CONFLICT DO NOTHING", [REMOVED])
}

/// Whether there is anything to do.
pub(super) fn is_due(conn: &SqlConnection, restart: &WalRestart) -> Result<bool, Error> {
    match conn {
        SqlConnection::Sqlite(file) => Ok(restart.is_left() || is_removed(conn)? || spare_pages(file)? > 0),
        SqlConnection::Postgres(_) => Ok(false),
    }
}

fn is_removed(conn: &SqlConnection) -> Result<bool, Error> {
    has_any(conn, "SELECT 1 FROM state WHERE name = ?1", [REMOVED])
}

/// Free pages that can be given back, if this database can do that.
fn spare_pages(conn: &rusqlite::Connection) -> Result<i64, Error> {
    let number = |pragma: &str| -> Result<i64, Error> {
        Ok(conn.prepare_cached(pragma)?.query_row([], |row| row.get(0))?)
    };
    if number("PRAGMA auto_vacuum")? != INCREMENTAL {
        return Ok(0);
    }
    Ok((number("PRAGMA freelist_count")? - KEPT_PAGES).max(0))
}

/// Gives some pages back, or, when there are none, has the log started anew. True when more is left.
pub(super) fn step(batch: &Batch<'_>, restart: &WalRestart) -> Result<bool, Error> {
    let SqlConnection::Sqlite(file) = batch.conn() else { return Ok(false) };
    let spare = spare_pages(file)?.min(PAGES_PER_STEP);
    if spare > 0 {
        let mut give = file.prepare(&format!("PRAGMA incremental_vacuum({spare})"))?;
        let mut steps = give.query([])?;
        while steps.next()?.is_some() {}
        return Ok(true);
    }
    if restart.is_left() || is_removed(batch.conn())? {
        batch.execute("DELETE FROM state WHERE name = ?1", [REMOVED])?;
        restart.request_cleanup();
    }
    Ok(false)
}
