//! The sweep: erases the traces of deleted things in the ledger, the snapshots and the kept prompts, and gives space back.

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;
use protocol::{ActionId, MemoryId, Principal, Scope};

use super::append::Batch;
use super::erasures::count_erasure;
use super::read::{count, find_all, find_first, id, scope_at, sql, text};
use super::{
    RowsOf, SqlStore, action_rows, erasures, free_pages, memories, recall, records, texts, versions,
};
use crate::rules::erasure::{THING_DELETED, text_source};
use crate::{Error, IdempotencyClaim, MAX_ACTIONS_PER_PURGE, MemoryPurge, TombstoneRow};

/// Actions erased in one transaction.
const MAX_ACTIONS: i64 = 100;
/// Kept texts and lines of snapshots removed in one transaction.
const MAX_TEXTS: i64 = 200;

impl SqlStore {
    pub(crate) async fn words_of_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
    ) -> Result<Vec<TombstoneRow>, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        let read = move |conn: &SqlConnection| {
            memories::find(conn, memory, user.as_str())?;
            recall::tombstones_of(conn, memory)
        };
        self.readers.read_for(rows, read).await
    }

    pub(crate) async fn purge_memory(
        &self,
        principal: &Principal,
        memory: MemoryId,
        purge: MemoryPurge,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        let work = move |batch: &mut Batch<'_>| {
            memories::purge::purge(batch, &principal, memory, &purge, once.as_ref())
        };
        self.writer.write_for(rows, work).await
    }

    pub(crate) async fn erase_actions(&self, scope: &Scope, actions: Vec<ActionId>) -> Result<(), Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            let some = actions.iter().take(MAX_ACTIONS_PER_PURGE);
            some.into_iter().try_for_each(|action| {
                action_rows::erase_one(batch, &scope, *action, memories::purge::REASON)
            })?;
            batch.note_removed()
        };
        self.writer.write(work).await
    }

    pub(crate) async fn erasures(&self, scope: &Scope) -> Result<u64, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| erasures::number(conn, &scope)).await
    }

    pub(crate) async fn erase(&self, undo_before: Timestamp) -> Result<bool, Error> {
        // Mostly there is nothing, and then there is no need to write.
        let is_due =
            move |conn: &SqlConnection| Ok(next(conn, undo_before)?.is_some() || records::is_to_merge(conn)?);
        if !self.readers.read(is_due).await? {
            return Ok(false);
        }
        let work = move |batch: &mut Batch<'_>| Ok(erase_next(batch, undo_before)? || records::merge(batch)?);
        self.writer.write(work).await
    }

    pub(crate) async fn tidy(&self) -> Result<bool, Error> {
        let restart = self.writer.wal_restart();
        if !self.readers.read(move |conn| free_pages::is_due(conn, &restart)).await? {
            return Ok(false);
        }
        let restart = self.writer.wal_restart();
        self.writer.write_ahead(move |batch| free_pages::step(batch, &restart)).await
    }

    pub(crate) fn is_untidy(&self) -> bool {
        self.writer.wal_restart().is_left()
    }
}

/// A deleted thing whose traces are to go.
struct Due {
    scope: Scope,
    thing: String,
    by_hand: bool,
    position: u64,
    /// When it was deleted.
    at: i64,
}

/// Erases some of what is said of one thing that the user deleted, or that a tool deleted at `undo_before` or earlier.
/// True when there was one.
fn erase_next(batch: &Batch<'_>, undo_before: Timestamp) -> Result<bool, Error> {
    let Some(due) = next(batch.conn(), undo_before)? else { return Ok(false) };
    let source = text_source(&due.scope, &due.thing);
    if erase_actions(batch, &due)? || texts::drop_some(batch, &due.scope, &source, MAX_TEXTS)? {
        return Ok(true);
    }
    if !due.by_hand {
        count_erasure(batch, &due.scope)?;
        versions::forget_until(batch, &due.scope, &due.thing, due.at)?;
    }
    if texts::drop_stale_records(batch, &due.scope, MAX_TEXTS)? {
        return Ok(true);
    }
    records::merge_later(batch)?;
    batch.note_removed()?;
    let statement = "DELETE FROM erasures WHERE app = ?1 AND user = ?2 AND thing = ?3 AND by_hand = ?4";
    batch.execute(
        statement,
        params![due.scope.app.as_str(), due.scope.user.as_str(), due.thing, due.by_hand],
    )?;
    Ok(true)
}

fn next(conn: &SqlConnection, undo_before: Timestamp) -> Result<Option<Due>, Error> {
    // Deletions by hand at once; deletions by a tool only when their time is over.
    for (by_hand, before) in [(true, i64::MAX), (false, undo_before.as_millisecond())] {
        let statement = "SELECT app, user, thing, position, at FROM erasures WHERE by_hand = ?1 AND at <= ?2
                ORDER BY at, app, user, thing LIMIT 1";
        let found = find_first(conn, statement, params![by_hand, before], |row| {
            let (scope, thing) = (scope_at(row, 0)?, text(row, 2)?);
            Ok(Due { scope, thing, by_hand, position: count(row, 3)?, at: row.get(4)? })
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Erases some of the actions that changed the thing before it was deleted. True when there were any.
fn erase_actions(batch: &Batch<'_>, due: &Due) -> Result<bool, Error> {
    let (app, user) = (due.scope.app.as_str(), due.scope.user.as_str());
    let statement = "SELECT t.action FROM action_things t CROSS JOIN actions a ON a.id = t.action
                WHERE t.app = ?1 AND t.user = ?2 AND t.thing = ?3 AND a.position <= ?4 AND a.status <> 'started'
                ORDER BY t.action LIMIT ?5";
    let found = find_all(
        batch.conn(),
        statement,
        params![app, user, due.thing, sql(due.position), MAX_ACTIONS],
        |row| id(row, 0),
    )?;
    for action in &found {
        action_rows::erase_one(batch, &due.scope, *action, THING_DELETED)?;
        let statement =
            "DELETE FROM action_things WHERE app = ?1 AND user = ?2 AND thing = ?3 AND action = ?4";
        batch.execute(statement, params![app, user, due.thing, action.bytes()])?;
    }
    Ok(!found.is_empty())
}
