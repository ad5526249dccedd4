//! Notes about deleted things, for the sweep that erases their traces.
//!
//! Things that the user deletes are erased with the next sweep, and undo refuses them at once. Things that a tool or an undo
//! deletes can be restored until their time is over, and are erased then.

use protocol::{ActionId, Scope};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::Batch;
use super::read::count;
use crate::rules::erasure::{DeletedBy, change_name};
use crate::{AppliedChange, Error};

/// Notes which things an action has changed, so that it is found when they are deleted.
pub(super) fn changed(
    batch: &Batch<'_>,
    scope: &Scope,
    action: ActionId,
    changes: &[AppliedChange],
) -> Result<(), Error> {
    let mut note = batch.conn().prepare_cached(
        "INSERT INTO action_things (app, user, thing, action) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?;
    for change in changes {
        note.execute(params![scope.app.as_str(), scope.user.as_str(), change_name(change), action.bytes()])?;
    }
    Ok(())
}

/// A thing is deleted: what is said of it elsewhere is to be erased, at once or later.
pub(super) fn deleted(batch: &Batch<'_>, scope: &Scope, thing: &str, by: DeletedBy) -> Result<(), Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    // The entry of the call that deletes it may be the next one of the ledger.
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO erasures (app, user, thing, by_hand, position, at)
                VALUES (?1, ?2, ?3, ?4,
                    coalesce((SELECT position FROM ledger_heads WHERE app = ?1 AND user = ?2), 0) + (?4 = 0), ?5)
                ON CONFLICT DO UPDATE SET position = excluded.position, at = excluded.at",
        )?
        .execute(params![app, user, thing, by == DeletedBy::User, batch.at()])?;
    match by {
        DeletedBy::User => count_erasure(batch, scope),
        DeletedBy::Tool => Ok(()),
    }
}

/// A thing is there again because its deletion was taken back.
pub(super) fn restored(batch: &Batch<'_>, scope: &Scope, thing: &str) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached("DELETE FROM erasures WHERE app = ?1 AND user = ?2 AND thing = ?3 AND by_hand = 0")?
        .execute([scope.app.as_str(), scope.user.as_str(), thing])?;
    Ok(())
}

/// How often something of the scope was erased.
pub(super) fn number(conn: &Connection, scope: &Scope) -> Result<u64, Error> {
    let mut find = conn.prepare_cached("SELECT number FROM erasure_counts WHERE app = ?1 AND user = ?2")?;
    let found = find.query_row([scope.app.as_str(), scope.user.as_str()], |row| count(row, 0));
    Ok(found.optional()?.unwrap_or(0))
}

/// From here on, nothing is kept of what prompts said of the scope's records before.
pub(super) fn count_erasure(batch: &Batch<'_>, scope: &Scope) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO erasure_counts (app, user, number) VALUES (?1, ?2, 1)
                ON CONFLICT (app, user) DO UPDATE SET number = number + 1",
        )?
        .execute([scope.app.as_str(), scope.user.as_str()])?;
    Ok(())
}
