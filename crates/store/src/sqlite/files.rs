//! Files: a user's Markdown by path. A deleted one keeps its row and its version.

use async_trait::async_trait;
use protocol::Scope;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::append::Batch;
use super::erasures::{self, Hand};
use super::read::{count, sql, text, time};
use super::{Sqlite, once};
use crate::{
    Change, Error, FileRow, FileSize, Files, MAX_FILE_BYTES, MAX_FILE_BYTES_PER_SCOPE, MAX_FILES_PER_SCOPE,
    MAX_PATH_BYTES, Once, Write,
};

const COLUMNS: &str = "path, version, content, updated_at";

/// A file as it stands, deleted or not. All zero and empty where there never was one.
#[derive(Default)]
struct Standing {
    version: u64,
    state: u64,
    content: Option<String>,
}

#[async_trait]
impl Files for Sqlite {
    async fn files(&self, scope: &Scope) -> Result<Vec<FileRow>, Error> {
        let scope = scope.clone();
        self.readers.read(move |conn| list(conn, &scope)).await
    }

    async fn file_sizes(&self, scope: &Scope) -> Result<Vec<FileSize>, Error> {
        let scope = scope.clone();
        self.readers.read(move |conn| sizes(conn, &scope)).await
    }

    async fn file(&self, scope: &Scope, path: &str) -> Result<FileRow, Error> {
        let (scope, path) = (scope.clone(), path.to_owned());
        self.readers.read(move |conn| find(conn, &scope, &path)?.ok_or(Error::NotFound("file"))).await
    }

    async fn file_version(&self, scope: &Scope, path: &str) -> Result<u64, Error> {
        let (scope, path) = (scope.clone(), path.to_owned());
        self.readers.read(move |conn| Ok(standing(conn, &scope, &path)?.version)).await
    }

    async fn put_file(
        &self,
        scope: &Scope,
        write: Write,
        once: Option<Once>,
    ) -> Result<Option<FileRow>, Error> {
        let Write::File { path, content, expected } = write else { return Err(Error::NotFound("file")) };
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if once::earlier(batch, &scope, once.as_ref())?.is_none() {
                // What a key made is found by the path, which the request names again.
                once::remember(batch, &scope, once.as_ref(), uuid::Uuid::nil())?;
                self::write(batch, &scope, (&path, content.as_deref()), expected, Hand::Own)?;
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
    (path, content): (&str, Option<&str>),
    expected: u64,
    by: Hand,
) -> Result<Change, Error> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return Err(Error::Changed(format!("the path of a file has 1 to {MAX_PATH_BYTES} bytes")));
    }
    let standing = standing(batch.conn(), scope, path)?;
    if standing.version != expected {
        let version = standing.version;
        return Err(Error::Changed(match standing.content {
            Some(_) if expected == 0 => format!("there is a file {path} already; its version is {version}"),
            Some(_) => format!("the file {path} has changed meanwhile; its version is {version}"),
            None => format!("there is no file {path}"),
        }));
    }
    if content.is_none() {
        erasures::deleted(batch, scope, &erasures::of_file(path), by)?;
    }
    let state = expected + 1;
    set(batch, scope, (path, content), standing, state)
}

/// Brings a file back to an earlier state, if it stands as the change has left it.
pub(super) fn restore(
    batch: &Batch<'_>,
    scope: &Scope,
    (path, before): (&str, Option<&str>),
    (left, was): (u64, u64),
) -> Result<Option<Change>, Error> {
    let standing = standing(batch.conn(), scope, path)?;
    if standing.state != left {
        return Ok(None);
    }
    let thing = erasures::of_file(path);
    match before {
        Some(_) => erasures::restored(batch, scope, &thing)?,
        None => erasures::deleted(batch, scope, &thing, Hand::Tool)?,
    }
    set(batch, scope, (path, before), standing, was).map(Some)
}

fn set(
    batch: &Batch<'_>,
    scope: &Scope,
    (path, content): (&str, Option<&str>),
    standing: Standing,
    state: u64,
) -> Result<Change, Error> {
    match content {
        None if standing.content.is_none() => {
            return Err(Error::Changed(format!("there is no file {path}")));
        }
        Some(content) if content.len() > MAX_FILE_BYTES => {
            return Err(Error::Changed(format!("a file has at most {MAX_FILE_BYTES} bytes")));
        }
        Some(content) => room(batch, scope, content.len(), &standing)?,
        None => {}
    }
    let version = standing.version + 1;
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO files (app, user, path, version, state, content, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                ON CONFLICT (app, user, path) DO UPDATE SET version = excluded.version, state = excluded.state,
                    content = excluded.content, updated_at = excluded.updated_at",
        )?
        .execute(params![
            scope.app.as_str(),
            scope.user.as_str(),
            path,
            sql(version),
            sql(state),
            content,
            batch.at()
        ])?;
    Ok(Change::File { path: path.to_owned(), before: standing.content, was: standing.state, version })
}

/// Whether the scope has room for a file of so many bytes in place of what stands there.
fn room(batch: &Batch<'_>, scope: &Scope, bytes: usize, standing: &Standing) -> Result<(), Error> {
    let mut all = batch.conn().prepare_cached(
        "SELECT count(*), coalesce(sum(length(CAST(content AS BLOB))), 0) FROM files
            WHERE app = ?1 AND user = ?2 AND content IS NOT NULL",
    )?;
    let (files, held) =
        all.query_row([scope.app.as_str(), scope.user.as_str()], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
    let (there, freed) = standing.content.as_ref().map_or((0, 0), |content| (1, content.len() as u64));
    if files - there >= MAX_FILES_PER_SCOPE as u64 {
        return Err(Error::Changed(format!(
            "there are {MAX_FILES_PER_SCOPE} files already; delete some first"
        )));
    }
    if held.saturating_sub(freed) + bytes as u64 > MAX_FILE_BYTES_PER_SCOPE as u64 {
        let message = format!("the files would have more than {MAX_FILE_BYTES_PER_SCOPE} bytes together");
        return Err(Error::Changed(format!("{message}; shorten or delete some first")));
    }
    Ok(())
}

fn standing(conn: &Connection, scope: &Scope, path: &str) -> Result<Standing, Error> {
    let mut find = conn.prepare_cached(
        "SELECT version, state, content FROM files WHERE app = ?1 AND user = ?2 AND path = ?3",
    )?;
    let found = find.query_row([scope.app.as_str(), scope.user.as_str(), path], |row| {
        Ok(Standing { version: count(row, 0)?, state: count(row, 1)?, content: row.get(2)? })
    });
    Ok(found.optional()?.unwrap_or_default())
}

fn find(conn: &Connection, scope: &Scope, path: &str) -> Result<Option<FileRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM files WHERE app = ?1 AND user = ?2 AND path = ?3 AND content IS NOT NULL"
    ))?;
    Ok(find.query_row([scope.app.as_str(), scope.user.as_str(), path], file_row).optional()?)
}

fn list(conn: &Connection, scope: &Scope) -> Result<Vec<FileRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM files WHERE app = ?1 AND user = ?2 AND content IS NOT NULL ORDER BY path LIMIT ?3"
    ))?;
    let bound = MAX_FILES_PER_SCOPE as i64;
    let rows = find.query_map(params![scope.app.as_str(), scope.user.as_str(), bound], file_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn sizes(conn: &Connection, scope: &Scope) -> Result<Vec<FileSize>, Error> {
    let mut find = conn.prepare_cached(
        "SELECT path, version, octet_length(content), updated_at FROM files
            WHERE app = ?1 AND user = ?2 AND content IS NOT NULL ORDER BY path LIMIT ?3",
    )?;
    let bound = MAX_FILES_PER_SCOPE as i64;
    let rows = find.query_map(params![scope.app.as_str(), scope.user.as_str(), bound], |row| {
        Ok(FileSize {
            path: text(row, 0)?,
            version: count(row, 1)?,
            bytes: count(row, 2)?,
            updated_at: time(row, 3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn file_row(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    Ok(FileRow {
        path: text(row, 0)?,
        version: count(row, 1)?,
        content: text(row, 2)?,
        updated_at: time(row, 3)?,
    })
}
