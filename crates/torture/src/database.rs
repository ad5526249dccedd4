//! The database of the server under test, opened only for reading.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// How long a read waits for a writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The database in a data folder. The server may be running.
pub(crate) fn open_database(data: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(data.join("rondo.db"), flags)?;
    conn.busy_timeout(PATIENCE)?;
    Ok(conn)
}
