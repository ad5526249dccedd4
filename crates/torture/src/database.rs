//! The data of the server under test, looked at from outside: a folder with a file of SQLite, or a PostgreSQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use store::inspection::number_of;
use store::postgres::PostgresAddress;

use crate::stage::TortureError;

/// How long a read waits for a writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which database the server under test has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TrialStore {
    Sqlite,
    Postgres,
}

impl TrialStore {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The place of a server's data.
#[derive(Debug, Clone)]
pub(crate) enum TrialData {
    Folder(PathBuf),
    Postgres(Box<PostgresAddress>),
}

impl TrialData {
    /// The number that a statement gives, which both databases understand.
    pub(crate) async fn number(&self, statement: String) -> Result<i64, TortureError> {
        let data = self.clone();
        tokio::task::spawn_blocking(move || data.number_now(&statement)).await?
    }

    fn number_now(&self, statement: &str) -> Result<i64, TortureError> {
        match self {
            Self::Folder(folder) => Ok(open_database(folder)?.query_row(statement, [], |row| row.get(0))?),
            Self::Postgres(address) => Ok(number_of(address, statement)?),
        }
    }
}

/// The database in a data folder. The server may be running.
pub(crate) fn open_database(data: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(data.join("rondo.db"), flags)?;
    conn.busy_timeout(PATIENCE)?;
    Ok(conn)
}
