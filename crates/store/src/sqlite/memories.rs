//! Memories: a scope's own facts, added, listed, counted when an answer refers to them, and forgotten.

use std::collections::BTreeSet;

use async_trait::async_trait;
use protocol::{MemoryId, Principal, RunId, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::append::Batch;
use super::read::{count, id, maybe_time, text, time};
use super::{Sqlite, once, threads};
use crate::{Error, MAX_MEMORIES_PER_SCOPE, Memories, MemoryCursor, MemoryRow, NewMemory, Once, PageOf};

const COLUMNS: &str =
    "id, app, user, text, kind, status, access_count, last_accessed_at, source, created_at, updated_at";

#[async_trait]
impl Memories for Sqlite {
    async fn add_memory(
        &self,
        scope: &Scope,
        memory: NewMemory,
        once: Option<Once>,
    ) -> Result<MemoryRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = once::earlier(batch, &scope, once.as_ref())? {
                return find(batch.conn(), earlier.into(), scope.user.as_str());
            }
            once::remember(batch, &scope, once.as_ref(), memory.id.uuid())?;
            insert(batch, &scope, &memory)?;
            find(batch.conn(), memory.id, scope.user.as_str())
        };
        self.writer.write(work).await
    }

    async fn memory(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryRow, Error> {
        let user = principal.user().clone();
        self.readers.read(move |conn| find(conn, memory, user.as_str())).await
    }

    async fn memories(&self, scope: &Scope, page: PageOf<MemoryCursor>) -> Result<Vec<MemoryRow>, Error> {
        let scope = scope.clone();
        self.readers.read(move |conn| list(conn, &scope, page)).await
    }

    async fn active_memories(&self, scope: &Scope, limit: usize) -> Result<Vec<MemoryRow>, Error> {
        let mut newest = self.memories(scope, PageOf { after: None, limit }).await?;
        newest.reverse();
        Ok(newest)
    }

    async fn memories_by_id(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<MemoryRow>, Error> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.readers.read(move |conn| by_id(conn, &scope, &ids)).await
    }

    async fn forget_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<Once>,
    ) -> Result<(), Error> {
        let principal = principal.clone();
        self.writer.write(move |batch| forget(batch, &principal, memory, once.as_ref())).await
    }
}

/// Counts an answer for each of the run's scope's memories that it refers to. What names none of those is no reference.
pub(super) fn referenced(batch: &Batch<'_>, run: RunId, references: &[String]) -> Result<(), Error> {
    let memories: BTreeSet<MemoryId> = references.iter().filter_map(|text| text.parse().ok()).collect();
    let mut touch = batch.conn().prepare_cached(
        "UPDATE memories SET access_count = access_count + 1, last_accessed_at = ?3
            WHERE id = ?1 AND status = 'active' AND (app, user) = (SELECT app, user FROM runs WHERE id = ?2)",
    )?;
    for memory in memories {
        touch.execute(params![memory.bytes(), run.bytes(), batch.at()])?;
    }
    Ok(())
}

fn insert(batch: &Batch<'_>, scope: &Scope, memory: &NewMemory) -> Result<(), Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let mut active = batch
        .conn()
        .prepare_cached("SELECT count(*) FROM memories WHERE app = ?1 AND user = ?2 AND status = 'active'")?;
    if active.query_row([app, user], |row| count(row, 0))? >= MAX_MEMORIES_PER_SCOPE as u64 {
        return Err(Error::MemoriesFull);
    }
    let NewMemory { id, text, kind, source } = memory;
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO memories (id, app, user, text, kind, status, source, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?7, ?7)",
        )?
        .execute(params![id.bytes(), app, user, text, kind, source, batch.at()])?;
    Ok(())
}

fn forget(
    batch: &Batch<'_>,
    principal: &Principal,
    memory: MemoryId,
    once: Option<&Once>,
) -> Result<(), Error> {
    let row = find(batch.conn(), memory, principal.user().as_str())?;
    if once::earlier(batch, &row.scope, once)?.is_some() {
        return Ok(());
    }
    once::remember(batch, &row.scope, once, memory.uuid())?;
    batch
        .conn()
        .prepare_cached(
            "UPDATE memories SET status = 'forgotten', updated_at = ?2 WHERE id = ?1 AND status = 'active'",
        )?
        .execute(params![memory.bytes(), batch.at()])?;
    Ok(())
}

fn find(conn: &Connection, memory: MemoryId, user: &str) -> Result<MemoryRow, Error> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM memories WHERE id = ?1 AND user = ?2"))?
        .query_row(params![memory.bytes(), user], memory_row)
        .optional()?
        .ok_or(Error::NotFound("memory"))
}

fn list(conn: &Connection, scope: &Scope, page: PageOf<MemoryCursor>) -> Result<Vec<MemoryRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM memories WHERE app = ?1 AND user = ?2 AND status = 'active'
            AND (created_at, id) < (?3, ?4) ORDER BY created_at DESC, id DESC LIMIT ?5"
    ))?;
    let (created_at, last) = match page.after {
        Some(cursor) => (cursor.created_at.as_millisecond(), cursor.id.bytes().to_vec()),
        None => (i64::MAX, vec![0xff; 16]),
    };
    let limit = page.limit as i64;
    let rows = find
        .query_map(params![scope.app.as_str(), scope.user.as_str(), created_at, last, limit], memory_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn by_id(conn: &Connection, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<MemoryRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM memories WHERE id = ?1 AND app = ?2 AND user = ?3 AND status = 'active'"
    ))?;
    let mut found = Vec::new();
    for memory in ids {
        let row =
            find.query_row(params![memory.bytes(), scope.app.as_str(), scope.user.as_str()], memory_row);
        found.extend(row.optional()?);
    }
    Ok(found)
}

fn memory_row(row: &Row<'_>) -> rusqlite::Result<MemoryRow> {
    Ok(MemoryRow {
        id: id(row, 0)?,
        scope: threads::scope(row, 1)?,
        text: text(row, 3)?,
        kind: text(row, 4)?,
        status: text(row, 5)?,
        access_count: count(row, 6)?,
        last_accessed_at: maybe_time(row, 7)?,
        source: text(row, 8)?,
        created_at: time(row, 9)?,
        updated_at: time(row, 10)?,
    })
}
