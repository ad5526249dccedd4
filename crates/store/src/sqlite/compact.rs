//! The database of a folder, written anew.

use std::path::Path;

use rusqlite::OpenFlags;

use super::checkpoint::start_afresh;
use super::{FILE, connect, lock, migrate};
use crate::Error;

/// Writes the database of a folder anew, without free pages and without anything that was removed, and makes it one that
/// gives pages back. It takes as much space again while it works, and the folder for itself. Gives its bytes before and
/// after.
pub fn compact(folder: &Path) -> Result<(u64, u64), Error> {
    let path = folder.join(FILE);
    let size = || std::fs::metadata(&path).map(|file| file.len()).map_err(Error::Folder);
    size()?; // a folder without a database is none of ours
    let _lock = lock(folder)?;
    let mut conn = connect(&path, OpenFlags::default())?;
    migrate::migrate(&mut conn)?;
    start_afresh(&conn)?;
    let before = size()?;
    conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")?;
    if !start_afresh(&conn)? {
        return Err(Error::Overloaded);
    }
    Ok((before, size()?))
}
