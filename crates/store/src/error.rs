//! What a store can answer instead of a result, by what the caller can do.

use protocol::Allowance;

/// A store's failure. The first ten are the caller's to explain, the rest end the work at hand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such {0}")]
    NotFound(&'static str),
    /// The thread already has a run under way.
    #[error("the thread has a run under way")]
    Busy,
    /// As many messages wait for the thread as may.
    #[error("too many messages wait for the thread")]
    QueueFull,
    /// As much is remembered of the user in this app as may be.
    #[error("too much is remembered already")]
    MemoriesFull,
    /// The user has done as much as may be done for now.
    #[error("nothing is left of {}", .0.quota.name())]
    Limited(Allowance),
    /// The key was used for something else.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// What was to be changed has changed meanwhile, or cannot be; in words for people.
    #[error("{0}")]
    Changed(String),
    /// The proposal was decided before, or its time is over.
    #[error("the proposal is {0}")]
    Decided(&'static str),
    /// Somebody else owns this now; what this owner does no longer counts.
    #[error("another owner has taken over")]
    Fenced,
    /// There is nothing to answer again.
    #[error("there is no message to answer")]
    NothingToAnswer,
    /// The disk is full. Reads still work, and writes will once there is space.
    #[error("the disk is full")]
    Full,
    /// Too much is waiting to be written. Try again soon.
    #[error("too many writes are waiting")]
    Overloaded,
    /// The writer is gone; the process is ending.
    #[error("the store is closed")]
    Closed,
    /// The transaction this was part of did not commit; nothing of it happened.
    #[error("the write was not committed")]
    Aborted,
    /// Another process uses this data folder.
    #[error(
        "the data folder {0} is in use by another process; stop it or choose another folder with RONDO_DATA"
    )]
    Locked(String),
    #[error("the database was made by a newer version of Rondo (schema {found}, this one knows {known})")]
    TooNew { found: i64, known: i64 },
    #[error("the data folder cannot be used: {0}")]
    Folder(#[source] std::io::Error),
    #[error("the database failed: {0}")]
    Sql(#[source] rusqlite::Error),
}

impl Error {
    /// What everybody in a batch is told when the batch did not commit.
    pub(crate) fn for_others(&self) -> Self {
        if matches!(self, Error::Full) { Error::Full } else { Error::Aborted }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::Full,
            _ => Error::Sql(error),
        }
    }
}
