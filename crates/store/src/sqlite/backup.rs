//! A copy of the database while it is in use: all of it as it was at one moment.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::statements::Performer;
use super::{Audited, FILE, audit, migrate, private_files, reader, statements};
use crate::Error;
use crate::sql::RESTORED;

/// Pages (of 4 KiB) that are copied between two reports.
const PAGES_PER_STEP: i32 = 1_024;

/// How often a step is tried again while another process holds the database for itself.
const MAX_BUSY_STEPS: u32 = 100;

/// Copies the database of one folder into another, which must have none, whether or not a server is using it, and audits
/// the copy. `report` is told how many pages are done, of how many. When it returns the copy is closed, and one file; it
/// leaves numbers out when it is first opened, because clients may have seen events that came after it.
pub fn backup(from: &Path, into: &Path, mut report: impl FnMut(u64, u64)) -> Result<Audited, Error> {
    let source = reader(&from.join(FILE), Performer::Audit)?;
    // Held to the end: writes of that time are not part of the copy, and do not make it begin again.
    let moment = source.unchecked_transaction()?;
    migrate::require_newest(&moment)?;
    drop(private_files::open_private_file(&into.join(FILE)).map_err(Error::Folder)?);
    let mut copy = Connection::open_with_flags(into.join(FILE), OpenFlags::default())?;
    statements::note(&mut copy, Performer::Audit)?;
    pages(&moment, &mut copy, &mut report)?;
    copy.execute("INSERT OR REPLACE INTO state (name, value) VALUES (?1, '')", [RESTORED])?;
    copy.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    // A connection that only reads leaves files beside the database; closed last, this one takes them away.
    let audited = audit(into)?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(audited)
}

fn pages(from: &Connection, into: &mut Connection, report: &mut impl FnMut(u64, u64)) -> Result<(), Error> {
    let backup = Backup::new(from, into)?;
    let mut busy = 0;
    loop {
        match backup.step(PAGES_PER_STEP)? {
            StepResult::Done => return Ok(()),
            StepResult::More => busy = 0,
            StepResult::Busy | StepResult::Locked | _ if busy < MAX_BUSY_STEPS => {
                busy += 1;
                std::thread::sleep(super::LOCK_WAIT);
            }
            StepResult::Busy | StepResult::Locked | _ => return Err(Error::Overloaded),
        }
        let progress = backup.progress();
        let total = u64::try_from(progress.pagecount).unwrap_or(0);
        report(total.saturating_sub(u64::try_from(progress.remaining).unwrap_or(0)), total);
    }
}
