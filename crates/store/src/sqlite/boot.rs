//! What is done before the first write: after a power failure, and in a copy that was restored, numbers are left out of
//! the threads' sequences, because clients may have seen events under them that are lost.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::read::sql;
use crate::Error;

/// Numbers that a thread leaves out after a power failure. The writer never lets as many events be published before the
/// next sync to the disk, over all threads, so no number that anybody has seen is given out again.
pub(super) const POWER_LOSS_MARGIN: u64 = 10_000;

/// The same for a thread of a restored copy. Nobody knows how much was seen after the copy was made; these are the events
/// of a thousand long answers in one thread.
const RESTORED_MARGIN: u64 = 1_000_000;

/// Marks a copy until it is opened for the first time.
const RESTORED: &str = "restored";
const BOOT: &str = "boot";

/// Where Linux says which start of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// None where the system does not say; then any start may be the first since the power failed.
pub(super) fn of_this_machine() -> Option<String> {
    let id = std::fs::read_to_string(BOOT_ID).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Leaves numbers out where that is due, and notes under which start of the machine the database is open.
pub(super) fn begin(conn: &mut Connection, boot: Option<String>, now: Timestamp) -> Result<(), Error> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let is_copy = state(&tx, RESTORED)?.is_some();
    let before = state(&tx, BOOT)?;
    if !is_copy && before.is_some() && before == boot {
        return Ok(());
    }
    let (reason, margin) =
        if is_copy { (RESTORED, RESTORED_MARGIN) } else { ("power loss", POWER_LOSS_MARGIN) };
    // Of a copy all threads, once; else those that were written to, however many others there are.
    let which = if is_copy { "1" } else { "id IN (SELECT thread FROM runs WHERE ended_at IS NULL)" };
    let threads = tx.execute(
        &format!(
            "INSERT INTO skipped (thread, first, last, reason, at)
                SELECT id, next_seq, next_seq + ?1 - 1, ?2, ?3 FROM threads WHERE {which}"
        ),
        params![sql(margin), reason, now.as_millisecond()],
    )?;
    tx.execute(&format!("UPDATE threads SET next_seq = next_seq + ?1 WHERE {which}"), [sql(margin)])?;
    tx.execute("DELETE FROM state WHERE name IN (?1, ?2)", [RESTORED, BOOT])?;
    if let Some(boot) = boot {
        tx.execute("INSERT INTO state (name, value) VALUES (?1, ?2)", [BOOT, &boot])?;
    }
    tx.commit()?;
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

/// Marks a copy as one, so that numbers are left out when it is first opened.
pub(super) fn mark_as_copy(conn: &Connection) -> Result<(), Error> {
    conn.execute("INSERT OR REPLACE INTO state (name, value) VALUES (?1, '')", [RESTORED])?;
    Ok(())
}

fn state(tx: &Transaction<'_>, name: &str) -> Result<Option<String>, Error> {
    let mut find = tx.prepare("SELECT value FROM state WHERE name = ?1")?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}
