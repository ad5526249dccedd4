//! Documents of apps: added like uploads, but without a user, and each in the place of the one with its name.

use crate::sql::{SqlConnection, params};
use protocol::{AppId, DocumentId, Scope};

use super::append::Batch;
use super::documents::{self, COLUMNS, document_row};
use super::read::{count, find_all, find_first, find_only, id, one_more};
use super::{SqlStore, items, texts};
use crate::rules::documents::check_document;
use crate::rules::knowledge::{KnowledgeSize, check_room};
use crate::{
    DocumentRow, Error, KnowledgeRow, MAX_DOCUMENTS_PER_SCOPE, NewDocument, PageOf, PageRows, RecallKind,
    source,
};

/// The condition of a document that belongs to an app and can be seen. The index `documents_of_apps` has exactly these.
const VISIBLE: &str = "user = '' AND status = 'ready' AND deleted_at IS NULL";

impl SqlStore {
    pub(crate) async fn knowledge(
        &self,
        app: &AppId,
        page: PageOf<u64>,
    ) -> Result<PageRows<KnowledgeRow>, Error> {
        let app = app.clone();
        self.readers.read(move |conn| by_name(conn, &app, page)).await
    }

    pub(crate) async fn put_knowledge(
        &self,
        app: &AppId,
        hash: [u8; 32],
        document: NewDocument,
    ) -> Result<DocumentRow, Error> {
        check_document(&document)?;
        let row = DocumentRow::of_new(&Scope::of_app(app.clone()), &document);
        let new = row.clone();
        self.writer.write(move |batch| begin(batch, &new, &hash)).await?;
        self.add_chunks(row.id, document.chunks).await?;
        let added = self.writer.write(move |batch| finish(batch, &row)).await?;
        self.list_chunks(&added).await?;
        Ok(added)
    }

    pub(crate) async fn delete_knowledge(&self, app: &AppId, document: DocumentId) -> Result<(), Error> {
        let app = app.clone();
        self.writer.write(move |batch| delete(batch, &app, document)).await
    }

    pub(crate) async fn discard_unfinished_knowledge(&self, app: &AppId) -> Result<(), Error> {
        let app = app.clone();
        let discard = move |batch: &mut Batch<'_>| {
            let statement = "UPDATE documents SET deleted_at = ?2
                        WHERE app = ?1 AND user = '' AND status = 'adding' AND deleted_at IS NULL";
            batch.execute(statement, params![app.as_str(), batch.at()])
        };
        self.writer.write(discard).await
    }
}

fn by_name(conn: &SqlConnection, app: &AppId, page: PageOf<u64>) -> Result<PageRows<KnowledgeRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS}, hash FROM documents WHERE app = ?1 AND {VISIBLE} ORDER BY name LIMIT ?2 OFFSET ?3"
    );
    let limit = page.limit.min(MAX_DOCUMENTS_PER_SCOPE);
    let key = params![app.as_str(), one_more(limit), page.after.unwrap_or(0).min(i64::MAX as u64) as i64];
    let mut rows = find_all(conn, &statement, key, |row| {
        Ok(KnowledgeRow { document: document_row(row)?, hash: row.get::<Option<_>>(12)?.unwrap_or_default() })
    })?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(PageRows { rows, more })
}

fn begin(batch: &Batch<'_>, new: &DocumentRow, hash: &[u8; 32]) -> Result<(), Error> {
    let statement = format!(
        "SELECT coalesce(CAST(sum(chunks) AS BIGINT), 0), coalesce(CAST(sum(text_bytes) AS BIGINT), 0) FROM documents
            WHERE app = ?1 AND {VISIBLE} AND name <> ?2"
    );
    let key = params![new.scope.app.as_str(), new.name];
    let others = find_only(batch.conn(), &statement, key, |row| {
        Ok(KnowledgeSize { chunks: count(row, 0)?, text_bytes: count(row, 1)? })
    })?;
    check_room(others, KnowledgeSize { chunks: u64::from(new.chunks), text_bytes: new.text_bytes })?;
    documents::insert_row(batch, new, Some(hash))
}

/// Shows a document that is whole, in the place of the one with its name.
fn finish(batch: &Batch<'_>, new: &DocumentRow) -> Result<DocumentRow, Error> {
    let app = &new.scope.app;
    let statement = format!("SELECT id FROM documents WHERE app = ?1 AND name = ?2 AND {VISIBLE}");
    let before = find_first(batch.conn(), &statement, params![app.as_str(), new.name], |row| id(row, 0))?;
    if let Some(before) = before {
        delete(batch, app, before)?;
    }
    documents::show(batch, new.id)?;
    documents::find(batch.conn(), new.id, new.scope.user.as_str())
}

/// Hides it with what prompts kept of it. Deleting what is gone changes nothing.
fn delete(batch: &Batch<'_>, app: &AppId, document: DocumentId) -> Result<(), Error> {
    let statement = format!("UPDATE documents SET deleted_at = ?3 WHERE id = ?1 AND app = ?2 AND {VISIBLE}");
    if batch.count_changed(&statement, params![document.bytes(), app.as_str(), batch.at()])? == 0 {
        return Ok(());
    }
    let scope = Scope::of_app(app.clone());
    texts::drop_of(batch, &scope, &source::of_knowledge(document))?;
    items::mark_changed(batch, &scope, RecallKind::Document, document.bytes())
}
