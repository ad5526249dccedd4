//! Memories: a scope's own facts, listed with where they come from, and counted when an answer refers to them.

pub(super) mod change;
mod extract;
pub(super) mod purge;
mod snapshot;

use std::collections::BTreeSet;

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{MemoryId, MemoryVersionView, Principal, RunId, Scope, ThreadId};
use uuid::Uuid;

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_page, has_any, id, maybe_id, maybe_time, one_more, page_start,
    scope_at, text, time,
};
use super::{RowsOf, SqlStore, history, idempotency};
use crate::rules::memories::end_updated_versions;
use crate::{
    Error, ExtractedMemories, IdempotencyClaim, JobRow, MAX_SOURCES_PER_MEMORY, MemoryEdit, MemoryExtraction,
    MemoryHistory, MemoryOrigin, MemoryRow, MemoryStatus, MemoryVersionReason, MessageRow, NewMemoryRow,
    PageOf, PageRows, SnapshotLine, TimeCursor,
};

/// As [`memory_row`] expects them, of memories `m` with [`FIRST_SOURCE`].
pub(super) const COLUMNS: &str =
    "m.id, m.app, m.user, m.text, m.kind, m.status, m.access_count, m.last_accessed_at, m.source, m.created_at,
    m.updated_at, m.version, m.valid_from, m.valid_until, m.superseded_by, s.thread, s.message, s.words, s.at";

/// Joins each memory with what it was first made of.
pub(super) const FIRST_SOURCE: &str = "LEFT JOIN memory_sources s
    ON s.number = (SELECT min(first.number) FROM memory_sources first WHERE first.memory = m.id)";

impl SqlStore {
    pub(crate) async fn add_memory(
        &self,
        scope: &Scope,
        memory: NewMemoryRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemoryRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = idempotency::earlier_target(batch, &scope, once.as_ref())? {
                return find(batch.conn(), earlier.into(), scope.user.as_str());
            }
            let id = change::insert(batch, &scope, &memory)?;
            idempotency::remember(batch, &scope, once.as_ref(), id.uuid())?;
            find(batch.conn(), id, scope.user.as_str())
        };
        self.writer.write(work).await
    }

    pub(crate) async fn begin_import(&self, scope: &Scope, once: IdempotencyClaim) -> Result<(), Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| idempotency::claim(batch, &scope, Some(&once), Uuid::nil());
        self.writer.write(work).await.map(drop)
    }

    pub(crate) async fn memory(&self, principal: &Principal, memory: MemoryId) -> Result<MemoryRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| find(conn, memory, user.as_str())).await
    }

    pub(crate) async fn memory_history(
        &self,
        principal: &Principal,
        memory: MemoryId,
    ) -> Result<MemoryHistory, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| history_of(conn, memory, user.as_str())).await
    }

    pub(crate) async fn memories(
        &self,
        scope: &Scope,
        status: Option<MemoryStatus>,
        page: PageOf<TimeCursor<MemoryId>>,
    ) -> Result<PageRows<MemoryRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, status, page)).await
    }

    pub(crate) async fn active_memories(&self, scope: &Scope, limit: usize) -> Result<Vec<MemoryRow>, Error> {
        let mut newest: Vec<MemoryRow> = Vec::new();
        let mut more = true;
        while more && newest.len() < limit {
            let after = newest.last().map(|row| TimeCursor { at: row.created_at, id: row.id });
            let rest = PageOf { after, limit: limit - newest.len() };
            let page = self.memories(scope, Some(MemoryStatus::Active), rest).await?;
            more = page.more;
            newest.extend(page.rows);
        }
        newest.reverse();
        Ok(newest)
    }

    pub(crate) async fn memories_by_id(
        &self,
        scope: &Scope,
        ids: &[MemoryId],
    ) -> Result<Vec<MemoryRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.readers.read_for(rows, move |conn| by_id(conn, &scope, &ids)).await
    }

    pub(crate) async fn edit_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        edit: MemoryEdit,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemoryRow, Error> {
        self.by_hand(principal, memory, once, move |batch, row| change::edit(batch, row, edit)).await
    }

    pub(crate) async fn forget_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        self.by_hand(principal, memory, once, change::forget).await.map(drop)
    }

    pub(crate) async fn restore_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
    ) -> Result<MemoryRow, Error> {
        self.by_hand(principal, memory, once, change::restore).await
    }

    pub(crate) async fn memory_is_off(&self, scope: &Scope) -> Result<bool, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| is_off(conn, &scope)).await
    }

    pub(crate) async fn set_memory_off(
        &self,
        scope: &Scope,
        off: bool,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| set_off(batch, &scope, off, once.as_ref())).await
    }

    pub(crate) async fn unextracted(&self, thread: ThreadId, limit: usize) -> Result<Vec<MessageRow>, Error> {
        self.readers.read(move |conn| history::unextracted(conn, thread, limit)).await
    }

    pub(crate) async fn extract(
        &self,
        job: &JobRow,
        extraction: MemoryExtraction,
    ) -> Result<ExtractedMemories, Error> {
        let job = job.clone();
        self.writer.write(move |batch| extract::extract(batch, &job, extraction)).await
    }

    pub(crate) async fn keep_snapshot(
        &self,
        scope: &Scope,
        thread: ThreadId,
        lines: Vec<SnapshotLine>,
    ) -> Result<Vec<SnapshotLine>, Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| snapshot::keep(batch, &scope, thread, &lines)).await
    }

    pub(crate) async fn snapshot(
        &self,
        scope: &Scope,
        thread: ThreadId,
    ) -> Result<Option<Vec<SnapshotLine>>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| snapshot::find(conn, &scope, thread)).await
    }

    pub(crate) async fn forgotten_among(
        &self,
        scope: &Scope,
        ids: &[MemoryId],
    ) -> Result<Vec<MemoryId>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, ids) = (scope.clone(), ids.to_vec());
        let work = move |conn: &SqlConnection| {
            let mut find = conn.prepare(
                "SELECT 1 FROM memories WHERE id = ?1 AND app = ?2 AND user = ?3 AND status <> 'forgotten'",
            )?;
            let (app, user) = (scope.app.as_str(), scope.user.as_str());
            let mut forgotten = Vec::new();
            for id in ids {
                if find.find_first(params![id.bytes(), app, user], |_| Ok(()))?.is_none() {
                    forgotten.push(id);
                }
            }
            Ok(forgotten)
        };
        self.readers.read_for(rows, work).await
    }
}

impl SqlStore {
    /// A change that the user makes to a memory, once under a key. Gives it as it is then.
    async fn by_hand(
        &self,
        principal: &Principal,
        memory: MemoryId,
        once: Option<IdempotencyClaim>,
        change: impl FnOnce(&Batch<'_>, MemoryRow) -> Result<(), Error> + Send + 'static,
    ) -> Result<MemoryRow, Error> {
        let user = principal.user().clone();
        let work = move |batch: &mut Batch<'_>| {
            let row = find(batch.conn(), memory, user.as_str())?;
            if idempotency::claim(batch, &row.scope, once.as_ref(), memory.uuid())?.is_some() {
                return Ok(row);
            }
            change(batch, row)?;
            find(batch.conn(), memory, user.as_str())
        };
        self.writer.write(work).await
    }
}

/// Counts an answer for each of the run's scope's memories that it refers to. A text that names none of those is no
/// reference.
pub(super) fn count_references(batch: &Batch<'_>, run: RunId, references: &[String]) -> Result<(), Error> {
    let memories: BTreeSet<MemoryId> = references.iter().filter_map(|text| text.parse().ok()).collect();
    let mut touch = batch.conn().prepare(
        "UPDATE memories SET access_count = access_count + 1, last_accessed_at = ?3
            WHERE id = ?1 AND status = 'active' AND (app, user) = (SELECT app, user FROM runs WHERE id = ?2)",
    )?;
    for memory in memories {
        touch.execute(params![memory.bytes(), run.bytes(), batch.at()])?;
    }
    Ok(())
}

pub(super) fn find(conn: &SqlConnection, memory: MemoryId, user: &str) -> Result<MemoryRow, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM memories m {FIRST_SOURCE} WHERE m.id = ?1 AND m.user = ?2");
    find_first(conn, &statement, params![memory.bytes(), user], memory_row)?.ok_or(Error::NotFound("memory"))
}

pub(super) fn of_scope(
    conn: &SqlConnection,
    memory: MemoryId,
    scope: &Scope,
) -> Result<Option<MemoryRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM memories m {FIRST_SOURCE} WHERE m.id = ?1 AND m.app = ?2 AND m.user = ?3"
    );
    find_first(conn, &statement, params![memory.bytes(), scope.app.as_str(), scope.user.as_str()], memory_row)
}

fn list(
    conn: &SqlConnection,
    scope: &Scope,
    status: Option<MemoryStatus>,
    page: PageOf<TimeCursor<MemoryId>>,
) -> Result<PageRows<MemoryRow>, Error> {
    let of_status = if status.is_none() { "?6 = 'all'" } else { "m.status = ?6" };
    let statement = format!(
        "SELECT {COLUMNS} FROM memories m {FIRST_SOURCE} WHERE m.app = ?1 AND m.user = ?2 AND {of_status}
            AND (m.created_at, m.id) < (?3, ?4) ORDER BY m.created_at DESC, m.id DESC LIMIT ?5"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let limit = one_more(page.limit);
    let status = status.map_or("all", MemoryStatus::name);
    let key = params![scope.app.as_str(), scope.user.as_str(), at, last, limit, status];
    find_page(conn, &statement, key, page.limit, memory_row)
}

fn by_id(conn: &SqlConnection, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<MemoryRow>, Error> {
    let mut found = Vec::new();
    for memory in ids {
        found.extend(of_scope(conn, *memory, scope)?.filter(|row| row.status == MemoryStatus::Active));
    }
    Ok(found)
}

fn history_of(conn: &SqlConnection, memory: MemoryId, user: &str) -> Result<MemoryHistory, Error> {
    let row = find(conn, memory, user)?;
    let statement =
        "SELECT version, text, kind, status, reason, valid_from, valid_until, at FROM memory_versions
                WHERE memory = ?1 ORDER BY version DESC LIMIT ?2";
    let mut versions =
        find_all(conn, statement, params![memory.bytes(), MemoryHistory::MAX_VERSIONS as i64], version_row)?;
    end_updated_versions(&mut versions);
    versions.reverse();
    let statement =
        "SELECT thread, message, words, at FROM memory_sources WHERE memory = ?1 ORDER BY number LIMIT ?2";
    let sources = find_all(conn, statement, params![memory.bytes(), MAX_SOURCES_PER_MEMORY as i64], |row| {
        source(row, 0)
    })?;
    Ok(MemoryHistory { memory: row, versions, sources })
}

pub(super) fn is_off(conn: &SqlConnection, scope: &Scope) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM memory_off WHERE app = ?1 AND user = ?2";
    has_any(conn, statement, [scope.app.as_str(), scope.user.as_str()])
}

fn set_off(
    batch: &Batch<'_>,
    scope: &Scope,
    off: bool,
    once: Option<&IdempotencyClaim>,
) -> Result<(), Error> {
    if idempotency::claim(batch, scope, once, Uuid::nil())?.is_some() {
        return Ok(());
    }
    let statement = if off {
        "INSERT INTO memory_off (app, user) VALUES (?1, ?2) ON CONFLICT DO NOTHING"
    } else {
        "DELETE FROM memory_off WHERE app = ?1 AND user = ?2"
    };
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str()])
}

pub(super) fn memory_row(row: &SqlRow<'_>) -> Result<MemoryRow, Error> {
    let sourced = row.get::<Option<i64>>(18)?.is_some();
    Ok(MemoryRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        text: text(row, 3)?,
        kind: text(row, 4)?,
        status: status(row, 5)?,
        access_count: count(row, 6)?,
        last_accessed_at: maybe_time(row, 7)?,
        source: text(row, 8)?,
        created_at: time(row, 9)?,
        updated_at: time(row, 10)?,
        version: count(row, 11)?,
        valid_from: maybe_time(row, 12)?,
        valid_until: maybe_time(row, 13)?,
        superseded_by: maybe_id(row, 14)?,
        first_source: if sourced { Some(source(row, 15)?) } else { None },
    })
}

/// A status that cannot be read counts as removed: the memory is in no prompt.
fn status(row: &SqlRow<'_>, column: usize) -> Result<MemoryStatus, Error> {
    Ok(MemoryStatus::parse(&text(row, column)?).unwrap_or(MemoryStatus::Removed))
}

/// A source in the columns from `first` on.
fn source(row: &SqlRow<'_>, first: usize) -> Result<MemoryOrigin, Error> {
    Ok(MemoryOrigin {
        thread: maybe_id(row, first)?,
        message: maybe_id(row, first + 1)?,
        words: row.get(first + 2)?,
        at: maybe_time(row, first + 3)?,
    })
}

fn version_row(row: &SqlRow<'_>) -> Result<MemoryVersionView, Error> {
    Ok(MemoryVersionView {
        version: count(row, 0)?,
        text: text(row, 1)?,
        kind: text(row, 2)?,
        status: status(row, 3)?,
        // A reason that cannot be read counts as an edit, which ends no other version.
        reason: MemoryVersionReason::parse(&text(row, 4)?).unwrap_or(MemoryVersionReason::Edited),
        valid_from: maybe_time(row, 5)?,
        valid_until: maybe_time(row, 6)?,
        at: time(row, 7)?,
    })
}
