//! Keeps the write-ahead log short without making the writer wait: another connection copies it into the database.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::BUSY_TIMEOUT;
use crate::Error;

/// Pages (of 4 KiB) after which the other connection begins to copy.
const SOFT_PAGES: i32 = 4_000;

/// Pages after which the writer itself finishes the copy and starts the log anew. It bounds the log at 32 MiB while
/// writes never pause, which is when the other connection alone can never catch up. Only a reader that stays at an old
/// moment, such as a backup, lets it grow beyond. The writer does not wait for this reader.
const HARD_PAGES: i32 = 8_000;

pub(super) struct Checkpointer {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    wake: SyncSender<()>,
    state: Arc<State>,
}

/// How checkpoints have fared.
#[derive(Default)]
struct State {
    /// The last one failed, and that was said.
    failed: AtomicBool,
    /// Held while one is under way: SQLite does not let another wait for it, but has it fail.
    turn: Mutex<()>,
    /// The disk has failed one. Another that succeeds would prove nothing, and would release the log.
    broken: AtomicBool,
}

impl State {
    fn checkpoint(&self, conn: &Connection, perform: impl FnOnce(&Connection) -> rusqlite::Result<()>) {
        let Some(_turn) = self.turn.try_lock().ok().filter(|_| !self.broken.load(Ordering::Acquire)) else {
            return;
        };
        self.note(perform(conn).map_err(|error| full_or_failed(conn, error.into())));
    }

    /// Notes how a checkpoint has fared.
    fn note<T>(&self, checkpointed: Result<T, Error>) -> Option<T> {
        match checkpointed {
            Ok(done) => {
                self.failed.store(false, Ordering::Relaxed);
                return Some(done);
            }
            Err(error) if error.is_broken() => {
                tracing::error!(%error, "the disk failed during a checkpoint");
                self.broken.store(true, Ordering::Release);
            }
            Err(error) if !self.failed.swap(true, Ordering::Relaxed) => {
                tracing::warn!(%error, "a checkpoint failed and will be tried again");
            }
            Err(_) => {}
        }
        None
    }
}

impl Checkpointer {
    pub(super) fn start(writer: &Connection, conn: Connection) -> Result<Self, Error> {
        writer.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        let (wake, woken) = sync_channel::<()>(1);
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let copy = move || {
            while woken.recv().is_ok() {
                shared.checkpoint(&conn, |conn| copy_log(conn).map(drop));
            }
        };
        thread::Builder::new().name("rondo-checkpoint".into()).spawn(copy).map_err(Error::Folder)?;
        Ok(Self { pages: Arc::default(), wake, state })
    }

    /// Notes the length of the log after each commit of `conn`.
    pub(super) fn watch(&self, conn: &mut Connection) -> Result<(), Error> {
        let pages = Arc::clone(&self.pages);
        let note = move |_: &mut rusqlite::hooks::Wal, count| {
            pages.store(count, Ordering::Relaxed);
            Ok(())
        };
        Ok(conn.wal_hook(Some(note))?)
    }

    pub(super) fn after_commit(&self, conn: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages > HARD_PAGES {
            // A reader of an old moment is not waited for: all writes would wait as well.
            let _cannot_fail = conn.busy_timeout(Duration::ZERO);
            self.state
                .checkpoint(conn, |conn| conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())));
            let _cannot_fail = conn.busy_timeout(BUSY_TIMEOUT);
        } else if pages > SOFT_PAGES {
            let _already_woken = self.wake.try_send(()).is_err();
        }
    }

    /// Copies all of the log and empties it, unless a reader stays at an old moment for `patience`. True when that is
    /// done.
    pub(super) fn start_afresh(&self, conn: &Connection, patience: Duration) -> bool {
        if self.is_broken() {
            return false;
        }
        let _turn = self.state.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _cannot_fail = conn.busy_timeout(patience);
        let done = self.state.note(start_afresh(conn)).unwrap_or(false);
        let _cannot_fail = conn.busy_timeout(BUSY_TIMEOUT);
        done
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Acquire)
    }
}

/// Tells a disk that has no space, such as for a user whose quota is used up, from one that fails. SQLite calls both an
/// error of the disk unless the system has said `ENOSPC`, and keeps what the system did say.
pub(super) fn full_or_failed(conn: &Connection, error: Error) -> Error {
    #[expect(unsafe_code, reason = "rusqlite does not tell what the system has said")]
    // SAFETY: the connection is open for as long as it is borrowed, and the call only reads a number from it.
    let system = unsafe { rusqlite::ffi::sqlite3_system_errno(conn.handle()) };
    error.of_system(system)
}

/// A connection that only copies the log. It does not parse the schema, which takes time and memory.
pub(super) fn connect_to_checkpoint(path: &Path) -> Result<Connection, Error> {
    let conn = Connection::open_with_flags(path, OpenFlags::default())?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // A connection opens the log when it first reads; this number is in the header of the file.
    conn.query_row("PRAGMA user_version", [], |_| Ok(()))?;
    Ok(conn)
}

/// Copies the part of the log that no reader needs. Gives the pages in the log, and those that are copied; none while
/// another connection copies.
fn copy_log(conn: &Connection) -> rusqlite::Result<(i32, i32)> {
    match conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok((0, 0)),
        copied => copied,
    }
}

/// Copies the whole write-ahead log into the database and empties it. False while a reader stays at an old moment.
pub(super) fn start_afresh(conn: &Connection) -> Result<bool, Error> {
    let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    Ok(busy.map_err(|error| full_or_failed(conn, error.into()))? == 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::writing_to;
    use super::super::{FILE, file_of};
    use super::*;

    #[test]
    fn the_connection_that_copies_the_log_copies_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, _upkeep) = writing_to(folder.path());
        let conn = file_of(&conn).unwrap();
        let copier = connect_to_checkpoint(&folder.path().join(FILE)).unwrap();
        conn.execute_batch("CREATE TABLE filled (x BLOB) STRICT").unwrap();
        conn.execute("INSERT INTO filled VALUES (zeroblob(1000000))", []).unwrap();
        let (pages, copied) = copy_log(&copier).unwrap();
        assert!(pages > 200 && copied == pages, "{copied} of {pages}");

        let reader = connect_to_checkpoint(&folder.path().join(FILE)).unwrap();
        reader.execute_batch("BEGIN; PRAGMA user_version").unwrap();
        conn.execute("INSERT INTO filled VALUES (zeroblob(1000000))", []).unwrap();
        let (pages, copied) = copy_log(&copier).unwrap();
        assert!(copied < pages, "{copied} of {pages}: somebody reads the old moment");
    }
}
