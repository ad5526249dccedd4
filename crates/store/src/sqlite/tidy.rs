//! After something was removed: free pages go back to the file system, and the write-ahead log is started afresh, so that
//! no file holds what is gone. Removed bytes are overwritten with zeros as they are removed (`secure_delete`).

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use rusqlite::{Connection, OpenFlags};

use super::append::Batch;
use super::checkpoint::start_afresh;
use super::read::{find_only, has_any};
use super::{FILE, connect, lock, migrate};
use crate::Error;

/// Pages (of 4 KiB) given back in one transaction: a few milliseconds, so that streams do not feel it.
const PAGES_PER_STEP: i64 = 256;

/// Free pages that stay in the file for what is written next.
const KEPT_PAGES: i64 = 256;

/// What `PRAGMA auto_vacuum` says of a database that can give pages back.
const INCREMENTAL: i64 = 2;

/// Names that something was removed which may still be in the write-ahead log.
const REMOVED: &str = "removed";

/// Whether the write-ahead log is to be started afresh after the next commit.
#[derive(Debug, Default)]
pub(super) struct Afresh(AtomicU8);

impl Afresh {
    const NO: u8 = 0;
    const NOW: u8 = 1;
    /// Somebody read an old moment when it was tried.
    const LATER: u8 = 2;

    pub(super) fn is_wanted_now(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::NOW
    }

    pub(super) fn is_left(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::LATER
    }

    pub(super) fn tried(&self, done: bool) {
        self.0.store(if done { Self::NO } else { Self::LATER }, Ordering::Release);
    }

    fn want(&self) {
        self.0.store(Self::NOW, Ordering::Release);
    }
}

/// Something was removed that no file may hold.
pub(super) fn removed(batch: &Batch<'_>) -> Result<(), Error> {
    note_removed(batch.conn())
}

pub(super) fn note_removed(conn: &Connection) -> Result<(), Error> {
    conn.prepare_cached("INSERT INTO state (name, value) VALUES (?1, '') ON CONFLICT DO NOTHING")?
        .execute([REMOVED])?;
    Ok(())
}

/// Whether there is anything to do.
pub(super) fn is_due(conn: &Connection, afresh: &Afresh) -> Result<bool, Error> {
    Ok(afresh.is_left() || is_removed(conn)? || spare_pages(conn)? > 0)
}

fn is_removed(conn: &Connection) -> Result<bool, Error> {
    has_any(conn, "SELECT 1 FROM state WHERE name = ?1", [REMOVED])
}

/// Free pages that can be given back, if this database can do that.
fn spare_pages(conn: &Connection) -> Result<i64, Error> {
    let number = |pragma: &str| -> Result<i64, Error> { find_only(conn, pragma, [], |row| row.get(0)) };
    if number("PRAGMA auto_vacuum")? != INCREMENTAL {
        return Ok(0);
    }
    Ok((number("PRAGMA freelist_count")? - KEPT_PAGES).max(0))
}

/// Gives some pages back, or, when there are none, has the log started afresh. True when more is left.
pub(super) fn step(batch: &Batch<'_>, afresh: &Afresh) -> Result<bool, Error> {
    let spare = spare_pages(batch.conn())?.min(PAGES_PER_STEP);
    if spare > 0 {
        let mut give = batch.conn().prepare(&format!("PRAGMA incremental_vacuum({spare})"))?;
        let mut steps = give.query([])?;
        while steps.next()?.is_some() {}
        return Ok(true);
    }
    if afresh.is_left() || is_removed(batch.conn())? {
        batch.execute("DELETE FROM state WHERE name = ?1", [REMOVED])?;
        afresh.want();
    }
    Ok(false)
}

/// Writes the database of a folder anew, without free pages and without anything that was removed, and makes it one that
/// gives pages back. It takes as much space again while it works, and the folder for itself. Gives its bytes before and
/// after.
pub fn compact(folder: &Path) -> Result<(u64, u64), Error> {
    let path = folder.join(FILE);
    let size = || std::fs::metadata(&path).map(|file| file.len()).map_err(Error::Folder);
    size()?; // a folder without a database is none of ours
    let _lock = lock(folder)?;
    let mut conn = connect(&path, OpenFlags::default())?;
    migrate::migrate(&mut conn)?;
    start_afresh(&conn)?;
    let before = size()?;
    conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")?;
    if !start_afresh(&conn)? {
        return Err(Error::Overloaded);
    }
    Ok((before, size()?))
}
