//! Apps whose folder is missing while something of theirs is unfinished.

use jiff::Timestamp;
use protocol::AppId;
use rusqlite::{Connection, params};

use super::append::Batch;
use super::read::{text, time};
use crate::Error;

pub(super) fn list(conn: &Connection) -> Result<Vec<(AppId, Timestamp)>, Error> {
    let mut find = conn.prepare_cached("SELECT app, since FROM missing_apps")?;
    let rows = find.query_map([], |row| Ok((AppId::new(text(row, 0)?), time(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Since when it is missing; now, if that is new.
pub(super) fn add(batch: &Batch<'_>, app: &AppId) -> Result<Timestamp, Error> {
    let mut note = batch.conn().prepare_cached(
        "INSERT INTO missing_apps (app, since) VALUES (?1, ?2)
            ON CONFLICT (app) DO UPDATE SET since = since RETURNING since",
    )?;
    Ok(note.query_row(params![app.as_str(), batch.at()], |row| time(row, 0))?)
}

pub(super) fn remove(batch: &Batch<'_>, app: &AppId) -> Result<(), Error> {
    batch.conn().prepare_cached("DELETE FROM missing_apps WHERE app = ?1")?.execute([app.as_str()])?;
    Ok(())
}
