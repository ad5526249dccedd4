//! Undo: what an action has changed is put back, by an action of its own, once, and only while nothing newer stands on it.

use protocol::ActionId;
use rusqlite::params;

use super::append::Batch;
use super::memories::change as memory;
use super::read::{find_first, sql, text, time};
use super::records::Put;
use super::{action_rows, files, ledger, profiles, records};
use crate::rules::ledger::LedgerPayload;
use crate::rules::undo::{ChangedThing, ThingChange, UndoRequest, changes_by_thing};
use crate::{ActionRow, ActionStatus, AppliedChange, Error, LedgerKind};

/// Newer actions among which the one that stands in the way is looked for.
const MAX_SEARCHED: i64 = 1_000;

/// Puts back what an action has changed, newest change first. Gives what that changed.
pub(super) fn take_back(
    batch: &Batch<'_>,
    by: &ActionRow,
    action: ActionId,
) -> Result<Vec<AppliedChange>, Error> {
    let known = action_rows::find(batch.conn(), action)?.filter(|row| row.scope == by.scope);
    let undone = known.ok_or_else(|| Error::Changed("there is no such action".into()))?;
    request(batch, &undone, by.id)?.check_here()?;
    let mut restored = Vec::new();
    for ThingChange { change, left } in changes_by_thing(&undone.changes) {
        let put_back = match change {
            AppliedChange::Record { id, kind, before, was, .. } => {
                let put = Put { id: *id, kind, data: before.as_ref() };
                records::restore(batch, &by.scope, put, (left, *was))?
            }
            AppliedChange::File { path, before, was, .. } => {
                files::restore(batch, &by.scope, (path, before.as_deref()), (left, *was))?
            }
            AppliedChange::Memory { id, .. } => memory::undo(batch, &by.scope, *id, left)?,
            AppliedChange::Profile { before, .. } => profiles::restore(batch, &by.scope, before, left)?,
        };
        match put_back {
            Some(change) => restored.push(change),
            None => return Err(conflict(batch, &undone, change)?),
        }
    }
    Ok(restored)
}

/// Notes on an action that another has taken it back.
pub(super) fn mark(batch: &Batch<'_>, by: &ActionRow, undone: ActionId) -> Result<(), Error> {
    ledger::append(batch, &by.scope, undone, LedgerKind::Undo, &LedgerPayload::undo(by.id))?;
    let statement = "UPDATE actions SET undone_by = ?2 WHERE id = ?1";
    batch.execute(statement, params![undone.bytes(), by.id.bytes()])
}

/// Reads what decides whether `by` may undo the action.
pub(super) fn request<'a>(
    batch: &Batch<'_>,
    action: &'a ActionRow,
    by: ActionId,
) -> Result<UndoRequest<'a>, Error> {
    let statement = "SELECT status FROM actions
                WHERE undo_of = ?1 AND id <> ?2 AND status IN ('started', 'complete', 'unknown')";
    let attempt =
        find_first(batch.conn(), statement, params![action.id.bytes(), by.bytes()], |row| text(row, 0))?;
    let attempt = attempt.and_then(|status| ActionStatus::parse(&status));
    Ok(UndoRequest { action, by, erased: action_rows::is_erased(batch, action.id)?, attempt })
}

/// Says which newer change stands in the way, and by which action it was made if it was one.
fn conflict(batch: &Batch<'_>, undone: &ActionRow, change: &AppliedChange) -> Result<Error, Error> {
    let thing = ChangedThing::of(change);
    let statement = "SELECT a.tool, a.started_at FROM
                (SELECT tool, started_at, changes, position FROM actions WHERE app = ?1 AND user = ?2 AND position > ?3
                    AND changes IS NOT NULL AND undone_by IS NULL AND undo_of IS NULL ORDER BY position DESC LIMIT ?6) a
                WHERE EXISTS (SELECT 1 FROM json_each(a.changes) c WHERE c.value ->> ?4 = ?5)
                ORDER BY a.position DESC LIMIT 1";
    let newer = find_first(
        batch.conn(),
        statement,
        params![
            undone.scope.app.as_str(),
            undone.scope.user.as_str(),
            sql(undone.position),
            thing.field,
            thing.key,
            MAX_SEARCHED
        ],
        |row| Ok((text(row, 0)?, time(row, 1)?)),
    )?;
    Ok(thing.changed_since(newer))
}
