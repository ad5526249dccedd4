//! Extraction: findings of a job in messages become memories, in one transaction with the job's end.

use crate::sql::params;
use protocol::{Event, MemoryId, Scope, Seq, ThreadId};

use super::{change, is_off, of_scope};
use crate::rules::memories::{
    MEMORY_WORTH, are_different, beyond_limit, is_extraction_wanted, number_to_expire, purged_meanwhile,
    update_event,
};
use crate::sql::append::Batch;
use crate::sql::read::{count, find_all, find_first, has_any, id, sql, text};
use crate::sql::{jobs, usage};
use crate::{
    Error, ExtractedMemories, JobRow, MAX_CHANGES_PER_EXTRACTION, MemoryChange, MemoryExtraction,
    MemoryOrigin, MemoryRow,
};

pub(super) fn extract(
    batch: &mut Batch<'_>,
    job: &JobRow,
    extraction: MemoryExtraction,
) -> Result<ExtractedMemories, Error> {
    let MemoryExtraction { from, through, changes, limit, per_subject, spent, as_of } = extraction;
    jobs::mark_done(batch, job)?;
    if let Some(spent) = spent {
        usage::add(batch, &job.scope, &spent.model, spent.usage)?;
    }
    if !changes.is_empty() {
        as_of.map_or(Ok(()), |as_of| nothing_purged(batch, &job.scope, as_of))?;
    }
    let wanted = is_wanted(batch, job, from, through)?;
    if let Some(thread) = job.thread {
        note_extracted(batch, thread, through)?;
    }
    let mut extracted = ExtractedMemories::default();
    if !wanted {
        extracted.skipped = changes.len();
        return Ok(extracted);
    }
    for (number, change) in changes.into_iter().enumerate() {
        if number >= MAX_CHANGES_PER_EXTRACTION || !apply(batch, &job.scope, change, &mut extracted)? {
            extracted.skipped += 1;
        }
    }
    if let Some(limit) = limit {
        extracted.expired = match per_subject {
            true => expire_by_subject(batch, &job.scope, limit)?,
            false => expire(batch, &job.scope, limit)?,
        };
    }
    if let (Some(thread), Some(update)) = (job.thread, update_event(&extracted)) {
        batch.record(thread, None, &Event::MemoryUpdate(update))?;
    }
    Ok(extracted)
}

/// Whether what was found may still be kept. [`Error::Changed`] if some of the messages were looked at meanwhile, and so
/// must not be again.
fn is_wanted(batch: &Batch<'_>, job: &JobRow, from: Seq, through: Seq) -> Result<bool, Error> {
    if is_off(batch.conn(), &job.scope)? {
        return Ok(false);
    }
    let Some(thread) = job.thread else { return Ok(true) };
    let statement = "SELECT extracted FROM threads WHERE id = ?1 AND deleted_at IS NULL";
    let extracted = find_first(batch.conn(), statement, [thread.bytes()], |row| count(row, 0))?;
    is_extraction_wanted(extracted, from, through)
}

/// [`Error::Changed`] if a memory was purged since: it is not known any more which words were its own.
fn nothing_purged(batch: &Batch<'_>, scope: &Scope, as_of: u64) -> Result<(), Error> {
    let statement =
        "SELECT 1 FROM items i WHERE i.app = ?1 AND i.user = ?2 AND i.rev > ?3 AND i.kind = 'tombstone'
            AND NOT EXISTS (SELECT 1 FROM tombstones t WHERE t.memory = i.id)";
    if has_any(batch.conn(), statement, params![scope.app.as_str(), scope.user.as_str(), sql(as_of)])? {
        return Err(purged_meanwhile());
    }
    Ok(())
}

fn note_extracted(batch: &Batch<'_>, thread: ThreadId, through: Seq) -> Result<(), Error> {
    let statement = "UPDATE threads SET extracted = ?2 WHERE id = ?1 AND extracted < ?2";
    batch.execute(statement, params![thread.bytes(), sql(through)])
}

/// False when the change comes too late, finds no room or is known.
fn apply(
    batch: &Batch<'_>,
    scope: &Scope,
    change: MemoryChange,
    extracted: &mut ExtractedMemories,
) -> Result<bool, Error> {
    match change {
        MemoryChange::Create(memory) => {
            for source in &memory.sources {
                if is_forgotten(batch, scope, source)? {
                    return Ok(false);
                }
            }
            match change::insert(batch, scope, &memory) {
                Ok(id) if id == memory.id => extracted.created.push(id),
                Ok(_) => return Ok(false),
                Err(Error::MemoriesFull) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        MemoryChange::Update { id, version, text, kind, source } => {
            let Some(row) = change::current(batch, scope, id, version)? else { return Ok(false) };
            if is_forgotten(batch, scope, &source)? {
                return Ok(false);
            }
            change::update(batch, row, (text, kind), &source)?;
            extracted.updated.push(id);
        }
        MemoryChange::Remove { id, version, source } => {
            let Some(row) = change::current(batch, scope, id, version)? else { return Ok(false) };
            change::remove(batch, row, &source)?;
            extracted.removed.push(id);
        }
        MemoryChange::Merge { into, from, text, kind, source } => {
            let Some((target, rest)) = mergeable(batch, scope, into, &from)? else { return Ok(false) };
            if let Some(source) = &source {
                if is_forgotten(batch, scope, source)? {
                    return Ok(false);
                }
                change::add_source(batch, target.id, source)?;
            }
            extracted.merged.extend(rest.iter().map(|row| row.id));
            extracted.updated.push(target.id);
            change::merge(batch, target, (text, kind), rest)?;
        }
    }
    Ok(true)
}

/// The memory to merge into and those to merge, if all of them are as expected, and different ones.
fn mergeable(
    batch: &Batch<'_>,
    scope: &Scope,
    into: (MemoryId, u64),
    from: &[(MemoryId, u64)],
) -> Result<Option<(MemoryRow, Vec<MemoryRow>)>, Error> {
    if !are_different(into.0, from) {
        return Ok(None);
    }
    let Some(target) = change::current(batch, scope, into.0, into.1)? else { return Ok(None) };
    let mut rest = Vec::new();
    for (id, version) in from {
        let Some(row) = change::current(batch, scope, *id, *version)? else { return Ok(None) };
        rest.push(row);
    }
    Ok(Some((target, rest)))
}

/// Whether these words were forgotten after they were said: then they must not come back by a job that read them before.
fn is_forgotten(batch: &Batch<'_>, scope: &Scope, source: &MemoryOrigin) -> Result<bool, Error> {
    let Some(words) = &source.words else { return Ok(false) };
    let said = source.at.map_or(batch.at(), jiff::Timestamp::as_millisecond);
    let statement = "SELECT 1 FROM tombstones WHERE app = ?1 AND user = ?2 AND words = ?3 AND at >= ?4";
    has_any(batch.conn(), statement, params![scope.app.as_str(), scope.user.as_str(), words, said])
}

/// Expires the memories worth least, while there are more than may stay.
fn expire(batch: &Batch<'_>, scope: &Scope, limit: usize) -> Result<Vec<MemoryId>, Error> {
    let over = number_to_expire(change::active(batch, scope)?, limit);
    if over == 0 {
        return Ok(Vec::new());
    }
    let statement = format!(
        "SELECT id FROM memories WHERE app = ?1 AND user = ?2 AND status = 'active'
                ORDER BY {MEMORY_WORTH}, created_at, id LIMIT ?3"
    );
    let least = find_all(
        batch.conn(),
        &statement,
        params![scope.app.as_str(), scope.user.as_str(), sql(over)],
        |row| id(row, 0),
    )?;
    expire_memories(batch, scope, least)
}

/// Expires memories of each subject by itself. Every active memory of the scope is looked at, and there are never more than
/// [`crate::MAX_MEMORIES_PER_SCOPE`].
fn expire_by_subject(batch: &Batch<'_>, scope: &Scope, limit: usize) -> Result<Vec<MemoryId>, Error> {
    if number_to_expire(change::active(batch, scope)?, limit) == 0 {
        return Ok(Vec::new());
    }
    let statement = format!(
        "SELECT id, substr(kind, 1, max(0, instr(kind, '/') - 1)) FROM memories
            WHERE app = ?1 AND user = ?2 AND status = 'active'
            ORDER BY {MEMORY_WORTH} DESC, created_at DESC, id DESC"
    );
    let ranked =
        find_all(batch.conn(), &statement, params![scope.app.as_str(), scope.user.as_str()], |row| {
            Ok((id(row, 0)?, text(row, 1)?))
        })?;
    expire_memories(batch, scope, beyond_limit(ranked, limit))
}

fn expire_memories(
    batch: &Batch<'_>,
    scope: &Scope,
    memories: Vec<MemoryId>,
) -> Result<Vec<MemoryId>, Error> {
    for memory in &memories {
        if let Some(row) = of_scope(batch.conn(), *memory, scope)? {
            change::expire(batch, row)?;
        }
    }
    Ok(memories)
}
