//! Apps whose folder is missing while something of theirs is unfinished.

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;
use protocol::AppId;

use super::append::Batch;
use super::read::{find_all, find_only, text, time};
use crate::Error;

pub(super) fn list(conn: &SqlConnection) -> Result<Vec<(AppId, Timestamp)>, Error> {
    let statement = "SELECT app, since FROM missing_apps ORDER BY app";
    find_all(conn, statement, [], |row| Ok((AppId::new(text(row, 0)?), time(row, 1)?)))
}

/// Since when it is missing; now, if that is new.
pub(super) fn add(batch: &Batch<'_>, app: &AppId) -> Result<Timestamp, Error> {
    let statement = "INSERT INTO missing_apps (app, since) VALUES (?1, ?2)
            ON CONFLICT (app) DO UPDATE SET since = missing_apps.since RETURNING since";
    find_only(batch.conn(), statement, params![app.as_str(), batch.at()], |row| time(row, 0))
}

pub(super) fn remove(batch: &Batch<'_>, app: &AppId) -> Result<(), Error> {
    batch.execute("DELETE FROM missing_apps WHERE app = ?1", [app.as_str()])
}
