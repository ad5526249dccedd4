//! SQLite: one file in the data folder. The folder's lock is the right to write.

mod backup;
mod checkpoint;
mod compact;
mod copy_ends;
mod migrate;
mod private_files;
mod statements;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::Clock;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use crate::sql::{Audited, wait_until_closed};
use crate::sql::{
    DELTA_PAUSE, DeltaLog, OpenDeltas, ReadThread, Readers, SqlConnection, SqlStore, StoreOptions, Writer,
    WriterParts, audit_of, begin_boot, note_removed, place_messages, restore_deltas,
};
use crate::webhooks::WebhookWatch;
use crate::{Error, Publish};
pub use backup::backup;
pub use compact::compact;
pub(crate) use copy_ends::{
    connect_to_fill, connect_to_read, drop_triggers, empty_database, make_triggers, write_all,
};
pub use private_files::{make_private_folder, mode_for_others};
use statements::Performer;
pub(crate) use upkeep::SqliteUpkeep;

/// The database's name in the data folder.
pub const FILE: &str = "rondo.db";

/// The lock in the folder of the process that has the database open.
const LOCK: &str = "lock";

/// How often, and how far apart, a locked folder is tried before it counts as in use by another process.
const LOCK_TRIES: u32 = 25;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// How long a connection waits for another. Only checkpoints and outside tools ever make one wait.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that read beside the writer.
const READERS: usize = 4;

/// Statements that a connection keeps compiled; more than it has.
const STATEMENTS: usize = 512;

/// Opens or creates the database of a folder, bringing its schema up to date. A second process on the same folder is
/// refused.
pub(crate) fn open_with(
    folder: &Path,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    options: StoreOptions,
) -> Result<SqlStore, Error> {
    make_private_folder(folder).map_err(Error::Folder)?;
    let lock = lock(folder)?;
    private_files::close_to_others(folder);
    let path = folder.join(FILE);
    // SQLite gives its other files the rights of this one.
    drop(private_files::open_private_file(&path).map_err(Error::Folder)?);
    let mut conn = connect(&path, OpenFlags::default())?;
    migrate::migrate(&mut conn)?;
    statements::note(&mut conn, Performer::Start)?;
    let conn = SqlConnection::Sqlite(conn);
    restore_deltas(&conn, clock.now().as_millisecond())?;
    // A process that was killed may have left what it had removed in the log.
    if !checkpoint::start_afresh(file_of(&conn)?)? {
        note_removed(&conn)?; // a reader stays at an old moment; the sweep tries again
    }
    place_messages(&conn)?;
    let StoreOptions { coalesce, boot, delta_pause, boundary, shared: _, vault: _ } = options;
    begin_boot(&conn, boot.or_else(of_this_machine).as_deref(), clock.now())?;
    let SqlConnection::Sqlite(mut conn) = conn else { return Err(Error::Closed) };
    statements::note(&mut conn, Performer::Writer)?;
    let checkpoints = checkpoint::connect_to_checkpoint(&path)?;
    let upkeep = SqliteUpkeep::start(&mut conn, checkpoints, folder.join(format!("{FILE}-wal")), lock)?;
    let connect = move || reader(&path, Performer::Reader).map(SqlConnection::Sqlite);
    let readers = Readers::open(READERS, ReadThread::Own, Box::new(connect))?;
    let open_deltas = Arc::<OpenDeltas>::default();
    let (delta_pause, webhooks) = (delta_pause.unwrap_or(DELTA_PAUSE), Arc::<WebhookWatch>::default());
    let owned = WriterParts {
        conn: SqlConnection::Sqlite(conn),
        upkeep: Box::new(upkeep),
        delta_pause,
        boundary,
        webhooks: Arc::clone(&webhooks),
        log: DeltaLog::new(Arc::clone(&open_deltas)),
        nodes: None,
    };
    let writer = Writer::start(owned, clock, publish)?;
    Ok(SqlStore::new(writer, readers, open_deltas, coalesce, webhooks))
}

/// The connection to a file, which every connection here is.
fn file_of(conn: &SqlConnection) -> Result<&Connection, Error> {
    match conn {
        SqlConnection::Sqlite(conn) => Ok(conn),
        SqlConnection::Postgres(_) => Err(Error::Closed),
    }
}

/// Looks through the database in a data folder as it is at one moment, through its ledger, and through the audit of admins.
pub fn audit(folder: &Path) -> Result<Audited, Error> {
    let conn = connect_to_examine(folder)?;
    migrate::require_newest(file_of(&conn)?)?;
    audit_of(&conn)
}

/// A connection that reads the database in a data folder, whether or not a server is using it.
pub(crate) fn connect_to_examine(folder: &Path) -> Result<SqlConnection, Error> {
    Ok(SqlConnection::Sqlite(reader(&folder.join(FILE), Performer::Audit)?))
}

/// The file in which Linux says which start of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// None where the system does not say; then any start may be the first since the power failed.
pub(crate) fn of_this_machine() -> Option<String> {
    let id = std::fs::read_to_string(BOOT_ID).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Locks the folder, giving an owner that is just ending a moment to do so. The lock ends with the file that is given.
pub fn lock(folder: &Path) -> Result<File, Error> {
    let file = private_files::open_private_file(&folder.join(LOCK)).map_err(Error::Folder)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            Err(TryLockError::Error(error)) => return Err(Error::Folder(error)),
        }
    }
    Err(Error::Locked(folder.display().to_string()))
}

/// A connection that can only read.
fn reader(path: &Path, performer: Performer) -> Result<Connection, Error> {
    let mut conn = connect(path, read_only())?;
    // The pages that a reader has cached are stale after the next commit, and a large cache takes long to empty.
    conn.execute_batch("PRAGMA cache_size = -2048;")?;
    statements::note(&mut conn, performer)?;
    Ok(conn)
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on values. Else a statement whose plan looks at one is compiled anew each time it is bound.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF;",
    )?;
    Ok(conn)
}
