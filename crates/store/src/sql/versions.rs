//! Earlier versions of records and files. They are kept when the present one is replaced, and go when the thing is deleted:
//! at once if the user deletes it, and when its time is over if a tool did.

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use protocol::{RecordId, Scope};

use super::append::Batch;
use super::read::{count, find_all, find_first, maybe_id, sql, time};
use super::{RowsOf, SqlStore};
use crate::rules::erasure::{file_name, record_name};
use crate::rules::versions::{MAX_VERSIONS, VersionSize, newest_dropped};
use crate::{Error, ThingVersion};

impl SqlStore {
    pub(crate) async fn record_versions(
        &self,
        scope: &Scope,
        kind: &str,
        record: RecordId,
    ) -> Result<Vec<ThingVersion>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, kind) = (scope.clone(), kind.to_owned());
        let read = move |conn: &SqlConnection| {
            let statement = "SELECT version, data, updated_at, action FROM records
                    WHERE id = ?1 AND app = ?2 AND user = ?3 AND type = ?4";
            let key = params![record.bytes(), scope.app.as_str(), scope.user.as_str(), kind];
            let present = find_first(conn, statement, key, version_row)?;
            with_earlier(conn, &scope, &record_name(record), present, "record")
        };
        self.readers.read_for(rows, read).await
    }

    pub(crate) async fn file_versions(&self, scope: &Scope, path: &str) -> Result<Vec<ThingVersion>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, path) = (scope.clone(), path.to_owned());
        let read = move |conn: &SqlConnection| {
            let statement = "SELECT version, content, updated_at, action FROM files
                    WHERE app = ?1 AND user = ?2 AND path = ?3";
            let key = [scope.app.as_str(), scope.user.as_str(), &path];
            let present = find_first(conn, statement, key, version_row)?;
            with_earlier(conn, &scope, &file_name(&path), present, "file")
        };
        self.readers.read_for(rows, read).await
    }
}

/// Keeps a record as it stands, if it is there, because it is about to be replaced.
pub(super) fn keep_record(batch: &Batch<'_>, scope: &Scope, record: RecordId) -> Result<(), Error> {
    let thing = record_name(record);
    let statement = "INSERT INTO thing_versions (app, user, thing, version, contents, at, action)
            SELECT app, user, ?2, version, data, updated_at, action FROM records WHERE id = ?1";
    batch.execute(statement, params![record.bytes(), thing])?;
    drop_oldest(batch, scope, &thing)
}

/// Keeps a file as it stands, if it is there, because it is about to be replaced.
pub(super) fn keep_file(batch: &Batch<'_>, scope: &Scope, path: &str) -> Result<(), Error> {
    let thing = file_name(path);
    let statement = "INSERT INTO thing_versions (app, user, thing, version, contents, at, action)
            SELECT app, user, ?4, version, content, updated_at, action FROM files
                WHERE app = ?1 AND user = ?2 AND path = ?3";
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str(), path, &thing])?;
    drop_oldest(batch, scope, &thing)
}

/// Removes all earlier versions of a thing.
pub(super) fn forget(batch: &Batch<'_>, scope: &Scope, thing: &str) -> Result<(), Error> {
    let statement = "DELETE FROM thing_versions WHERE app = ?1 AND user = ?2 AND thing = ?3";
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str(), thing])
}

/// Removes the versions of a thing that were made up to a moment: that of its deletion.
pub(super) fn forget_until(batch: &Batch<'_>, scope: &Scope, thing: &str, at: i64) -> Result<(), Error> {
    let statement = "DELETE FROM thing_versions WHERE app = ?1 AND user = ?2 AND thing = ?3 AND at <= ?4";
    batch.execute(statement, params![scope.app.as_str(), scope.user.as_str(), thing, at])
}

/// Removes the versions for which there is no room.
fn drop_oldest(batch: &Batch<'_>, scope: &Scope, thing: &str) -> Result<(), Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let statement = "SELECT version, coalesce(octet_length(contents), 0) FROM thing_versions
            WHERE app = ?1 AND user = ?2 AND thing = ?3 ORDER BY version DESC LIMIT ?4";
    let key = params![app, user, thing, MAX_VERSIONS as i64 + 1];
    let size = |row: &SqlRow<'_>| Ok(VersionSize { version: count(row, 0)?, bytes: count(row, 1)? });
    let Some(dropped) = newest_dropped(&find_all(batch.conn(), statement, key, size)?) else { return Ok(()) };
    let statement =
        "DELETE FROM thing_versions WHERE app = ?1 AND user = ?2 AND thing = ?3 AND version <= ?4";
    batch.execute(statement, params![app, user, thing, sql(dropped)])
}

/// The present version and those before it, newest first. A thing that is deleted and has no other version is not there.
fn with_earlier(
    conn: &SqlConnection,
    scope: &Scope,
    thing: &str,
    present: Option<ThingVersion>,
    what: &'static str,
) -> Result<Vec<ThingVersion>, Error> {
    let statement = "SELECT version, contents, at, action FROM thing_versions
            WHERE app = ?1 AND user = ?2 AND thing = ?3 ORDER BY version DESC LIMIT ?4";
    let present = present.ok_or(Error::NotFound(what))?;
    let key = params![scope.app.as_str(), scope.user.as_str(), thing, MAX_VERSIONS as i64];
    let earlier = find_all(conn, statement, key, version_row)?;
    if present.contents.is_none() && earlier.iter().all(|version| version.contents.is_none()) {
        return Err(Error::NotFound(what));
    }
    Ok([present].into_iter().chain(earlier).collect())
}

fn version_row(row: &SqlRow<'_>) -> Result<ThingVersion, Error> {
    let updated_at: Timestamp = time(row, 2)?;
    Ok(ThingVersion { version: count(row, 0)?, contents: row.get(1)?, updated_at, action: maybe_id(row, 3)? })
}
