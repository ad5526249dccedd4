//! Databases for the tests of transactions, and the SQLite file behind a connection.

use super::*;

/// The file behind a connection, for tests that count what SQLite does, or let it fail.
pub(crate) fn raw(conn: &SqlConnection) -> &Connection {
    file_of(conn).unwrap()
}

pub(crate) fn raw_mut(conn: &mut SqlConnection) -> &mut Connection {
    match conn {
        SqlConnection::Sqlite(conn) => conn,
        SqlConnection::Postgres(_) => panic!("not a file"),
    }
}

/// A new database in memory.
pub(crate) fn in_memory() -> SqlConnection {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut conn).unwrap();
    SqlConnection::Sqlite(conn)
}

/// A new database in a folder, and what its writer sees to.
pub(crate) fn writing_to(folder: &Path) -> (SqlConnection, SqliteUpkeep) {
    let path = folder.join(FILE);
    let mut conn = connect(&path, OpenFlags::default()).unwrap();
    migrate::migrate(&mut conn).unwrap();
    let checkpoints = checkpoint::connect_to_checkpoint(&path).unwrap();
    let wal = folder.join(format!("{FILE}-wal"));
    let upkeep = SqliteUpkeep::start(&mut conn, checkpoints, wal, lock(folder).unwrap()).unwrap();
    (SqlConnection::Sqlite(conn), upkeep)
}
