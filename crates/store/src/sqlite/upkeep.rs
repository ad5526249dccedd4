//! The duties of the one writer of a SQLite file: how hard a commit tries to reach the disk, checkpoints, and the lock of
//! the folder.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::checkpoint::{Checkpointer, full_or_failed};
use super::{BUSY_TIMEOUT, file_of};
use crate::Error;
use crate::sql::{CommitKind, POWER_LOSS_MARGIN, SqlConnection, Upkeep, WalRestart};

pub(crate) struct SqliteUpkeep {
    /// The write-ahead log.
    wal: PathBuf,
    checkpointer: Checkpointer,
    /// The sync level in force, if known.
    sync: Option<SyncLevel>,
    /// Events committed since the last sync: what a power failure can take, though it was published.
    unsynced: u64,
    wal_restart: Arc<WalRestart>,
    /// Last, so that the folder is free only when the database is closed.
    _lock: File,
}

/// How hard a commit tries to reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncLevel {
    /// Survives the process, and the machine once the next promise is committed.
    Normal,
    /// Survives a power failure.
    Full,
}

impl SyncLevel {
    fn of(kind: CommitKind) -> Self {
        match kind {
            CommitKind::Promise => SyncLevel::Full,
            CommitKind::Ahead | CommitKind::Deltas => SyncLevel::Normal,
        }
    }
}

impl SqliteUpkeep {
    pub(super) fn start(
        conn: &mut Connection,
        checkpoints: Connection,
        wal: PathBuf,
        lock: File,
    ) -> Result<Self, Error> {
        let checkpointer = Checkpointer::start(conn, checkpoints)?;
        checkpointer.watch(conn)?;
        Ok(Self { wal, checkpointer, sync: None, unsynced: 0, wal_restart: Arc::default(), _lock: lock })
    }

    /// Sets how hard the next commit tries to reach the disk. It cannot be changed inside a transaction.
    fn set_level(&mut self, conn: &Connection, sync: SyncLevel) -> Result<(), Error> {
        if self.sync != Some(sync) {
            let level = match sync {
                SyncLevel::Normal => "PRAGMA synchronous = NORMAL",
                SyncLevel::Full => "PRAGMA synchronous = FULL",
            };
            conn.prepare_cached(level)?.execute([])?;
            self.sync = Some(sync);
        }
        Ok(())
    }
}

impl Upkeep for SqliteUpkeep {
    fn wal_restart(&self) -> Arc<WalRestart> {
        Arc::clone(&self.wal_restart)
    }

    fn begin(&mut self, conn: &mut SqlConnection, kind: CommitKind) -> Result<(), Error> {
        let conn = file_of(conn)?;
        self.set_level(conn, SyncLevel::of(kind))?;
        let begun = conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]);
        begun.map_err(|error| full_or_failed(conn, Error::of_begin(error)))?;
        Ok(())
    }

    fn explain(&self, conn: &SqlConnection, error: Error) -> Error {
        // A full disk is told from one that fails.
        match file_of(conn) {
            Ok(conn) => full_or_failed(conn, error),
            Err(_) => error,
        }
    }

    fn end(&mut self, conn: &mut SqlConnection, is_commit: bool) -> Result<(), Error> {
        let conn = file_of(conn)?;
        let end = if is_commit { "COMMIT" } else { "ROLLBACK" };
        let ended = conn.prepare_cached(end)?.execute([]).map_err(|error| full_or_failed(conn, error.into()));
        if ended.is_err() && !conn.is_autocommit() {
            // A failed commit leaves the transaction open; a failed rollback has closed it already.
            drop(conn.execute_batch("ROLLBACK"));
        }
        ended.map(drop)
    }

    /// Syncs what was only written before it is as much as the numbers that are left out after a power failure.
    fn bound_loss(&mut self, kind: CommitKind, events: usize) -> Result<(), Error> {
        self.unsynced += events as u64;
        let synced = match SyncLevel::of(kind) {
            // A commit that writes nothing syncs nothing either.
            SyncLevel::Full => events > 0,
            SyncLevel::Normal if self.unsynced >= POWER_LOSS_MARGIN => {
                File::open(&self.wal).and_then(|wal| wal.sync_data()).map_err(Error::Folder)?;
                true
            }
            SyncLevel::Normal => false,
        };
        if synced {
            self.unsynced = 0;
        }
        Ok(())
    }

    fn after_commit(&self, conn: &SqlConnection) -> bool {
        let Ok(conn) = file_of(conn) else { return false };
        self.checkpointer.after_commit(conn);
        if self.wal_restart.is_wanted_now() {
            self.wal_restart.note_attempt(self.checkpointer.start_afresh(conn, Duration::ZERO));
        }
        !self.checkpointer.is_broken()
    }

    /// Moves the rest of the write-ahead log into the database, so that the log is empty.
    fn close(&self, conn: &SqlConnection) {
        if let Ok(conn) = file_of(conn) {
            self.checkpointer.start_afresh(conn, BUSY_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::writing_to;
    use super::*;

    #[test]
    fn what_a_power_failure_can_take_is_less_than_the_numbers_left_out_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut upkeep = writing_to(folder.path()).1;
        let almost = usize::try_from(POWER_LOSS_MARGIN - 1).unwrap();
        let mut after = |kind, events| {
            upkeep.bound_loss(kind, events).unwrap();
            upkeep.unsynced
        };
        assert_eq!(after(CommitKind::Ahead, almost), POWER_LOSS_MARGIN - 1);
        assert_eq!(after(CommitKind::Promise, 0), POWER_LOSS_MARGIN - 1, "an empty commit syncs nothing");
        assert_eq!(after(CommitKind::Ahead, 1), 0);
        assert_eq!(after(CommitKind::Ahead, 2 * almost), 0, "one batch can be too much by itself");
        assert_eq!(after(CommitKind::Ahead, 7), 7);
        assert_eq!(after(CommitKind::Promise, 1), 0);
    }

    #[test]
    fn a_sync_that_fails_ends_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let mut upkeep = writing_to(folder.path()).1;
        upkeep.wal = folder.path().join("gone");
        let too_many = usize::try_from(POWER_LOSS_MARGIN).unwrap();
        assert!(upkeep.bound_loss(CommitKind::Ahead, too_many).unwrap_err().is_broken());
    }
}
