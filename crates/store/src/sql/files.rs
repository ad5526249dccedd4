//! Files: a user's Markdown by path. A deleted one keeps its row and its version.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{ActionId, FileView, Scope};

use super::append::Batch;
use super::read::{count, find_all, find_first, find_only, sql, text, time};
use super::{RowsOf, SqlStore, erasures, idempotency, versions};
use crate::rules::erasure::{self, DeletedBy};
use crate::rules::records::{
    FileTotals, StandingVersion, check_file_room, check_file_size, check_path, file_name, not_there,
};
use crate::rules::undo::is_as_left;
use crate::{AppliedChange, Error, FileRow, IdempotencyClaim, MAX_FILES_PER_SCOPE, Write};

const COLUMNS: &str = "path, version, content, updated_at";

/// The new state of a file.
#[derive(Clone, Copy)]
pub(super) struct PutFile<'a> {
    pub(super) path: &'a str,
    pub(super) content: Option<&'a str>,
    /// The action that brings it into this state; none if the user does.
    pub(super) by: Option<ActionId>,
}

impl SqlStore {
    pub(crate) async fn files(&self, scope: &Scope) -> Result<Vec<FileRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope)).await
    }

    pub(crate) async fn file_sizes(&self, scope: &Scope) -> Result<Vec<FileView>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| sizes(conn, &scope)).await
    }

    pub(crate) async fn file(&self, scope: &Scope, path: &str) -> Result<FileRow, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, path) = (scope.clone(), path.to_owned());
        self.readers
            .read_for(rows, move |conn| find(conn, &scope, &path)?.ok_or(Error::NotFound("file")))
            .await
    }

    pub(crate) async fn file_version(&self, scope: &Scope, path: &str) -> Result<u64, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, path) = (scope.clone(), path.to_owned());
        self.readers.read_for(rows, move |conn| Ok(standing_file(conn, &scope, &path)?.version)).await
    }

    pub(crate) async fn put_file(
        &self,
        scope: &Scope,
        write: Write,
        once: Option<IdempotencyClaim>,
    ) -> Result<Option<FileRow>, Error> {
        let Write::File { path, content, expected } = write else { return Err(Error::NotFound("file")) };
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            // The file that a key made is found by the path, which the request names again.
            if idempotency::claim(batch, &scope, once.as_ref(), uuid::Uuid::nil())?.is_none() {
                let put = PutFile { path: &path, content: content.as_deref(), by: None };
                self::write(batch, &scope, put, expected, DeletedBy::User)?;
            }
            find(batch.conn(), &scope, &path)
        };
        self.writer.write(work).await
    }
}

/// Makes, changes or deletes a file that has the expected version.
pub(super) fn write(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutFile<'_>,
    expected: u64,
    by: DeletedBy,
) -> Result<AppliedChange, Error> {
    check_path(put.path)?;
    let standing = standing_file(batch.conn(), scope, put.path)?;
    standing.check_expected(expected, &file_name(put.path))?;
    check_put(batch.conn(), scope, put, standing.contents.as_ref().map(String::len))?;
    let thing = erasure::file_name(put.path);
    if put.content.is_none() {
        erasures::note_deletion(batch, scope, &thing, by)?;
    }
    match (put.content, by) {
        (None, DeletedBy::User) => versions::forget(batch, scope, &thing)?,
        (None, DeletedBy::Tool) | (Some(_), _) => versions::keep_file(batch, scope, put.path)?,
    }
    set(batch, scope, put, standing, expected + 1)
}

/// Brings a file back to an earlier state, if it stands as the change has left it.
pub(super) fn restore(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutFile<'_>,
    (left, was): (u64, u64),
) -> Result<Option<AppliedChange>, Error> {
    let standing = standing_file(batch.conn(), scope, put.path)?;
    if !is_as_left(standing.state, left) {
        return Ok(None);
    }
    check_put(batch.conn(), scope, put, standing.contents.as_ref().map(String::len))?;
    let thing = erasure::file_name(put.path);
    match put.content {
        Some(_) => erasures::note_restoration(batch, scope, &thing)?,
        None => erasures::note_deletion(batch, scope, &thing, DeletedBy::Tool)?,
    }
    versions::keep_file(batch, scope, put.path)?;
    set(batch, scope, put, standing, was).map(Some)
}

/// Whether a file may be brought into a state, at any version. `replaced` is the size of the file that is there.
pub(super) fn check_put(
    conn: &SqlConnection,
    scope: &Scope,
    put: PutFile<'_>,
    replaced: Option<usize>,
) -> Result<(), Error> {
    match put.content {
        None if replaced.is_none() => Err(not_there(&file_name(put.path))),
        None => Ok(()),
        Some(content) => {
            check_file_size(content.len())?;
            check_file_room(totals(conn, scope)?, content.len(), replaced)
        }
    }
}

fn set(
    batch: &Batch<'_>,
    scope: &Scope,
    put: PutFile<'_>,
    standing: StandingVersion<String>,
    state: u64,
) -> Result<AppliedChange, Error> {
    let PutFile { path, content, by } = put;
    let version = standing.version + 1;
    let statement = "INSERT INTO files (app, user, path, version, state, content, updated_at, action)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                ON CONFLICT (app, user, path) DO UPDATE SET version = excluded.version, state = excluded.state,
                    content = excluded.content, updated_at = excluded.updated_at, action = excluded.action";
    batch.execute(
        statement,
        params![
            scope.app.as_str(),
            scope.user.as_str(),
            path,
            sql(version),
            sql(state),
            content,
            batch.at(),
            by.as_ref().map(ActionId::bytes)
        ],
    )?;
    Ok(AppliedChange::File { path: path.to_owned(), before: standing.contents, was: standing.state, version })
}

/// How many files a scope has, and their bytes together.
fn totals(conn: &SqlConnection, scope: &Scope) -> Result<FileTotals, Error> {
    let statement = "SELECT count(*), coalesce(CAST(sum(octet_length(content)) AS BIGINT), 0) FROM files
            WHERE app = ?1 AND user = ?2 AND content IS NOT NULL";
    let totals = |row: &SqlRow<'_>| Ok(FileTotals { files: count(row, 0)?, bytes: count(row, 1)? });
    find_only(conn, statement, [scope.app.as_str(), scope.user.as_str()], totals)
}

pub(super) fn standing_file(
    conn: &SqlConnection,
    scope: &Scope,
    path: &str,
) -> Result<StandingVersion<String>, Error> {
    let statement = "SELECT version, state, content FROM files WHERE app = ?1 AND user = ?2 AND path = ?3";
    Ok(find_first(conn, statement, [scope.app.as_str(), scope.user.as_str(), path], |row| {
        Ok(StandingVersion { version: count(row, 0)?, state: count(row, 1)?, contents: row.get(2)? })
    })?
    .unwrap_or_default())
}

fn find(conn: &SqlConnection, scope: &Scope, path: &str) -> Result<Option<FileRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM files WHERE app = ?1 AND user = ?2 AND path = ?3 AND content IS NOT NULL"
    );
    find_first(conn, &statement, [scope.app.as_str(), scope.user.as_str(), path], file_row)
}

fn list(conn: &SqlConnection, scope: &Scope) -> Result<Vec<FileRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM files WHERE app = ?1 AND user = ?2 AND content IS NOT NULL ORDER BY path LIMIT ?3"
    );
    let bound = MAX_FILES_PER_SCOPE as i64;
    find_all(conn, &statement, params![scope.app.as_str(), scope.user.as_str(), bound], file_row)
}

fn sizes(conn: &SqlConnection, scope: &Scope) -> Result<Vec<FileView>, Error> {
    let statement = "SELECT path, version, octet_length(content), updated_at FROM files
            WHERE app = ?1 AND user = ?2 AND content IS NOT NULL ORDER BY path LIMIT ?3";
    let bound = MAX_FILES_PER_SCOPE as i64;
    find_all(conn, statement, params![scope.app.as_str(), scope.user.as_str(), bound], |row| {
        Ok(FileView {
            path: text(row, 0)?,
            version: count(row, 1)?,
            content: None,
            bytes: count(row, 2)?,
            updated_at: time(row, 3)?,
        })
    })
}

fn file_row(row: &SqlRow<'_>) -> Result<FileRow, Error> {
    Ok(FileRow {
        path: text(row, 0)?,
        version: count(row, 1)?,
        content: text(row, 2)?,
        updated_at: time(row, 3)?,
    })
}
