//! Keeps the write-ahead log short without making the writer wait: another connection copies it into the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use rusqlite::Connection;

use crate::Error;

/// Pages (of 4 KiB) after which the other connection begins to copy.
const SOFT_PAGES: i32 = 1_000;

/// Pages after which the writer itself finishes the copy and starts the log afresh. It bounds the log at 32 MiB
/// while writes never pause, which is when the other connection alone can never catch up.
const HARD_PAGES: i32 = 8_000;

pub(super) struct Checkpointer {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    wake: SyncSender<()>,
}

impl Checkpointer {
    pub(super) fn start(writer: &Connection, conn: Connection) -> Result<Self, Error> {
        writer.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        let (wake, woken) = sync_channel::<()>(1);
        let copy = move || {
            while woken.recv().is_ok() {
                if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
                    tracing::warn!(%error, "a checkpoint failed and will be tried again");
                }
            }
        };
        thread::Builder::new().name("rondo-checkpoint".into()).spawn(copy).map_err(Error::Folder)?;
        Ok(Self { pages: Arc::default(), wake })
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
            if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())) {
                tracing::warn!(%error, "a checkpoint failed and will be tried again");
            }
        } else if pages > SOFT_PAGES {
            let _already_woken = self.wake.try_send(()).is_err();
        }
    }
}
