//! One change of a memory: its row, its version and its item, together.

use crate::sql::params;
use jiff::Timestamp;
use protocol::{MemoryId, MessageId, Scope, ThreadId};

use super::of_scope;
use super::purge::FAMILY;
use crate::rules::memories::{check_room, is_current, words_hash};
use crate::rules::memory_changes::{
    ChangedMemory, FIRST_MEMORY_VERSION, creation_time, edited_memory, expired_memory, forgotten_memory,
    merged_memory, removed_memory, restored_memory, superseded_memory, undone_memory, updated_memory,
};
use crate::rules::notices::{NoticedChange, memory_change};
use crate::sql::append::Batch;
use crate::sql::read::{count, find_first, has_any, id, sql};
use crate::sql::{items, texts};
use crate::{
    AppliedChange, Error, MAX_SOURCES_PER_MEMORY, MemoryEdit, MemoryOrigin, MemoryRow, MemoryStatus,
    MemoryVersionReason, NewMemoryRow, RecallKind,
};

/// Adds a memory, and gives its id; if an active one says the same, that one's, and adds nothing. This is decided where
/// it is written, so that of two at the same moment the second finds the first. [`Error::MemoriesFull`] if the scope has
/// as many as it may have.
pub(super) fn insert(batch: &Batch<'_>, scope: &Scope, memory: &NewMemoryRow) -> Result<MemoryId, Error> {
    if let Some(known) = find_same_words(batch, scope, &memory.text)? {
        return Ok(known);
    }
    has_room(batch, scope)?;
    let NewMemoryRow { id, text, kind, source, sources, valid_from, created_at } = memory;
    let statement = "INSERT INTO memories
                    (id, app, user, text, kind, status, version, valid_from, source, created_at, updated_at, same)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    batch.execute(
        statement,
        params![
            id.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            text,
            kind,
            MemoryStatus::Active.name(),
            sql(FIRST_MEMORY_VERSION),
            valid_from.map(Timestamp::as_millisecond),
            source,
            creation_time(*created_at, batch.at()),
            batch.at(),
            words_hash(text)
        ],
    )?;
    for source in sources.iter().take(MAX_SOURCES_PER_MEMORY) {
        add_source(batch, *id, source)?;
    }
    note(batch, scope, *id, MemoryVersionReason::Created)?;
    Ok(*id)
}

/// The active memory that has the same words.
fn find_same_words(batch: &Batch<'_>, scope: &Scope, text: &str) -> Result<Option<MemoryId>, Error> {
    let statement = "SELECT id FROM memories INDEXED BY memories_same
            WHERE app = ?1 AND user = ?2 AND same = ?3 AND status = 'active' LIMIT 1";
    find_first(
        batch.conn(),
        statement,
        params![scope.app.as_str(), scope.user.as_str(), words_hash(text)],
        |row| id(row, 0),
    )
}

/// A memory that is written in a run. [`Error::Known`] if one says the same.
pub(in crate::sql) fn remember(
    batch: &Batch<'_>,
    scope: &Scope,
    memory: &NewMemoryRow,
) -> Result<AppliedChange, Error> {
    match insert(batch, scope, memory) {
        // It is the call's to answer for.
        Err(full @ Error::MemoriesFull) => Err(Error::Changed(full.to_string())),
        Ok(known) if known != memory.id => Err(Error::Known(known)),
        added => added.map(|id| AppliedChange::Memory { id, version: FIRST_MEMORY_VERSION }),
    }
}

/// Undoes the addition of a memory by a call, if the memory still is as the call has left it.
pub(in crate::sql) fn undo(
    batch: &Batch<'_>,
    scope: &Scope,
    memory: MemoryId,
    left: u64,
) -> Result<Option<AppliedChange>, Error> {
    let Some(row) = current(batch, scope, memory, left)? else { return Ok(None) };
    let undone = undone_memory(row);
    advance(batch, &undone)?;
    Ok(Some(AppliedChange::Memory { id: memory, version: undone.row.version }))
}

pub(super) fn edit(batch: &Batch<'_>, row: MemoryRow, edit: MemoryEdit) -> Result<(), Error> {
    edited_memory(row, edit)?.map_or(Ok(()), |edited| advance(batch, &edited))
}

/// Forgets the scope's memory of that id, if there is one.
pub(in crate::sql) fn forget_named(batch: &Batch<'_>, scope: &Scope, memory: MemoryId) -> Result<(), Error> {
    of_scope(batch.conn(), memory, scope)?.map_or(Ok(()), |row| forget(batch, row))
}

/// Forgets a memory with the words that it rests on, and with all that was made of its text.
pub(super) fn forget(batch: &Batch<'_>, row: MemoryRow) -> Result<(), Error> {
    let Some(forgotten) = forgotten_memory(row) else { return Ok(()) };
    let (memory, scope) = (forgotten.row.id, &forgotten.row.scope);
    let statement = format!(
        "INSERT INTO tombstones (app, user, memory, words, at)
                WITH RECURSIVE {FAMILY} SELECT ?2, ?3, ?1, words, ?4 FROM
                    (SELECT s.words FROM family f CROSS JOIN memory_sources s ON s.memory = f.id
                        WHERE s.words IS NOT NULL
                     UNION SELECT v.text FROM family f CROSS JOIN memory_versions v ON v.memory = f.id) said ORDER BY words"
    );
    batch
        .execute(&statement, params![memory.bytes(), scope.app.as_str(), scope.user.as_str(), batch.at()])?;
    advance(batch, &forgotten)?;
    items::drop_vectors(batch, memory)?;
    texts::drop_kept(batch, scope, &memory.to_string())?;
    items::mark_changed(batch, scope, RecallKind::Tombstone, memory.bytes())
}

pub(super) fn restore(batch: &Batch<'_>, row: MemoryRow) -> Result<(), Error> {
    let Some(restored) = restored_memory(row) else { return Ok(()) };
    let (memory, scope) = (restored.row.id, &restored.row.scope);
    has_room(batch, scope)?;
    advance(batch, &restored)?;
    let statement = "DELETE FROM tombstones WHERE memory = ?1";
    let freed = batch.count_changed(statement, [memory.bytes()])?;
    if freed == 0 { Ok(()) } else { items::mark_changed(batch, scope, RecallKind::Tombstone, memory.bytes()) }
}

/// Updates a memory whose fact is otherwise from now on.
pub(super) fn update(
    batch: &Batch<'_>,
    row: MemoryRow,
    said: (String, String),
    source: &MemoryOrigin,
) -> Result<(), Error> {
    add_source(batch, row.id, source)?;
    advance(batch, &updated_memory(row, said, batch.now()?))
}

pub(super) fn remove(batch: &Batch<'_>, row: MemoryRow, source: &MemoryOrigin) -> Result<(), Error> {
    add_source(batch, row.id, source)?;
    advance(batch, &removed_memory(row, batch.now()?))
}

pub(super) fn merge(
    batch: &Batch<'_>,
    into: MemoryRow,
    said: (String, String),
    from: Vec<MemoryRow>,
) -> Result<(), Error> {
    for row in from {
        inherit(batch, into.id, row.id)?;
        advance(batch, &superseded_memory(row, into.id))?;
    }
    advance(batch, &merged_memory(into, said))
}

pub(super) fn expire(batch: &Batch<'_>, row: MemoryRow) -> Result<(), Error> {
    advance(batch, &expired_memory(row))
}

/// The scope's memory, if it is active and still has this version.
pub(super) fn current(
    batch: &Batch<'_>,
    scope: &Scope,
    memory: MemoryId,
    version: u64,
) -> Result<Option<MemoryRow>, Error> {
    let found = of_scope(batch.conn(), memory, scope)?;
    Ok(found.filter(|row| is_current(row, version)))
}

/// How many active memories the scope has.
pub(super) fn active(batch: &Batch<'_>, scope: &Scope) -> Result<u64, Error> {
    let statement = "SELECT active FROM memory_counts WHERE app = ?1 AND user = ?2";
    Ok(find_first(batch.conn(), statement, [scope.app.as_str(), scope.user.as_str()], |row| count(row, 0))?
        .unwrap_or(0))
}

pub(super) fn add_source(batch: &Batch<'_>, memory: MemoryId, source: &MemoryOrigin) -> Result<(), Error> {
    let MemoryOrigin { thread, message, words, at } = source;
    let statement =
        "INSERT INTO memory_sources (memory, thread, message, words, at) SELECT ?1, ?2, ?3, ?4, ?5
                WHERE (SELECT count(*) FROM memory_sources WHERE memory = ?1) < ?6";
    batch.execute(
        statement,
        params![
            memory.bytes(),
            thread.as_ref().map(ThreadId::bytes),
            message.as_ref().map(MessageId::bytes),
            words,
            at.map_or(batch.at(), Timestamp::as_millisecond),
            MAX_SOURCES_PER_MEMORY as i64
        ],
    )
}

/// Gives a memory the sources of another that it has not.
fn inherit(batch: &Batch<'_>, into: MemoryId, from: MemoryId) -> Result<(), Error> {
    let statement = "INSERT INTO memory_sources (memory, thread, message, words, at)
                SELECT ?1, thread, message, words, at FROM memory_sources theirs WHERE memory = ?2
                    AND NOT EXISTS (SELECT 1 FROM memory_sources own WHERE own.memory = ?1
                        AND own.message = theirs.message AND own.words IS NOT DISTINCT FROM theirs.words)
                ORDER BY number
                LIMIT max(0, ?3 - (SELECT count(*) FROM memory_sources WHERE memory = ?1))";
    batch.execute(statement, params![into.bytes(), from.bytes(), MAX_SOURCES_PER_MEMORY as i64])
}

fn has_room(batch: &Batch<'_>, scope: &Scope) -> Result<(), Error> {
    check_room(active(batch, scope)?)
}

/// Writes a memory as it is after a change, with its next version.
fn advance(batch: &Batch<'_>, ChangedMemory { row, reason }: &ChangedMemory) -> Result<(), Error> {
    // A vector is of a text: it goes with it.
    let statement = "SELECT 1 FROM memories WHERE id = ?1 AND text <> ?2";
    if has_any(batch.conn(), statement, params![row.id.bytes(), row.text])? {
        items::drop_vectors(batch, row.id)?;
    }
    let statement = "UPDATE memories SET text = ?2, kind = ?3, status = ?4, version = ?5, valid_from = ?6, valid_until = ?7,
                    superseded_by = ?8, updated_at = ?9, same = ?10 WHERE id = ?1";
    batch.execute(
        statement,
        params![
            row.id.bytes(),
            row.text,
            row.kind,
            row.status.name(),
            sql(row.version),
            row.valid_from.map(Timestamp::as_millisecond),
            row.valid_until.map(Timestamp::as_millisecond),
            row.superseded_by.as_ref().map(MemoryId::bytes),
            batch.at(),
            words_hash(&row.text)
        ],
    )?;
    note(batch, &row.scope, row.id, *reason)
}

/// Notes what the memory's row says now as a version, and that it changed.
fn note(
    batch: &Batch<'_>,
    scope: &Scope,
    memory: MemoryId,
    reason: MemoryVersionReason,
) -> Result<(), Error> {
    let statement = "INSERT INTO memory_versions (memory, version, text, kind, status, reason, valid_from, valid_until, at)
                SELECT id, version, text, kind, status, ?2, valid_from, valid_until, ?3 FROM memories WHERE id = ?1";
    batch.execute(statement, params![memory.bytes(), reason.name(), batch.at()])?;
    batch.notice(NoticedChange::Memory { scope: scope.clone(), memory, change: memory_change(reason) });
    items::mark_changed(batch, scope, RecallKind::Memory, memory.bytes())
}
