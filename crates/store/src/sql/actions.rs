//! Actions: each call as the entries of the ledger tell it, folded into a row in the transaction that adds the entry.

use crate::sql::{SqlConnection, params};
use protocol::{
    ActionId, Principal, ProposalId, RunId, Scope, ThreadId, ToolComplete, ToolStart, ToolStatus,
};
use serde_json::Value;

use super::action_rows::{find, insert, json, list, of_user, update};
use super::append::Batch;
use super::read::{find_first, id, scope_at};
use super::{RowsOf, SqlStore, erasures, idempotency, ledger, proposals, undo, writes};
use crate::rules::actions::{
    begun_action, call_end, ended_action, new_action, started_action, stored_output,
};
use crate::rules::ledger::{LedgerPayload, OutputPlace};
use crate::rules::undo::end_by_user;
use crate::{
    ActionEnd, ActionFilter, ActionRow, ActionStatus, Error, IdempotencyClaim, LedgerKind, NewAction, PageOf,
    PageRows, Write,
};

impl SqlStore {
    pub(crate) async fn actions(
        &self,
        scope: &Scope,
        filter: ActionFilter,
        page: PageOf<u64>,
    ) -> Result<PageRows<ActionRow>, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| list(conn, &scope, &filter, page)).await
    }

    pub(crate) async fn action(&self, principal: &Principal, action: ActionId) -> Result<ActionRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_for(rows, move |conn| of_user(conn, action, user.as_str())).await
    }

    pub(crate) async fn action_of(&self, scope: &Scope, action: ActionId) -> Result<ActionRow, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        let of_scope = move |conn: &SqlConnection| {
            find(conn, action)?.filter(|row| row.scope == scope).ok_or(Error::NotFound("action"))
        };
        self.readers.read_for(rows, of_scope).await
    }

    pub(crate) async fn undo(
        &self,
        principal: &Principal,
        action: ActionId,
        by: NewAction,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.writer
            .write_for(rows, move |batch| undo_by_user(batch, user.as_str(), action, by, once.as_ref()))
            .await
    }

    pub(crate) async fn begin_undo(
        &self,
        principal: &Principal,
        action: ActionId,
        by: NewAction,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.writer
            .write_for(rows, move |batch| begin_undo(batch, user.as_str(), action, by, once.as_ref()))
            .await
    }

    pub(crate) async fn begin_action(
        &self,
        scope: &Scope,
        proposal: ProposalId,
        action: NewAction,
        once: Option<IdempotencyClaim>,
    ) -> Result<ActionRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = idempotency::claim(batch, &scope, once.as_ref(), action.id.uuid())? {
                return of_user(batch.conn(), earlier.into(), scope.user.as_str());
            }
            let thread = proposals::confirm(batch, &scope, proposal, &action)?;
            begin(batch, &scope, thread, None, action)
        };
        self.writer.write(work).await
    }

    pub(crate) async fn end_action(
        &self,
        scope: &Scope,
        action: ActionId,
        end: ActionEnd,
    ) -> Result<ActionRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            let row = find(batch.conn(), action)?.filter(|row| row.scope == scope && row.run.is_none());
            let row = row.ok_or(Error::NotFound("action"))?;
            if row.status == ActionStatus::Started {
                return settle(batch, row, end, None);
            }
            note_late(batch, &row, end.status, &end.output)?;
            Ok(row)
        };
        self.writer.write(work).await
    }
}

/// Undoes an action for the user.
fn undo_by_user(
    batch: &Batch<'_>,
    user: &str,
    action: ActionId,
    by: NewAction,
    once: Option<&IdempotencyClaim>,
) -> Result<ActionRow, Error> {
    let undone = of_user(batch.conn(), action, user)?;
    if let Some(earlier) = idempotency::claim(batch, &undone.scope, once, by.id.uuid())? {
        return of_user(batch.conn(), earlier.into(), user);
    }
    // It belongs to the same thread, so that what it says goes when that is deleted.
    let by = begin(batch, &undone.scope, undone.thread, None, by)?;
    settle(batch, by, end_by_user(action), None)
}

/// Begins to undo, for the user, an action that acted outside. The undo tool is called between this and its outcome.
fn begin_undo(
    batch: &Batch<'_>,
    user: &str,
    action: ActionId,
    by: NewAction,
    once: Option<&IdempotencyClaim>,
) -> Result<ActionRow, Error> {
    let undone = of_user(batch.conn(), action, user)?;
    if let Some(earlier) = idempotency::claim(batch, &undone.scope, once, by.id.uuid())? {
        return of_user(batch.conn(), earlier.into(), user);
    }
    undo::request(batch.conn(), &undone, by.id)?.check_outside()?;
    begin(batch, &undone.scope, undone.thread, Some(action), by)
}

/// A call of a run is about to be made, for the first time or again.
pub(super) fn start_call(batch: &Batch<'_>, run: RunId, start: &ToolStart) -> Result<(), Error> {
    let known = find(batch.conn(), start.call_id.into())?;
    let announced = known.is_some();
    let action = match known {
        Some(action) => action,
        None => of_call(batch, run, start.call_id.into(), &start.name)?,
    };
    let mut action = started_action(action, start);
    let position = announce(batch, &action)?;
    if announced {
        return update(batch, &action, None);
    }
    action.position = position;
    insert(batch, &action, None)
}

/// A call of a run has its result, which the event at `place` tells. Its writes are applied with it.
pub(super) fn end_call(
    batch: &Batch<'_>,
    run: RunId,
    result: &ToolComplete,
    writes: &[Write],
    place: OutputPlace,
) -> Result<(), Error> {
    let action = match find(batch.conn(), result.call_id.into())? {
        Some(action) => action,
        None => {
            let action = of_call(batch, run, result.call_id.into(), &result.name)?;
            ActionRow { input: asked_input(batch, action.id)?, ..action }
        }
    };
    settle(batch, action, call_end(result, writes), Some(place)).map(drop)
}

/// A second result for a call: noted, and nothing else. [T6]
pub(super) fn note_late_result(batch: &Batch<'_>, result: &ToolComplete) -> Result<(), Error> {
    // A call from before there was a ledger has no action, and its late result none to belong to.
    let action = find(batch.conn(), result.call_id.into())?;
    action.map_or(Ok(()), |action| note_late(batch, &action, result.status, &result.output))
}

fn note_late(batch: &Batch<'_>, action: &ActionRow, status: ToolStatus, output: &Value) -> Result<(), Error> {
    let payload = LedgerPayload::late(status, output);
    ledger::append(batch, &action.scope, action.id, LedgerKind::Late, &payload).map(drop)
}

/// Adds the intent of an action to the ledger.
fn announce(batch: &Batch<'_>, action: &ActionRow) -> Result<u64, Error> {
    ledger::append(batch, &action.scope, action.id, LedgerKind::Intent, &LedgerPayload::intent(action))
}

/// Begins an action that no run calls. `undo_of` names the action that it undoes outside the store.
pub(super) fn begin(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: Option<ThreadId>,
    undo_of: Option<ActionId>,
    new: NewAction,
) -> Result<ActionRow, Error> {
    let mut action = ActionRow { thread, undo_of, ..begun_action(scope, new, batch.now()?) };
    action.position = announce(batch, &action)?;
    insert(batch, &action, None)?;
    Ok(action)
}

/// Ends an action: its writes, its row and its entries. One without a position in the ledger was never begun. With a
/// place, the event there tells the output, and neither the row nor the entry says it again.
pub(super) fn settle(
    batch: &Batch<'_>,
    action: ActionRow,
    end: ActionEnd,
    place: Option<OutputPlace>,
) -> Result<ActionRow, Error> {
    let applied = writes::apply(batch, &action, &end.writes)?;
    let (mut action, undone) = ended_action(action, end, applied)?;
    let announced = action.position > 0;
    let own_output = if place.is_none() { stored_output(&action) } else { None };
    let payload = LedgerPayload::outcome(&action, announced, place);
    let position = ledger::append(batch, &action.scope, action.id, LedgerKind::Outcome, &payload)?;
    if announced {
        update(batch, &action, own_output.as_deref())?;
    } else {
        action.position = position;
        insert(batch, &action, own_output.as_deref())?;
    }
    erasures::note_changes(batch, &action.scope, action.id, &action.changes)?;
    if let Some(undone) = undone {
        undo::mark(batch, &action, undone)?;
    }
    Ok(action)
}

/// A new action of a call of a run, without its input.
fn of_call(batch: &Batch<'_>, run: RunId, call: ActionId, tool: &str) -> Result<ActionRow, Error> {
    let statement = "SELECT r.app, r.user, r.thread, c.step, r.actor
                FROM runs r LEFT JOIN tool_calls c ON c.id = ?2 AND c.run = r.id WHERE r.id = ?1";
    let now = batch.now()?;
    find_first(batch.conn(), statement, params![run.bytes(), call.bytes()], |row| {
        Ok(ActionRow {
            thread: Some(id(row, 2)?),
            run: Some(run),
            step: row.get(3)?,
            actor: row.get(4)?,
            ..new_action(call, scope_at(row, 0)?, tool.to_owned(), now)
        })
    })?
    .ok_or(Error::NotFound("run"))
}

/// The input of a call that was never started, as its step asked for it.
fn asked_input(batch: &Batch<'_>, call: ActionId) -> Result<Value, Error> {
    let statement = "SELECT e.body FROM tool_calls c JOIN runs r ON r.id = c.run
                JOIN events e ON e.thread = r.thread AND e.seq = c.seq WHERE c.id = ?1";
    let step = find_first(batch.conn(), statement, [call.bytes()], |row| json(row, 0))?.flatten();
    Ok(step.and_then(|step| input_of(&step, call)).unwrap_or_default())
}

/// The input that a step gave a call.
fn input_of(step: &Value, call: ActionId) -> Option<Value> {
    let name = format!("call_{}", call.uuid().simple());
    let calls = step.get("calls")?.as_array()?;
    let asked = calls.iter().find(|asked| asked.get("id").and_then(Value::as_str) == Some(&name))?;
    asked.get("input").cloned()
}
