//! Notes about deleted things, for the sweep that erases their traces.
//!
//! Things that the user deletes are erased with the next sweep, and undo refuses them at once. Things that a tool or an undo
//! deletes can be restored until their time is over, and are erased then.

use crate::sql::{SqlConnection, params};
use protocol::{ActionId, Scope};

use super::append::Batch;
use super::read::{count, find_first};
use crate::rules::erasure::{DeletedBy, change_name};
use crate::{AppliedChange, Error};

/// Notes which things an action has changed, so that it is found when they are deleted.
pub(super) fn note_changes(
    batch: &Batch<'_>,
    scope: &Scope,
    action: ActionId,
    changes: &[AppliedChange],
) -> Result<(), Error> {
    let mut note = batch.conn().prepare(
        "INSERT INTO action_things (app, user, thing, action) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    )?;
    for change in changes {
        note.execute(params![scope.app.as_str(), scope.user.as_str(), change_name(change), action.bytes()])?;
    }
    Ok(())
}

/// A thing is deleted: what is said of it elsewhere is to be erased, at once or later.
pub(super) fn note_deletion(
    batch: &Batch<'_>,
    scope: &Scope,
    thing: &str,
    by: DeletedBy,
) -> Result<(), Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    // The entry of the call that deletes it may be the next one of the ledger.
    let statement = "INSERT INTO erasures (app, user, thing, by_hand, position, at)
                VALUES (?1, ?2, ?3, ?4,
                    coalesce((SELECT position FROM ledger_heads WHERE app = ?1 AND user = ?2), 0) + CASE WHEN ?4 = 0 THEN 1 ELSE 0 END, ?5)
                ON CONFLICT (app, user, thing, by_hand) DO UPDATE SET position = excluded.position, at = excluded.at";
    batch.execute(statement, params![app, user, thing, by == DeletedBy::User, batch.at()])?;
    match by {
        DeletedBy::User => count_erasure(batch, scope),
        DeletedBy::Tool => Ok(()),
    }
}

/// A thing is there again because its deletion was undone.
pub(super) fn note_restoration(batch: &Batch<'_>, scope: &Scope, thing: &str) -> Result<(), Error> {
    let statement = "DELETE FROM erasures WHERE app = ?1 AND user = ?2 AND thing = ?3 AND by_hand = 0";
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str(), thing])
}

/// How often something of the scope was erased.
pub(super) fn number(conn: &SqlConnection, scope: &Scope) -> Result<u64, Error> {
    let statement = "SELECT number FROM erasure_counts WHERE app = ?1 AND user = ?2";
    Ok(find_first(conn, statement, [scope.app.as_str(), scope.user.as_str()], |row| count(row, 0))?
        .unwrap_or(0))
}

/// From here on, nothing is kept of what prompts said of the scope's records before.
pub(super) fn count_erasure(batch: &Batch<'_>, scope: &Scope) -> Result<(), Error> {
    let statement = "INSERT INTO erasure_counts (app, user, number) VALUES (?1, ?2, 1)
                ON CONFLICT (app, user) DO UPDATE SET number = erasure_counts.number + 1";
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str()])
}
