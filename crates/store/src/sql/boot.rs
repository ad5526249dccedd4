//! The steps before the first write: after a power failure, and in a copy that was restored, numbers are left out of
//! the threads' sequences, because clients may have seen events under them that are lost.

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;

use super::read::{find_first, sql};
use crate::Error;

/// Numbers that a thread leaves out after a power failure. The writer never lets as many events be published before the
/// next sync to the disk, over all threads, so no number that a client has seen is given out again.
pub(crate) const POWER_LOSS_MARGIN: u64 = 10_000;

/// Numbers that a thread of a restored copy leaves out. Clients may have seen events that are newer than the copy;
/// these are the events of a thousand long answers in one thread.
const RESTORED_MARGIN: u64 = 1_000_000;

/// Marks a copy until it is opened for the first time.
pub(crate) const RESTORED: &str = "restored";
const BOOT: &str = "boot";

/// Marks a database while another is copied into it.
pub(crate) const COPYING: &str = "copying";

/// Marks a complete copy until a server opens it: the next copy may still change it.
pub(crate) const COPIED: &str = "copied";

/// Leaves numbers out where that is due, and notes under which start of the machine the database is open.
pub(crate) fn begin(conn: &SqlConnection, boot: Option<&str>, now: Timestamp) -> Result<(), Error> {
    if state(conn, COPYING)?.is_some() {
        let what = "the data are a copy that is not complete; run `rondo copy` again";
        return Err(Error::Unusable(what.to_owned()));
    }
    conn.transaction(|conn| {
        conn.execute("DELETE FROM state WHERE name = ?1", [COPIED])?;
        leave_numbers_out(conn, boot, now)
    })
}

/// Notes under which start of the machine the database is open.
pub(crate) fn set_boot(conn: &SqlConnection, boot: Option<&str>) -> Result<(), Error> {
    conn.execute("DELETE FROM state WHERE name = ?1", [BOOT])?;
    boot.map_or(Ok(()), |boot| conn.execute("INSERT INTO state (name, value) VALUES (?1, ?2)", [BOOT, boot]))
}

fn leave_numbers_out(conn: &SqlConnection, boot: Option<&str>, now: Timestamp) -> Result<(), Error> {
    let is_copy = state(conn, RESTORED)?.is_some();
    let before = state(conn, BOOT)?;
    if !is_copy && before.is_some() && before.as_deref() == boot {
        return Ok(());
    }
    let (reason, margin) =
        if is_copy { (RESTORED, RESTORED_MARGIN) } else { ("power loss", POWER_LOSS_MARGIN) };
    // Of a copy all threads, once; else those that were written to, however many others there are.
    let which = if is_copy { "1 = 1" } else { "id IN (SELECT thread FROM runs WHERE ended_at IS NULL)" };
    let threads = conn.count_changed(
        &format!(
            "INSERT INTO skipped (thread, first, last, reason, at)
                SELECT id, next_seq, next_seq + ?1 - 1, ?2, ?3 FROM threads WHERE {which}"
        ),
        params![sql(margin), reason, now.as_millisecond()],
    )?;
    conn.execute(&format!("UPDATE threads SET next_seq = next_seq + ?1 WHERE {which}"), [sql(margin)])?;
    conn.execute("DELETE FROM state WHERE name = ?1", [RESTORED])?;
    set_boot(conn, boot)?;
    if threads > 0 {
        tracing::warn!(
            threads,
            numbers = margin,
            reason,
            "event numbers are skipped, so that the number of a lost event is not used again"
        );
    }
    Ok(())
}

fn state(conn: &SqlConnection, name: &str) -> Result<Option<String>, Error> {
    find_first(conn, "SELECT value FROM state WHERE name = ?1", [name], |row| row.get(0))
}
