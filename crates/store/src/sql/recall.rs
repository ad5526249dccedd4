//! Recall: items in the order in which they changed, with their vectors.

use crate::sql::SqlValue;
use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{MemoryId, Scope};

use super::append::Batch;
use super::read::{count, find_all, find_first, has_any, id, scope_at, sql, text, time};
use super::{RowsOf, SqlStore, documents, items, memories};
use crate::{
    Error, HiddenWords, ItemRef, ItemRow, MAX_ITEM_BYTES_PER_READ, MAX_ITEMS_PER_READ,
    MAX_TOMBSTONES_PER_READ, MAX_VECTOR_NUMBERS, MessageRole, NewVector, PurgedWords, RawEvent, RecallItem,
    RecallKind, RecallMessage, StoredVector, TombstoneRow,
};

/// Vectors put down in one transaction.
const MAX_VECTORS_PER_WRITE: usize = 256;

impl SqlStore {
    pub(crate) async fn recall_head(&self, scope: &Scope) -> Result<u64, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        let newest = move |conn: &SqlConnection| {
            let statement = "SELECT rev FROM items WHERE app = ?1 AND user = ?2 ORDER BY rev DESC LIMIT 1";
            Ok(find_first(conn, statement, [scope.app.as_str(), scope.user.as_str()], |row| count(row, 0))?
                .unwrap_or(0))
        };
        self.readers.read_for(rows, newest).await
    }

    pub(crate) async fn recall_changes(
        &self,
        scope: &Scope,
        after: u64,
        model: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ItemRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, model) = (scope.clone(), model.map(str::to_owned));
        self.readers.read_for(rows, move |conn| changes(conn, &scope, after, model.as_deref(), limit)).await
    }

    pub(crate) async fn tombstones(&self, scope: &Scope) -> Result<Vec<TombstoneRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| tombstones(conn, &scope)).await
    }

    pub(crate) async fn hidden_words(&self, scope: &Scope) -> Result<HiddenWords, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| hidden_words(conn, &scope)).await
    }

    pub(crate) async fn put_vectors(
        &self,
        scope: &Scope,
        model: &str,
        vectors: Vec<NewVector>,
    ) -> Result<(), Error> {
        for part in vectors.chunks(MAX_VECTORS_PER_WRITE) {
            let (scope, model, part) = (scope.clone(), model.to_owned(), part.to_vec());
            let work = move |batch: &mut Batch<'_>| {
                part.iter().try_for_each(|vector| put_vector(batch, &scope, &model, vector))?;
                documents::notice_ready(batch, &scope, &model, &part)
            };
            self.writer.write(work).await?;
        }
        Ok(())
    }
}

pub(super) fn scopes_to_embed(
    conn: &SqlConnection,
    model: &str,
    after: Option<&Scope>,
    limit: usize,
) -> Result<Vec<Scope>, Error> {
    let statement = "SELECT DISTINCT i.app, i.user FROM items i
            WHERE (i.app, i.user) > (?3, ?4) AND i.kind IN ('memory', 'message', 'chunk')
            AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = ?1)
            AND CASE i.kind
                WHEN 'memory' THEN EXISTS (SELECT 1 FROM memories m WHERE m.id = i.id AND m.status = 'active')
                WHEN 'message' THEN EXISTS (SELECT 1 FROM messages m JOIN threads t ON t.id = m.thread
                    WHERE m.id = i.id AND t.deleted_at IS NULL)
                ELSE EXISTS (SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document
                    WHERE c.id = i.id AND d.deleted_at IS NULL) END
            ORDER BY i.app, i.user LIMIT ?2";
    let (app, user) = after.map_or(("", ""), |scope| (scope.app.as_str(), scope.user.as_str()));
    find_all(conn, statement, params![model, sql(limit as u64), app, user], |row| scope_at(row, 0))
}

/// One query for all kinds, read row by row: a query for each item takes several times as long.
fn changes(
    conn: &SqlConnection,
    scope: &Scope,
    after: u64,
    model: Option<&str>,
    limit: usize,
) -> Result<Vec<ItemRow>, Error> {
    let mut find = conn.prepare(&format!(
        "SELECT {}, v.hash, v.vector, i.rev, i.kind, i.id, t.id, said.role, said.seq, said.created_at, e.kind, e.body, {}
            FROM items i LEFT JOIN memories m ON i.kind = 'memory' AND m.id = i.id {}
                LEFT JOIN messages said ON i.kind = 'message' AND said.id = i.id
                LEFT JOIN threads t ON t.id = said.thread AND t.deleted_at IS NULL
                LEFT JOIN events e ON e.thread = t.id AND e.seq = said.seq
                LEFT JOIN chunks c ON i.kind = 'chunk' AND c.id = i.id
                LEFT JOIN documents d ON d.id = c.document AND d.status = 'ready' AND d.deleted_at IS NULL
                LEFT JOIN vectors v ON v.item = i.id AND v.model = ?4
            WHERE i.app = ?1 AND i.user = ?2 AND i.rev > ?3 ORDER BY i.rev LIMIT ?5",
        memories::COLUMNS,
        documents::CHUNK_COLUMNS,
        memories::FIRST_SOURCE
    ))?;
    let limit = limit.min(MAX_ITEMS_PER_READ) as i64;
    let mut rows = find.query(params![scope.app.as_str(), scope.user.as_str(), sql(after), model, limit])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = &rows.next()? {
        let what = item(row)?;
        bytes += size(&what);
        found.push(ItemRow { rev: count(row, 21)?, what });
        if bytes >= MAX_ITEM_BYTES_PER_READ {
            break;
        }
    }
    Ok(found)
}

fn item(row: &SqlRow<'_>) -> Result<RecallItem, Error> {
    Ok(match RecallKind::parse(&text(row, 22)?) {
        Some(RecallKind::Memory) if is_null(row, 0)? => RecallItem::Gone(ItemRef::Memory(id(row, 23)?)),
        Some(RecallKind::Memory) => RecallItem::Memory(Box::new(memories::memory_row(row)?), vector(row)?),
        Some(RecallKind::Message) if is_null(row, 24)? => RecallItem::Gone(ItemRef::Message(id(row, 23)?)),
        Some(RecallKind::Message) => RecallItem::Message(said_row(row)?, vector(row)?),
        Some(RecallKind::Chunk) if is_null(row, 30)? => RecallItem::Gone(ItemRef::Chunk(id(row, 23)?)),
        Some(RecallKind::Chunk) => RecallItem::Chunk(documents::chunk_row(row, 23, 30)?, vector(row)?),
        Some(RecallKind::Thread) => RecallItem::ThreadGone(id(row, 23)?),
        Some(RecallKind::Document) => RecallItem::DocumentGone(id(row, 23)?),
        Some(RecallKind::Tombstone) | None => RecallItem::Tombstones,
    })
}

fn is_null(row: &SqlRow<'_>, column: usize) -> Result<bool, Error> {
    Ok(row.value(column)? == SqlValue::Null)
}

fn said_row(row: &SqlRow<'_>) -> Result<RecallMessage, Error> {
    let seq = count(row, 26)?;
    let said = if is_null(row, 28)? {
        None
    } else {
        Some(RawEvent { seq, kind: text(row, 28)?, body: text(row, 29)? })
    };
    let role = MessageRole::parse(text(row, 25)?);
    Ok(RecallMessage { id: id(row, 23)?, thread: id(row, 24)?, role, seq, at: time(row, 27)?, said })
}

fn vector(row: &SqlRow<'_>) -> Result<Option<StoredVector>, Error> {
    let Some(hash) = row.get::<Option<[u8; 16]>>(19)? else { return Ok(None) };
    Ok(row.vector(20)?.map(|vector| StoredVector { hash, vector }))
}

fn size(what: &RecallItem) -> usize {
    let bytes =
        |vector: &Option<StoredVector>| vector.as_ref().map_or(0, |vector| vector.vector.bytes().len());
    match what {
        RecallItem::Memory(row, vector) => row.text.len() + bytes(vector),
        RecallItem::Message(said, vector) => {
            said.said.as_ref().map_or(0, |said| said.body.len()) + bytes(vector)
        }
        RecallItem::Chunk(chunk, vector) => chunk.text.len() + bytes(vector),
        RecallItem::ThreadGone(_)
        | RecallItem::DocumentGone(_)
        | RecallItem::Tombstones
        | RecallItem::Gone(_) => 0,
    }
}

/// The words of a scope that no model sees any more.
pub(super) fn hidden_words(conn: &SqlConnection, scope: &Scope) -> Result<HiddenWords, Error> {
    Ok(HiddenWords { tombstones: tombstones(conn, scope)?, purged: shadows(conn, scope)? })
}

fn tombstones(conn: &SqlConnection, scope: &Scope) -> Result<Vec<TombstoneRow>, Error> {
    let statement =
        "SELECT memory, words, at FROM tombstones WHERE app = ?1 AND user = ?2 ORDER BY number DESC LIMIT ?3";
    let mut found = find_all(
        conn,
        statement,
        params![scope.app.as_str(), scope.user.as_str(), MAX_TOMBSTONES_PER_READ as i64],
        |row| Ok(TombstoneRow { memory: id(row, 0)?, words: text(row, 1)?, at: time(row, 2)? }),
    )?;
    found.reverse();
    Ok(found)
}

/// The words that were forgotten with a memory.
pub(super) fn tombstones_of(conn: &SqlConnection, memory: MemoryId) -> Result<Vec<TombstoneRow>, Error> {
    let statement = "SELECT memory, words, at FROM tombstones WHERE memory = ?1 ORDER BY number LIMIT ?2";
    find_all(conn, statement, params![memory.bytes(), MAX_TOMBSTONES_PER_READ as i64], |row| {
        Ok(TombstoneRow { memory: id(row, 0)?, words: text(row, 1)?, at: time(row, 2)? })
    })
}

/// Traces of purged words.
fn shadows(conn: &SqlConnection, scope: &Scope) -> Result<Vec<PurgedWords>, Error> {
    let statement =
        "SELECT shadow, at FROM shadows WHERE app = ?1 AND user = ?2 ORDER BY number DESC LIMIT ?3";
    let mut found = find_all(
        conn,
        statement,
        params![scope.app.as_str(), scope.user.as_str(), MAX_TOMBSTONES_PER_READ as i64],
        |row| Ok(PurgedWords { shadow: row.get(0)?, at: time(row, 1)? }),
    )?;
    found.reverse();
    Ok(found)
}

fn put_vector(batch: &Batch<'_>, scope: &Scope, model: &str, new: &NewVector) -> Result<(), Error> {
    if new.vector.count() > MAX_VECTOR_NUMBERS {
        return Err(Error::Changed(format!("a vector has at most {MAX_VECTOR_NUMBERS} numbers")));
    }
    let (kind, item, of_scope) = match &new.item {
        ItemRef::Memory(memory) => (
            RecallKind::Memory,
            memory.bytes(),
            "SELECT 1 FROM memories WHERE id = ?1 AND app = ?2 AND user = ?3 AND status = 'active'",
        ),
        ItemRef::Message(message) => (
            RecallKind::Message,
            message.bytes(),
            "SELECT 1 FROM messages m JOIN threads t ON t.id = m.thread
                WHERE m.id = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL",
        ),
        ItemRef::Chunk(chunk) => (
            RecallKind::Chunk,
            chunk.bytes(),
            "SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document WHERE c.id = ?1
                AND d.app = ?2 AND d.user = ?3 AND d.status = 'ready' AND d.deleted_at IS NULL",
        ),
    };
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    if !has_any(batch.conn(), of_scope, params![item, app, user])? {
        return Ok(());
    }
    let statement = "INSERT INTO vectors (app, user, item, model, hash, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (item, model) DO UPDATE SET app = excluded.app, user = excluded.user, hash = excluded.hash,
                vector = excluded.vector";
    batch.execute(statement, params![app, user, item, model, new.hash, new.vector])?;
    items::mark_changed(batch, scope, kind, item)
}
