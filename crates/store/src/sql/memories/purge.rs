//! Purging a forgotten memory: nothing that says it stays, but for the conversations it was said in.

use crate::sql::params;
use protocol::{MemoryId, NoticeChange, Principal, Scope};

use super::find;
use crate::rules::memories::check_purge;
use crate::rules::notices::NoticedChange;
use crate::sql::append::Batch;
use crate::sql::read::{find_all, id};
use crate::sql::{action_rows, idempotency, items, texts};
use crate::{Error, IdempotencyClaim, MemoryPurge, RecallKind};

pub(in crate::sql) const REASON: &str = "a memory was purged";

/// A memory (`?1`) and all that it took the place of, over all levels, up to a limit.
pub(super) const FAMILY: &str = "whole_family (id) AS (
    SELECT ?1 UNION SELECT m.id FROM whole_family f CROSS JOIN memories m ON m.superseded_by = f.id),
    family AS (SELECT id FROM whole_family LIMIT 10000)";

pub(in crate::sql) fn purge(
    batch: &Batch<'_>,
    principal: &Principal,
    memory: MemoryId,
    purge: &MemoryPurge,
    once: Option<&IdempotencyClaim>,
) -> Result<(), Error> {
    if idempotency::is_repeated(batch, principal, once)? {
        return Ok(());
    }
    let row = find(batch.conn(), memory, principal.user().as_str())?;
    check_purge(row.status, purge.actions.len())?;
    idempotency::claim(batch, &row.scope, once, memory.uuid())?;
    for action in &purge.actions {
        action_rows::erase_one(batch, &row.scope, *action, REASON)?;
    }
    for member in family(batch, memory)? {
        remove(batch, &row.scope, member)?;
    }
    keep_shadows(batch, &row.scope, purge)?;
    let change = NoticeChange::Deleted;
    batch.notice(NoticedChange::Memory { scope: row.scope.clone(), memory, change });
    items::mark_changed(batch, &row.scope, RecallKind::Tombstone, memory.bytes())?;
    batch.note_removed()
}

fn family(batch: &Batch<'_>, memory: MemoryId) -> Result<Vec<MemoryId>, Error> {
    let statement = format!("WITH RECURSIVE {FAMILY} SELECT id FROM family");
    find_all(batch.conn(), &statement, [memory.bytes()], |row| id(row, 0))
}

fn remove(batch: &Batch<'_>, scope: &Scope, memory: MemoryId) -> Result<(), Error> {
    items::drop_vectors(batch, memory)?;
    texts::drop_of(batch, scope, &memory.to_string())?;
    for statement in [
        "DELETE FROM tombstones WHERE memory = ?1",
        "DELETE FROM memory_sources WHERE memory = ?1",
        "DELETE FROM memory_versions WHERE memory = ?1",
        "DELETE FROM memories WHERE id = ?1",
    ] {
        batch.execute(statement, [memory.bytes()])?;
    }
    // It has a new place among the changes, so that indexes hear that it is gone.
    items::mark_changed(batch, scope, RecallKind::Memory, memory.bytes())
}

fn keep_shadows(batch: &Batch<'_>, scope: &Scope, purge: &MemoryPurge) -> Result<(), Error> {
    let mut keep =
        batch.conn().prepare("INSERT INTO shadows (app, user, shadow, at) VALUES (?1, ?2, ?3, ?4)")?;
    for words in &purge.shadows {
        let at = words.at.as_millisecond();
        keep.execute(params![scope.app.as_str(), scope.user.as_str(), words.shadow, at])?;
    }
    Ok(())
}
