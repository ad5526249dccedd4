//! Errors of the store, by what the caller can do about them.

use std::error::Error as _;
use std::io::ErrorKind;

use protocol::{Allowance, ClientCallStatus, Decision, MAX_STORED_DEPTH, MemoryId};

use crate::Stop;

/// A store's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    // Refusals of a request. The caller explains them to the client.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The thread already has a run under way.
    #[error("the thread has an active run")]
    Busy,
    /// As many messages wait for the thread as may.
    #[error("the queue of the thread is full")]
    QueueFull,
    /// As much is remembered of the user in this app as may be.
    #[error("the user has the maximum number of memories")]
    MemoriesFull,
    /// An active memory says the same.
    #[error("the memory {0} has the same content")]
    Known(MemoryId),
    /// The user has done as much as may be done for now.
    #[error("the limit of {} is used up", .0.quota.name())]
    Limited(Allowance),
    /// The key was used for something else.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The thing to be changed has changed meanwhile, or cannot be changed; in words for people.
    #[error("{0}")]
    Changed(String),
    /// The proposal was decided before, or its time is over.
    #[error("the proposal is {}", .0.name())]
    Decided(Decision),
    /// The call of the client has its result already, or its time is over.
    #[error("the call is {}", .0.name())]
    CallClosed(ClientCallStatus),
    /// The run was told to stop, so that nothing begins any more and it ends as it was told to.
    #[error("the run was told to stop: {}", .0.name())]
    Stopped(Stop),
    /// The event nests so deep that it could not be read back.
    #[error("a {0} event nests deeper than {MAX_STORED_DEPTH} levels")]
    TooDeep(&'static str),
    /// Another process owns the run. Writes of this process are refused.
    #[error("another process has taken over the run")]
    Fenced,
    /// The deltas of the run are gone, so what followed cannot be told event by event. Its facts are still there.
    #[error("the deltas of the run were pruned")]
    Pruned,
    /// There is nothing to answer again.
    #[error("there is no message to answer")]
    NothingToAnswer,

    // Failures of the store. They end the work at hand.
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
    #[error(
        "the database was made by a newer version of Rondo (schema {found}, this version knows {known}); use \
         the newer version, or restore a backup"
    )]
    TooNew { found: i64, known: i64 },
    #[error(
        "the database was made by an earlier version of Rondo (schema {found}, this version needs {known}); \
         start this version's server once, or use the earlier version"
    )]
    TooOld { found: i64, known: i64 },
    #[error("the data folder cannot be used: {0}")]
    Folder(#[source] std::io::Error),
    #[error("the database failed: {0}")]
    Sql(#[source] rusqlite::Error),
    #[error("the database failed: {}", in_words(.0))]
    Postgres(#[source] tokio_postgres::Error),
    /// PostgreSQL cannot be reached, or does not answer. It may come back.
    #[error("PostgreSQL cannot be reached: {0}")]
    Disconnected(String),
    /// The database knows less than was committed: a replica has taken its place that lacks some of it.
    #[error(
        "the database has lost commits that were confirmed, as a fail-over to a replica that was behind does; \
         check what is missing, then start the server again"
    )]
    Rewound,
    /// Another server has the database; in words for people.
    #[error("{0}")]
    InUse(String),
    /// A configured part cannot be used; in words for people.
    #[error("{0}")]
    Unusable(String),
    #[error("the database failed: a column does not hold {0}")]
    Column(&'static str),
}

/// Returns PostgreSQL's words, with the name of its code.
fn in_words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}

/// Codes of SQLite when it could not make a file larger: the database or its log, or the shared memory beside them.
const WRITES: &[i32] = &[
    rusqlite::ffi::SQLITE_IOERR_WRITE,
    rusqlite::ffi::SQLITE_IOERR_TRUNCATE,
    rusqlite::ffi::SQLITE_IOERR_SHMOPEN,
    rusqlite::ffi::SQLITE_IOERR_SHMSIZE,
    rusqlite::ffi::SQLITE_IOERR_SHMMAP,
    rusqlite::ffi::SQLITE_CANTOPEN,
];

/// Codes of PostgreSQL: a constraint refuses (class 23), or a value that the database cannot hold (class 22).
const REFUSALS: &[&str] = &["23", "22"];
const DISK_FULL: &str = "53100";
/// No connection (08), no resources (53), the server stops or starts (57P), an error of its system (58).
const PASSING: &[&str] = &["08", "53", "57P", "58"];
/// A transaction that PostgreSQL has given up: a conflict, a deadlock, an earlier failure, a timeout.
const ABORTED: &[&str] = &["40001", "40P01", "25P02", "57014", "55P03"];

/// An error and its causes.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        words.push_str(": ");
        words.push_str(&next.to_string());
        cause = next.source();
    }
    words
}

impl Error {
    /// Whether the same write may succeed a little later, in this process. A write that a constraint refuses is refused
    /// again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Full | Error::Overloaded | Error::Aborted | Error::Disconnected(_))
            || matches!(self, Error::Sql(_) | Error::Postgres(_)) && !self.is_refusal()
    }

    /// Whether the database cannot be reached, so that what is there can be read later.
    pub fn is_away(&self) -> bool {
        matches!(self, Error::Disconnected(_))
    }

    /// Whether the cause may last for long before it passes: a full disk, or a database that is away.
    pub fn lasts(&self) -> bool {
        matches!(self, Error::Full) || self.is_away()
    }

    /// Whether a constraint refused the change, as opposed to a failure of the disk or the connection.
    pub(crate) fn is_refusal(&self) -> bool {
        let of_file = |error: &rusqlite::Error| {
            error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
        };
        let of_server = |error: &tokio_postgres::Error| {
            error.code().is_some_and(|code| REFUSALS.iter().any(|class| code.code().starts_with(class)))
        };
        matches!(self, Error::Sql(error) if of_file(error))
            || matches!(self, Error::Postgres(error) if of_server(error))
    }

    /// Whether this owner has lost the work at hand: another owner has it, or the next start will.
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::Fenced | Error::Closed | Error::Folder(_)) || self.is_broken()
    }

    /// The error for every caller in a batch that did not commit.
    pub(crate) fn for_others(&self) -> Self {
        if self.is_broken() {
            Error::Closed
        } else if matches!(self, Error::Full) {
            Error::Full
        } else if matches!(self, Error::Overloaded) {
            Error::Overloaded
        } else if let Error::Disconnected(why) = self {
            Error::Disconnected(why.clone())
        } else {
            Error::Aborted
        }
    }

    /// Whether the disk has failed, so that nothing is known of what is on it.
    pub(crate) fn is_broken(&self) -> bool {
        let failed =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure);
        matches!(self, Error::Folder(_) | Error::Rewound)
            || matches!(self, Error::Sql(error) if failed(error))
    }

    /// Returns this error, or a full disk if it is a write for which the system has no space. A sync that fails is
    /// never that: what it should have brought to the disk is gone from memory by then.
    pub(crate) fn of_system(self, errno: i32) -> Self {
        let is_write = matches!(&self, Error::Sql(error) if extended_code(error).is_some_and(|code| WRITES.contains(&code)));
        let is_full = matches!(
            std::io::Error::from_raw_os_error(errno).kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        );
        if is_write && is_full { Error::Full } else { self }
    }

    /// A failure of PostgreSQL, by what can be done about it.
    pub(crate) fn of_postgres(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let is_lost =
                error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
            return if is_lost { Error::Disconnected(chain(&error)) } else { Error::Postgres(error) };
        };
        let code = said.code().code();
        if code == DISK_FULL {
            Error::Full
        } else if PASSING.iter().any(|class| code.starts_with(class)) {
            Error::Disconnected(in_words(&error))
        } else if ABORTED.contains(&code) {
            Error::Aborted
        } else {
            Error::Postgres(error)
        }
    }

    /// Why a transaction could not begin. Another process that writes for too long counts as a busy disk.
    pub(crate) fn of_begin(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy) => Error::Overloaded,
            _ => error.into(),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::Full,
            // The shared memory of the write-ahead log is a file too, and there is no space for it to grow.
            _ if extended_code(&error) == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => Error::Full,
            _ => Error::Sql(error),
        }
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
