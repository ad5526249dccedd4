//! Undo: what an action has changed is put back, by an action of its own, once, and only while nothing newer stands on it.

use protocol::{ActionId, Effect, ToolStatus};
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use super::append::Batch;
use super::ledger::{self, Kind, Payload};
use super::memories::change as memory;
use super::read::{sql, text, time};
use super::records::Put;
use super::{actions, files, once, profiles, records};
use crate::{ActionEnd, ActionRow, Change, Error, NewAction, Once, Write};

/// Newer actions among which the one that stands in the way is looked for.
const MAX_SEARCHED: i64 = 1_000;

/// Why what was erased is not taken back.
const ERASED: &str = "what the action did was erased, because its conversation or what it changed was deleted, or its \
    time for an undo is over";

/// The user takes an action back.
pub(super) fn by_hand(
    batch: &Batch<'_>,
    user: &str,
    action: ActionId,
    by: NewAction,
    once: Option<&Once>,
) -> Result<ActionRow, Error> {
    let undone = actions::of_user(batch.conn(), action, user)?;
    if let Some(earlier) = once::earlier(batch, &undone.scope, once)? {
        return actions::of_user(batch.conn(), earlier.into(), user);
    }
    once::remember(batch, &undone.scope, once, by.id.uuid())?;
    // It belongs to the same thread, so that what it says goes when that is deleted.
    let by = actions::begin(batch, &undone.scope, undone.thread, None, by)?;
    let end = ActionEnd {
        status: ToolStatus::Complete,
        output: json!({ "undone": action }),
        duration_ms: 0,
        writes: vec![Write::Undo { action }],
    };
    actions::settle(batch, by, end, None)
}

/// The user begins to take back an action that acted outside. What does so is called between this and its outcome.
pub(super) fn begin(
    batch: &Batch<'_>,
    user: &str,
    action: ActionId,
    by: NewAction,
    once: Option<&Once>,
) -> Result<ActionRow, Error> {
    let undone = actions::of_user(batch.conn(), action, user)?;
    if let Some(earlier) = once::earlier(batch, &undone.scope, once)? {
        return actions::of_user(batch.conn(), earlier.into(), user);
    }
    let reason = match refusal(batch, &undone, by.id)? {
        None => refusal_outside(batch, &undone)?,
        reason => reason,
    };
    if let Some(reason) = reason {
        return Err(Error::Changed(reason.into()));
    }
    once::remember(batch, &undone.scope, once, by.id.uuid())?;
    actions::begin(batch, &undone.scope, undone.thread, Some(action), by)
}

/// Puts back what an action has changed, newest change first. Gives what that changed.
pub(super) fn take_back(batch: &Batch<'_>, by: &ActionRow, action: ActionId) -> Result<Vec<Change>, Error> {
    let known = actions::find(batch.conn(), action)?.filter(|row| row.scope == by.scope);
    let undone = known.ok_or_else(|| Error::Changed("there is no such action".into()))?;
    if let Some(reason) = refusal(batch, &undone, by.id)?.or_else(|| refusal_here(&undone)) {
        return Err(Error::Changed(reason.into()));
    }
    let mut restored = Vec::new();
    for Whole { change, left } in whole(&undone.changes) {
        let put_back = match change {
            Change::Record { id, kind, before, was, .. } => {
                let put = Put { id: *id, kind, data: before.as_ref() };
                records::restore(batch, &by.scope, put, (left, *was))?
            }
            Change::File { path, before, was, .. } => {
                files::restore(batch, &by.scope, (path, before.as_deref()), (left, *was))?
            }
            Change::Memory { id, .. } => memory::undo(batch, &by.scope, *id, left)?,
            Change::Profile { before, .. } => profiles::restore(batch, &by.scope, before, left)?,
        };
        match put_back {
            Some(change) => restored.push(change),
            None => return Err(in_the_way(batch, &undone, change)?),
        }
    }
    Ok(restored)
}

/// Notes on an action that another has taken it back.
pub(super) fn mark(batch: &Batch<'_>, by: &ActionRow, undone: ActionId) -> Result<(), Error> {
    let payload = Payload { undone_by: Some(by.id), ..Payload::default() };
    ledger::append(batch, &by.scope, undone, Kind::Undo, &payload)?;
    batch
        .conn()
        .prepare_cached("UPDATE actions SET undone_by = ?2 WHERE id = ?1")?
        .execute(params![undone.bytes(), by.id.bytes()])?;
    Ok(())
}

/// Why `by` cannot take back the action, whatever it did.
fn refusal(batch: &Batch<'_>, undone: &ActionRow, by: ActionId) -> Result<Option<&'static str>, Error> {
    if undone.id == by {
        return Ok(Some("an action cannot take back itself"));
    }
    if undone.undo_of.is_some() {
        return Ok(Some("what took back another action cannot be taken back"));
    }
    if undone.undone_by.is_some() {
        return Ok(Some("the action was taken back already"));
    }
    if actions::is_erased(batch, undone.id)? {
        return Ok(Some(ERASED));
    }
    if undone.status != ToolStatus::Complete.name() {
        return Ok(Some("the action was not completed, so there is nothing to take back"));
    }
    let attempt: Option<String> = batch
        .conn()
        .prepare_cached(
            "SELECT status FROM actions
                WHERE undo_of = ?1 AND id <> ?2 AND status IN ('started', 'complete', 'unknown')",
        )?
        .query_row(params![undone.id.bytes(), by.bytes()], |row| text(row, 0))
        .optional()?;
    Ok(attempt.map(|status| match status.as_str() {
        actions::STARTED => "the action is just being taken back",
        _ => "the action may have been taken back already, and nobody can know",
    }))
}

/// Why nothing that the action did here can be put back.
fn refusal_here(undone: &ActionRow) -> Option<&'static str> {
    let lasting = match undone.effect {
        Effect::Idempotent | Effect::Reversible => false,
        Effect::Read | Effect::Irreversible => true,
    };
    (lasting || undone.changes.is_empty()).then_some("the action changed nothing that can be put back")
}

/// Why what the action did outside cannot be taken back.
fn refusal_outside(batch: &Batch<'_>, undone: &ActionRow) -> Result<Option<&'static str>, Error> {
    match undone.effect {
        Effect::Reversible => {}
        Effect::Read | Effect::Idempotent | Effect::Irreversible => {
            return Ok(Some("the action did nothing that can be taken back"));
        }
    }
    // What it did is not known any more, and nothing would erase what its undo says.
    Ok(actions::is_erased(batch, undone.id)?.then_some(ERASED))
}

/// All that an action did to one thing: its first change to it, and the version its last one has left.
struct Whole<'a> {
    change: &'a Change,
    left: u64,
}

/// One for each thing, the one changed last first.
fn whole(changes: &[Change]) -> Vec<Whole<'_>> {
    let mut things: Vec<Whole<'_>> = Vec::new();
    for change in changes.iter().rev() {
        match things.iter_mut().find(|thing| same_thing(thing.change, change)) {
            Some(thing) => thing.change = change,
            None => things.push(Whole { change, left: version(change) }),
        }
    }
    things
}

fn version(change: &Change) -> u64 {
    match change {
        Change::Record { version, .. }
        | Change::File { version, .. }
        | Change::Memory { version, .. }
        | Change::Profile { version, .. } => *version,
    }
}

fn same_thing(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Record { id: one, .. }, Change::Record { id: other, .. }) => one == other,
        (Change::File { path: one, .. }, Change::File { path: other, .. }) => one == other,
        (Change::Memory { id: one, .. }, Change::Memory { id: other, .. }) => one == other,
        (Change::Profile { .. }, Change::Profile { .. }) => true,
        (Change::Record { .. } | Change::File { .. } | Change::Memory { .. } | Change::Profile { .. }, _) => {
            false
        }
    }
}

/// Says what has changed since, and by which action if it was one.
fn in_the_way(batch: &Batch<'_>, undone: &ActionRow, change: &Change) -> Result<Error, Error> {
    let (thing, field, key) = match change {
        Change::Record { id, kind, .. } => (format!("the {kind} {id}"), "$.id", id.to_string()),
        Change::File { path, .. } => (format!("the file {path}"), "$.path", path.clone()),
        Change::Memory { id, .. } => (format!("the memory {id}"), "$.id", id.to_string()),
        Change::Profile { .. } => ("the profile".to_owned(), "$.what", "profile".to_owned()),
    };
    let newer = batch
        .conn()
        .prepare_cached(
            "SELECT a.tool, a.started_at FROM
                (SELECT tool, started_at, changes, position FROM actions WHERE app = ?1 AND user = ?2 AND position > ?3
                    AND changes IS NOT NULL AND undone_by IS NULL AND undo_of IS NULL ORDER BY position DESC LIMIT ?6) a
                WHERE EXISTS (SELECT 1 FROM json_each(a.changes) c WHERE c.value ->> ?4 = ?5)
                ORDER BY a.position DESC LIMIT 1",
        )?
        .query_row(
            params![
                undone.scope.app.as_str(),
                undone.scope.user.as_str(),
                sql(undone.position),
                field,
                key,
                MAX_SEARCHED
            ],
            |row| Ok((text(row, 0)?, time(row, 1)?)),
        )
        .optional()?;
    Ok(Error::Changed(match newer {
        Some((tool, at)) => format!("{thing} was changed since by {tool} at {at}; undo that first"),
        None => format!("{thing} was changed since by hand, so it cannot be put back"),
    }))
}
