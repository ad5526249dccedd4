//! Writes: those of a call, in order, with its outcome; those of a run that begins, with what it has loaded.

use protocol::RunId;

use super::append::Batch;
use super::files::PutFile;
use super::memories::change;
use super::read::{find_only, id, scope_at};
use super::records::PutRecord;
use super::{files, pins, profiles, proposals, records, texts, undo};
use crate::rules::actions::{AppliedWrites, second_undo};
use crate::rules::erasure::DeletedBy;
use crate::{ActionRow, Error, MAX_WRITES_PER_CALL, Write};

/// Applies what `by` writes. [`Error::Changed`] if any of it cannot be: then the whole transaction must go.
pub(super) fn apply(batch: &Batch<'_>, by: &ActionRow, writes: &[Write]) -> Result<AppliedWrites, Error> {
    if writes.len() > MAX_WRITES_PER_CALL {
        return Err(Error::Changed(format!("a call changes at most {MAX_WRITES_PER_CALL} things")));
    }
    let scope = &by.scope;
    let mut applied = AppliedWrites::default();
    for write in writes {
        match write {
            Write::Record { id, kind, data, expected } => {
                let put = PutRecord { id: *id, kind, data: data.as_ref(), by: Some(by.id) };
                applied.changes.push(records::write(batch, scope, put, *expected, DeletedBy::Tool)?);
            }
            Write::File { path, content, expected } => {
                let put = PutFile { path, content: content.as_deref(), by: Some(by.id) };
                applied.changes.push(files::write(batch, scope, put, *expected, DeletedBy::Tool)?);
            }
            Write::Propose(new) => proposals::propose(batch, by, new)?,
            Write::Reword { id, input, note } => {
                proposals::reword(batch, scope, *id, input.as_ref(), note.as_deref())?;
            }
            Write::Withdraw { id } => proposals::withdraw(batch, scope, *id)?,
            Write::Undo { .. } if applied.undo_of.is_some() => {
                return Err(second_undo());
            }
            Write::Undo { action } => {
                applied.changes.extend(undo::undo_changes(batch, by, *action)?);
                applied.undo_of = Some(*action);
            }
            Write::Remember(memory) => applied.changes.push(change::remember(batch, scope, memory)?),
            Write::Profile(profile) => applied.changes.push(profiles::write(batch, scope, profile)?),
            Write::Keep(_) | Write::Pin(_) | Write::Forget { .. } => return Err(Error::Aborted),
        }
    }
    Ok(applied)
}

/// Writes down what a run remembers, forgets, pins and keeps without a call.
pub(super) fn note(batch: &Batch<'_>, run: RunId, writes: &[Write]) -> Result<(), Error> {
    if writes.is_empty() {
        return Ok(());
    }
    let statement = "SELECT app, user, thread FROM runs WHERE id = ?1";
    let (scope, thread) =
        find_only(batch.conn(), statement, [run.bytes()], |row| Ok((scope_at(row, 0)?, id(row, 2)?)))?;
    let mut kept = Vec::new();
    for write in writes {
        match write {
            Write::Remember(memory) => change::remember(batch, &scope, memory).map(drop)?,
            Write::Forget { memory } => change::forget_named(batch, &scope, *memory)?,
            Write::Pin(pin) => pins::insert(batch, &scope, pin)?,
            Write::Keep(text) => kept.push(text),
            Write::Record { .. }
            | Write::File { .. }
            | Write::Propose(_)
            | Write::Reword { .. }
            | Write::Withdraw { .. }
            | Write::Undo { .. }
            | Write::Profile(_) => return Err(Error::Aborted),
        }
    }
    // The source of a text may be made by the same writes, so it is kept after them.
    texts::keep(batch, &scope, thread, &kept)
}
