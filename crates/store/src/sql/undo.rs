//! Undo: what an action has changed is put back, by an action of its own, once, and only while nothing newer stands on it.
//! A plan says what an undo would do, by the same rules.

use crate::sql::{SqlConnection, params};
use protocol::{ActionId, Scope};
use serde_json::{Value, json};
use uuid::Uuid;

use super::append::Batch;
use super::files::PutFile;
use super::memories::change as memory;
use super::read::{find_all, find_first, sql, text, time};
use super::records::PutRecord;
use super::{SqlStore, action_rows, files, ledger, memories, profiles, records};
use crate::rules::erasure::change_name;
use crate::rules::ledger::LedgerPayload;
use crate::rules::memories::is_current;
use crate::rules::undo::{
    ChangedThing, NOT_ACTIVE, StandingThing, ThingChange, UndoRequest, UndoneThings, attempt_in_the_way,
    changes_by_thing,
};
use crate::{ActionRow, ActionStatus, AppliedChange, Error, LedgerKind, PlannedChange, UndoPlace, UndoPlan};

/// Newer actions among which the one that stands in the way is looked for.
const MAX_SEARCHED: i64 = 1_000;

/// Puts back what an action has changed, newest change first. Gives what that changed.
pub(super) fn undo_changes(
    batch: &Batch<'_>,
    by: &ActionRow,
    action: ActionId,
) -> Result<Vec<AppliedChange>, Error> {
    let known = action_rows::find(batch.conn(), action)?.filter(|row| row.scope == by.scope);
    let undone = known.ok_or_else(|| Error::Changed("there is no such action".into()))?;
    request(batch.conn(), &undone, by.id)?.check_here()?;
    let mut restored = Vec::new();
    for ThingChange { change, left } in changes_by_thing(&undone.changes) {
        let put_back = match change {
            AppliedChange::Record { id, kind, before, was, .. } => {
                let put = PutRecord { id: *id, kind, data: before.as_ref(), by: Some(by.id) };
                records::restore(batch, &by.scope, put, (left, *was))?
            }
            AppliedChange::File { path, before, was, .. } => {
                let put = PutFile { path, content: before.as_deref(), by: Some(by.id) };
                files::restore(batch, &by.scope, put, (left, *was))?
            }
            AppliedChange::Memory { id, .. } => memory::undo(batch, &by.scope, *id, left)?,
            AppliedChange::Profile { before, .. } => profiles::restore(batch, &by.scope, before, left)?,
        };
        match put_back {
            Some(change) => restored.push(change),
            None => return Err(conflict(batch.conn(), &undone, change)?),
        }
    }
    Ok(restored)
}

impl SqlStore {
    pub(crate) async fn undo_plans(
        &self,
        actions: Vec<(ActionRow, UndoPlace)>,
        mut undone: UndoneThings,
    ) -> Result<(Vec<UndoPlan>, UndoneThings), Error> {
        let read = move |conn: &SqlConnection| {
            let plans = actions.iter().map(|(action, place)| plan(conn, action, *place, &mut undone));
            let plans = plans.collect::<Result<_, _>>()?;
            Ok((plans, undone))
        };
        self.readers.read(read).await
    }
}

/// Returns the changes that an undo of an action would make, after the things that are undone already.
fn plan(
    conn: &SqlConnection,
    action: &ActionRow,
    place: UndoPlace,
    undone: &mut UndoneThings,
) -> Result<UndoPlan, Error> {
    let planned = match place {
        // The id of zeros belongs to no action. It stands for the action that would undo this one.
        UndoPlace::Outside => {
            request(conn, action, ActionId::new(Uuid::nil()))?.check_outside().map(|()| Vec::new())
        }
        UndoPlace::Store => planned_changes(conn, action, undone),
    };
    match planned {
        Ok(changes) => Ok(UndoPlan { refusal: None, changes }),
        Err(Error::Changed(reason)) => Ok(UndoPlan { refusal: Some(reason), changes: Vec::new() }),
        Err(error) => Err(error),
    }
}

/// The changes that [`undo_changes`] would make. [`Error::Changed`] says why it would refuse.
fn planned_changes(
    conn: &SqlConnection,
    action: &ActionRow,
    undone: &mut UndoneThings,
) -> Result<Vec<PlannedChange>, Error> {
    request(conn, action, ActionId::new(Uuid::nil()))?.check_here()?;
    let mut put_back = Vec::new();
    for thing in changes_by_thing(&action.changes) {
        let name = change_name(thing.change);
        let now = match undone.get(&name) {
            Some(standing) => standing.clone(),
            None => standing_thing(conn, &action.scope, thing.change)?,
        };
        let Some(then) = thing.put_back(&now) else { return Err(conflict(conn, action, thing.change)?) };
        check_room(conn, &action.scope, thing.change, &now)?;
        put_back.push((name, thing.change.clone(), now, then));
    }
    let mut changes = Vec::new();
    for (name, change, now, then) in put_back {
        let left_out = undone.leaves_out(&now, &then);
        undone.put(name, then.clone(), left_out);
        let shown = |contents: Option<Value>| contents.filter(|_| !left_out);
        changes.push(PlannedChange {
            change,
            now: shown(now.contents),
            then: shown(then.contents),
            left_out,
        });
    }
    Ok(changes)
}

/// The thing of a change as it stands.
fn standing_thing(
    conn: &SqlConnection,
    scope: &Scope,
    change: &AppliedChange,
) -> Result<StandingThing, Error> {
    match change {
        AppliedChange::Record { id, kind, .. } => {
            let found =
                records::standing_record(conn, scope, PutRecord { id: *id, kind, data: None, by: None })?;
            Ok(StandingThing { state: found.state, contents: found.contents })
        }
        AppliedChange::File { path, .. } => {
            let found = files::standing_file(conn, scope, path)?;
            Ok(StandingThing { state: found.state, contents: found.contents.map(Value::from) })
        }
        AppliedChange::Memory { id, .. } => {
            let found = memories::of_scope(conn, *id, scope)?;
            let active = found.filter(|row| is_current(row, row.version));
            let contents = active.as_ref().map(|row| json!({ "text": row.text, "kind": row.kind }));
            Ok(StandingThing { state: active.map_or(NOT_ACTIVE, |row| row.version), contents })
        }
        AppliedChange::Profile { .. } => {
            let found = profiles::find(conn, scope)?;
            Ok(StandingThing { state: found.version, contents: Some(profiles::profile_json(&found)) })
        }
    }
}

/// Whether there is room for what a change would bring back.
fn check_room(
    conn: &SqlConnection,
    scope: &Scope,
    change: &AppliedChange,
    now: &StandingThing,
) -> Result<(), Error> {
    match change {
        AppliedChange::Record { id, kind, before, .. } => {
            let put = PutRecord { id: *id, kind, data: before.as_ref(), by: None };
            records::check_put(conn, scope, put, now.contents.is_some())
        }
        AppliedChange::File { path, before, .. } => {
            let replaced = now.contents.as_ref().map(|content| content.as_str().map_or(0, str::len));
            let put = PutFile { path, content: before.as_deref(), by: None };
            files::check_put(conn, scope, put, replaced)
        }
        AppliedChange::Memory { .. } | AppliedChange::Profile { .. } => Ok(()),
    }
}

/// Notes on an action that another has undone it.
pub(super) fn mark(batch: &Batch<'_>, by: &ActionRow, undone: ActionId) -> Result<(), Error> {
    ledger::append(batch, &by.scope, undone, LedgerKind::Undo, &LedgerPayload::undo(by.id))?;
    let statement = "UPDATE actions SET undone_by = ?2 WHERE id = ?1";
    batch.execute(statement, params![undone.bytes(), by.id.bytes()])
}

/// Reads what decides whether `by` may undo the action.
pub(super) fn request<'a>(
    conn: &SqlConnection,
    action: &'a ActionRow,
    by: ActionId,
) -> Result<UndoRequest<'a>, Error> {
    // One row for each state at most, however many attempts there were.
    let statement = "SELECT DISTINCT status FROM actions WHERE undo_of = ?1 AND id <> ?2";
    let attempts = find_all(conn, statement, params![action.id.bytes(), by.bytes()], |row| text(row, 0))?;
    let attempt = attempt_in_the_way(attempts.iter().filter_map(|status| ActionStatus::parse(status)));
    Ok(UndoRequest { action, by, erased: action_rows::is_erased(conn, action.id)?, attempt })
}

/// Says which newer change stands in the way, and by which action it was made if it was one.
fn conflict(conn: &SqlConnection, undone: &ActionRow, change: &AppliedChange) -> Result<Error, Error> {
    let thing = ChangedThing::of(change);
    let statement = "SELECT a.tool, a.started_at FROM
                (SELECT tool, started_at, changes, position FROM actions WHERE app = ?1 AND user = ?2 AND position > ?3
                    AND changes IS NOT NULL AND undone_by IS NULL AND undo_of IS NULL ORDER BY position DESC LIMIT ?6) a
                WHERE EXISTS (SELECT 1 FROM json_each(a.changes) c WHERE json_extract(c.value, ?4) = ?5)
                ORDER BY a.position DESC LIMIT 1";
    let newer = find_first(
        conn,
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
