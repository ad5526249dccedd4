//! A data folder as one end of a copy: read as it is, or filled row by row.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::statements::Performer;
use super::{FILE, connect, lock, make_private_folder, migrate, private_files, reader};
use crate::Error;
use crate::database::SqlConnection;

/// A connection that only reads, whether or not a server is using the folder.
pub(crate) fn connect_to_read(folder: &Path) -> Result<SqlConnection, Error> {
    let conn = reader(&folder.join(FILE), Performer::Audit)?;
    migrate::require_newest(&conn)?;
    Ok(SqlConnection::Sqlite(conn))
}

/// Returns the only connection that writes, with the lock of the folder. The folder and its tables are made if need be.
pub(crate) fn connect_to_fill(folder: &Path) -> Result<(SqlConnection, File), Error> {
    make_private_folder(folder).map_err(Error::Folder)?;
    let lock = lock(folder)?;
    let path = folder.join(FILE);
    drop(private_files::open_private_file(&path).map_err(Error::Folder)?);
    let mut conn = connect(&path, OpenFlags::default())?;
    migrate::migrate(&mut conn)?;
    conn.pragma_update(None, "foreign_keys", "OFF")?;
    Ok((SqlConnection::Sqlite(conn), lock))
}

/// A database in memory with the newest schema and nothing in it.
pub(crate) fn empty_database() -> Result<Connection, Error> {
    let mut conn = Connection::open_in_memory()?;
    migrate::migrate(&mut conn)?;
    Ok(conn)
}

/// Drops all triggers. [`make_triggers`] makes them again, also after a copy that was cut.
pub(crate) fn drop_triggers(conn: &Connection) -> Result<(), Error> {
    for (name, _) in triggers(conn)? {
        conn.execute_batch(&format!("DROP TRIGGER \"{name}\""))?;
    }
    Ok(())
}

/// Makes the triggers of the newest schema, and checks that each reference has its row.
pub(crate) fn make_triggers(conn: &Connection) -> Result<(), Error> {
    let there = triggers(conn)?;
    for (name, statement) in triggers(&empty_database()?)? {
        if there.iter().all(|(other, _)| *other != name) {
            conn.execute_batch(&statement)?;
        }
    }
    let lost = conn.prepare("PRAGMA foreign_key_check")?.exists([])?;
    if lost {
        let what = "a row of the copy names another row that is not there; the data of the source has a fault: \
            look at it with rondo audit";
        return Err(Error::Unusable(what.to_owned()));
    }
    Ok(())
}

fn triggers(conn: &Connection) -> Result<Vec<(String, String)>, Error> {
    let mut find =
        conn.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")?;
    let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Merges the index of words, so that it has no removed ones, and writes everything into the one file.
pub(crate) fn write_all(conn: &Connection) -> Result<(), Error> {
    conn.execute_batch("INSERT INTO records_text (records_text) VALUES ('optimize')")?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
