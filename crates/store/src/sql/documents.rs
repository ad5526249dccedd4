//! Documents: added piece by piece out of sight, shown when whole, hidden at once and removed piece by piece.
//!
//! A step that was interrupted continues from the rows. A document that never became whole is purged, and the next
//! purge tells recall of the other pieces of a document that it knows in part.

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use protocol::{DocumentChange, DocumentId, Principal, Scope};

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_only, find_page, has_any, id, one_more, page_start, scope_at, sql,
    text, time,
};
use super::{RowsOf, SqlStore, idempotency, items, texts};
use crate::rules::documents::{DocumentTotals, check_document, check_document_room};
use crate::rules::notices::NoticedChange;
use crate::{
    ChunkRow, DocumentRow, Error, IdempotencyClaim, ItemRef, MAX_CHUNKS_PER_READ, NewChunk, NewDocument,
    NewVector, PageOf, PageRows, RecallKind, TimeCursor,
};

/// Pieces that are added, listed or removed in one transaction, and bytes of their texts: streams must not feel it.
const MAX_CHUNKS_PER_WRITE: usize = 200;
const MAX_BYTES_PER_WRITE: usize = 256 * 1024;

/// The age from which on a document that is not whole was left by a process that is gone.
const LEFT_AFTER_MS: i64 = 60 * 60 * 1000;

pub(super) const COLUMNS: &str =
    "id, app, user, name, title, kind, bytes, text_bytes, pages, chunks, suspicious, created_at";

/// The condition of a document that others can see: without it, it is no document yet, or none any more.
const VISIBLE: &str = "status = 'ready' AND deleted_at IS NULL";

impl SqlStore {
    pub(crate) async fn add_document(
        &self,
        scope: &Scope,
        document: NewDocument,
        once: Option<IdempotencyClaim>,
    ) -> Result<DocumentRow, Error> {
        check_document(&document)?;
        let row = DocumentRow::of_new(scope, &document);
        let (new, key, quota) = (row.clone(), once.clone(), document.quota);
        if let Some(earlier) = self.writer.write(move |batch| begin(batch, &new, quota, key.as_ref())).await?
        {
            return Ok(earlier);
        }
        self.add_chunks(row.id, document.chunks).await?;
        let added = self.writer.write(move |batch| finish(batch, &row, once.as_ref())).await?;
        self.list_chunks(&added).await?;
        Ok(added)
    }

    /// Adds the pieces of a document that is not shown yet.
    pub(super) async fn add_chunks(&self, document: DocumentId, chunks: Vec<NewChunk>) -> Result<(), Error> {
        for (first, part) in parts(chunks) {
            self.writer.write_ahead(move |batch| insert(batch, document, first, &part)).await?;
        }
        Ok(())
    }

    /// Tells recall of all pieces of a document.
    pub(super) async fn list_chunks(&self, added: &DocumentRow) -> Result<(), Error> {
        let id = added.id;
        for _ in (0..added.chunks).step_by(MAX_CHUNKS_PER_WRITE) {
            self.writer.write(move |batch| list(batch, id)).await?;
        }
        Ok(())
    }

    pub(crate) async fn document_made(
        &self,
        scope: &Scope,
        once: &IdempotencyClaim,
    ) -> Result<Option<DocumentRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, once) = (scope.clone(), once.clone());
        let work = move |conn: &SqlConnection| {
            let made = idempotency::find_target(conn, &scope, Some(&once))?;
            made.map(|made| find(conn, made.into(), scope.user.as_str())).transpose()
        };
        self.readers.read_for(rows, work).await
    }

    pub(crate) async fn document(
        &self,
        principal: &Principal,
        document: DocumentId,
    ) -> Result<DocumentRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| find_readable(conn, document, user.as_str())).await
    }

    pub(crate) async fn documents(
        &self,
        scope: &Scope,
        page: PageOf<TimeCursor<DocumentId>>,
    ) -> Result<PageRows<DocumentRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| newest_documents(conn, &scope, page)).await
    }

    pub(crate) async fn document_embedded(&self, document: DocumentId, model: &str) -> Result<u32, Error> {
        let model = model.to_owned();
        let work = move |conn: &SqlConnection| {
            let statement =
                "SELECT count(*) FROM chunks c CROSS JOIN vectors v ON v.item = c.id AND v.model = ?2
                    WHERE c.document = ?1";
            find_only(conn, statement, params![document.bytes(), model], |row| small_count(row, 0))
        };
        self.readers.read(work).await
    }

    pub(crate) async fn delete_document(
        &self,
        principal: &Principal,
        document: DocumentId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        self.writer.write_for(rows, move |batch| delete(batch, &principal, document, once.as_ref())).await
    }

    pub(crate) async fn chunks(
        &self,
        scope: &Scope,
        document: DocumentId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| chunks(conn, &scope, (document, from), limit)).await
    }
}

impl DocumentRow {
    /// The row of a new document, before it has a time.
    pub(super) fn of_new(scope: &Scope, document: &NewDocument) -> Self {
        let NewDocument { chunks, .. } = document;
        Self {
            id: document.id,
            scope: scope.clone(),
            text_bytes: chunks.iter().map(|chunk| chunk.text.len() as u64).sum(),
            chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
            suspicious: chunks.iter().map(|chunk| u32::from(chunk.suspicious)).sum(),
            name: document.name.clone(),
            title: document.title.clone(),
            kind: document.kind.to_owned(),
            bytes: document.bytes,
            pages: document.pages,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }
}

/// Returns the pieces that go into one transaction each, with the number of the first.
fn parts(chunks: Vec<NewChunk>) -> Vec<(u32, Vec<NewChunk>)> {
    let mut parts: Vec<(u32, Vec<NewChunk>)> = Vec::new();
    let mut bytes = 0;
    for (number, chunk) in (0u32..).zip(chunks) {
        bytes += chunk.text.len();
        match parts.last_mut() {
            Some((_, part)) if part.len() < MAX_CHUNKS_PER_WRITE && bytes <= MAX_BYTES_PER_WRITE => {
                part.push(chunk);
            }
            Some(_) | None => {
                bytes = chunk.text.len();
                parts.push((number, vec![chunk]));
            }
        }
    }
    parts
}

/// Puts the row down, unseen. Gives the document that was made under the key before, if one was.
fn begin(
    batch: &Batch<'_>,
    new: &DocumentRow,
    quota: u64,
    once: Option<&IdempotencyClaim>,
) -> Result<Option<DocumentRow>, Error> {
    let scope = &new.scope;
    if let Some(earlier) = idempotency::earlier_target(batch, scope, once)? {
        return find(batch.conn(), earlier.into(), scope.user.as_str()).map(Some);
    }
    let statement = "SELECT count(*), coalesce(CAST(sum(text_bytes) AS BIGINT), 0) FROM documents WHERE app = ?1 AND user = ?2 AND deleted_at IS NULL";
    let totals = find_only(batch.conn(), statement, [scope.app.as_str(), scope.user.as_str()], |row| {
        Ok(DocumentTotals { documents: count(row, 0)?, text_bytes: count(row, 1)? })
    })?;
    check_document_room(totals, new.text_bytes, quota)?;
    insert_row(batch, new, None).map(|()| None)
}

/// Puts down the row of a document, with the hash of the file that it was made of if it belongs to an app.
pub(super) fn insert_row(batch: &Batch<'_>, new: &DocumentRow, hash: Option<&[u8; 32]>) -> Result<(), Error> {
    let statement = "INSERT INTO documents (id, app, user, name, title, kind, bytes, text_bytes, pages, chunks, suspicious,
                    status, created_at, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'adding', ?12, ?13)";
    batch.execute(
        statement,
        params![
            new.id.bytes(),
            new.scope.app.as_str(),
            new.scope.user.as_str(),
            new.name,
            new.title,
            new.kind,
            sql(new.bytes),
            sql(new.text_bytes),
            new.pages,
            new.chunks,
            new.suspicious,
            batch.at(),
            hash
        ],
    )
}

fn insert(batch: &Batch<'_>, document: DocumentId, first: u32, part: &[NewChunk]) -> Result<(), Error> {
    let mut insert = batch.conn().prepare(
        "INSERT INTO chunks (id, document, number, text, place, suspicious) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (number, chunk) in (first..).zip(part) {
        let NewChunk { id, text, place, suspicious } = chunk;
        insert.execute(params![id.bytes(), document.bytes(), number, text, place, suspicious])?;
    }
    Ok(())
}

/// Shows a document that is whole. If the same was added meanwhile under the same key, that one stays, and this one goes.
fn finish(
    batch: &Batch<'_>,
    new: &DocumentRow,
    once: Option<&IdempotencyClaim>,
) -> Result<DocumentRow, Error> {
    let user = new.scope.user.as_str();
    if let Some(earlier) = idempotency::claim(batch, &new.scope, once, new.id.uuid())? {
        let statement = "UPDATE documents SET deleted_at = ?2 WHERE id = ?1";
        batch.execute(statement, params![new.id.bytes(), batch.at()])?;
        return find(batch.conn(), earlier.into(), user);
    }
    show(batch, new.id)?;
    notice(batch, &new.scope, new.id, DocumentChange::Added);
    find(batch.conn(), new.id, user)
}

/// Shows a document that is whole.
pub(super) fn show(batch: &Batch<'_>, document: DocumentId) -> Result<(), Error> {
    let statement = "UPDATE documents SET status = 'ready', created_at = ?2 WHERE id = ?1";
    batch.execute(statement, params![document.bytes(), batch.at()])
}

fn notice(batch: &Batch<'_>, scope: &Scope, document: DocumentId, status: DocumentChange) {
    // Documents of an app itself have no user who could be told.
    if !scope.is_of_app() {
        batch.notice(NoticedChange::Document { scope: scope.clone(), document, status });
    }
}

/// Lets the user know of each document whose last pieces got their vectors.
pub(super) fn notice_ready(
    batch: &Batch<'_>,
    scope: &Scope,
    model: &str,
    put: &[NewVector],
) -> Result<(), Error> {
    if scope.is_of_app() {
        return Ok(());
    }
    let mut looked_at: Vec<DocumentId> = Vec::new();
    for vector in put {
        let ItemRef::Chunk(chunk) = vector.item else { continue };
        let statement = "SELECT document FROM chunks WHERE id = ?1";
        let Some(document) = find_first(batch.conn(), statement, [chunk.bytes()], |row| id(row, 0))? else {
            continue;
        };
        if looked_at.contains(&document) {
            continue;
        }
        looked_at.push(document);
        // Vectors are made in the order of the pieces, so the last piece is the one to look at first.
        let statement = "SELECT 1 FROM chunks c WHERE c.document = ?1
                AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = c.id AND v.model = ?2)
                ORDER BY c.number DESC LIMIT 1";
        if !has_any(batch.conn(), statement, params![document.bytes(), model])? {
            notice(batch, scope, document, DocumentChange::Ready);
        }
    }
    Ok(())
}

/// Tells recall of the next pieces of a document.
fn list(batch: &Batch<'_>, document: DocumentId) -> Result<(), Error> {
    let statement = "INSERT INTO items (app, user, kind, id)
                SELECT d.app, d.user, 'chunk', c.id FROM documents d CROSS JOIN chunks c ON c.document = d.id
                    AND c.number >= d.listed AND c.number < d.listed + ?2
                    WHERE d.id = ?1 AND d.status = 'ready' AND d.deleted_at IS NULL ORDER BY c.number";
    batch.execute(statement, params![document.bytes(), MAX_CHUNKS_PER_WRITE as i64])?;
    let statement = "UPDATE documents SET listed = min(chunks, listed + ?2)
                WHERE id = ?1 AND status = 'ready' AND deleted_at IS NULL AND listed < chunks";
    batch.execute(statement, params![document.bytes(), MAX_CHUNKS_PER_WRITE as i64])
}

fn delete(
    batch: &Batch<'_>,
    principal: &Principal,
    document: DocumentId,
    once: Option<&IdempotencyClaim>,
) -> Result<(), Error> {
    if idempotency::is_repeated(batch, principal, once)? {
        return Ok(());
    }
    let DocumentRow { scope, .. } = find(batch.conn(), document, principal.user().as_str())?;
    idempotency::claim(batch, &scope, once, document.uuid())?;
    let statement = "UPDATE documents SET deleted_at = ?2 WHERE id = ?1";
    batch.execute(statement, params![document.bytes(), batch.at()])?;
    notice(batch, &scope, document, DocumentChange::Deleted);
    texts::drop_of(batch, &scope, &document.to_string())?;
    items::mark_changed(batch, &scope, RecallKind::Document, document.bytes())
}

/// Continues the work that was left: tells recall of pieces it has not heard of, and removes some of what is deleted or
/// was never whole. True when there was something to do.
pub(super) fn purge(batch: &Batch<'_>, deleted_before: Timestamp) -> Result<bool, Error> {
    let before = deleted_before.as_millisecond();
    let statement = "UPDATE documents SET deleted_at = ?1 WHERE status = 'adding' AND deleted_at IS NULL AND created_at <= ?2";
    batch.execute(statement, [before, before.saturating_sub(LEFT_AFTER_MS)])?;
    let statement =
        "SELECT id FROM documents WHERE status = 'ready' AND listed < chunks AND deleted_at IS NULL
            ORDER BY created_at, id LIMIT 1";
    let unlisted: Option<DocumentId> = find_first(batch.conn(), statement, [], |row| id(row, 0))?;
    if let Some(document) = unlisted {
        return list(batch, document).map(|()| true);
    }
    let statement = "SELECT id FROM documents WHERE deleted_at IS NOT NULL AND deleted_at <= ?1
            ORDER BY deleted_at, id LIMIT 1";
    let deleted: Option<DocumentId> = find_first(batch.conn(), statement, [before], |row| id(row, 0))?;
    deleted.map_or(Ok(false), |document| remove(batch, document).map(|()| true))
}

/// Removes some pieces of a deleted document with all that was made of them, or the document if none is left.
fn remove(batch: &Batch<'_>, document: DocumentId) -> Result<(), Error> {
    let some = "(SELECT id FROM chunks WHERE document = ?1 ORDER BY number LIMIT ?2)";
    let mut removed = 0;
    for statement in [
        format!("DELETE FROM vectors WHERE item IN {some}"),
        format!("DELETE FROM items WHERE kind = 'chunk' AND id IN {some}"),
        format!("DELETE FROM chunks WHERE id IN {some}"),
    ] {
        let key = params![document.bytes(), MAX_CHUNKS_PER_WRITE as i64];
        removed = batch.count_changed(&statement, key)?;
    }
    if removed == 0 {
        batch.execute("DELETE FROM documents WHERE id = ?1", [document.bytes()])?;
        batch.note_removed()?;
    }
    Ok(())
}

/// A document of the user, or of an app.
fn find_readable(conn: &SqlConnection, document: DocumentId, user: &str) -> Result<DocumentRow, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM documents WHERE id = ?1 AND (user = ?2 OR user = '') AND {VISIBLE}");
    find_first(conn, &statement, params![document.bytes(), user], document_row)?
        .ok_or(Error::NotFound("document"))
}

pub(super) fn find(conn: &SqlConnection, document: DocumentId, user: &str) -> Result<DocumentRow, Error> {
    let statement = format!("SELECT {COLUMNS} FROM documents WHERE id = ?1 AND user = ?2 AND {VISIBLE}");
    find_first(conn, &statement, params![document.bytes(), user], document_row)?
        .ok_or(Error::NotFound("document"))
}

fn newest_documents(
    conn: &SqlConnection,
    scope: &Scope,
    page: PageOf<TimeCursor<DocumentId>>,
) -> Result<PageRows<DocumentRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM documents WHERE app = ?1 AND user = ?2 AND {VISIBLE}
            AND (created_at, id) < (?3, ?4) ORDER BY created_at DESC, id DESC LIMIT ?5"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let limit = one_more(page.limit);
    let key = params![scope.app.as_str(), scope.user.as_str(), at, last, limit];
    find_page(conn, &statement, key, page.limit, document_row)
}

fn chunks(
    conn: &SqlConnection,
    scope: &Scope,
    (document, from): (DocumentId, u32),
    limit: usize,
) -> Result<Vec<ChunkRow>, Error> {
    let statement = format!(
        "SELECT c.id, {CHUNK_COLUMNS} FROM documents d CROSS JOIN chunks c ON c.document = d.id
            WHERE d.id = ?1 AND d.app = ?2 AND (d.user = ?3 OR d.user = '') AND d.status = 'ready'
                AND d.deleted_at IS NULL AND c.number >= ?4 ORDER BY c.number LIMIT ?5"
    );
    let limit = limit.min(MAX_CHUNKS_PER_READ) as i64;
    let key = params![document.bytes(), scope.app.as_str(), scope.user.as_str(), from, limit];
    find_all(conn, &statement, key, |row| chunk_row(row, 0, 1))
}

pub(super) fn document_row(row: &SqlRow<'_>) -> Result<DocumentRow, Error> {
    let pages = row.get::<Option<i64>>(8)?.map(|_| small_count(row, 8)).transpose()?;
    Ok(DocumentRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        name: text(row, 3)?,
        title: row.get(4)?,
        kind: text(row, 5)?,
        bytes: count(row, 6)?,
        text_bytes: count(row, 7)?,
        pages,
        chunks: small_count(row, 9)?,
        suspicious: small_count(row, 10)?,
        created_at: time(row, 11)?,
    })
}

/// As [`chunk_row`] expects them, of chunks `c` and documents `d`.
pub(super) const CHUNK_COLUMNS: &str = "d.id, d.name, c.number, c.text, c.place, c.suspicious, d.created_at";

/// A piece whose id is in one column and the rest in those from another on.
pub(super) fn chunk_row(row: &SqlRow<'_>, own: usize, first: usize) -> Result<ChunkRow, Error> {
    Ok(ChunkRow {
        id: id(row, own)?,
        document: id(row, first)?,
        name: text(row, first + 1)?,
        number: small_count(row, first + 2)?,
        text: text(row, first + 3)?,
        place: text(row, first + 4)?,
        suspicious: row.get(first + 5)?,
        at: time(row, first + 6)?,
    })
}

fn small_count(row: &SqlRow<'_>, column: usize) -> Result<u32, Error> {
    count(row, column).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
