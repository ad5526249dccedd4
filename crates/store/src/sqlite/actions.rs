//! Actions: each call as the entries of the ledger tell it, folded into a row in the transaction that adds the entry.

use protocol::{
    ActionId, Effect, Principal, ProposalId, RunId, Scope, ThreadId, ToolComplete, ToolStart, ToolStatus,
    canonical,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter};
use serde_json::Value;

use super::append::Batch;
use super::read::{count, id, maybe_id, one_more, sql, text, time};
use super::{Sqlite, erasures, ledger, once, proposals, read, texts, threads, undo, writes};
use crate::rules::actions::{
    begun_action, call_end, ended_action, new_action, output_in, started_action, stored_changes,
    stored_output,
};
use crate::rules::erasure::THREAD_DELETED;
use crate::rules::ledger::{LedgerPayload, OutputPlace};
use crate::{
    ActionEnd, ActionFilter, ActionRow, ActionStatus, Change, Error, LedgerKind, NewAction, Once, PageOf,
    PageRows, Write,
};

const COLUMNS: &str =
    "id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
    duration_ms, undone_by, undo_of, position";

/// What is read of an action: its columns, whether another is taking it back or may have, and the event that tells what
/// came out, where the action itself does not. The output of a call of a run is stored once, in its `tool:complete`.
const READ: &str =
    "id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
    duration_ms, undone_by, undo_of, position,
    EXISTS (SELECT 1 FROM actions u WHERE u.undo_of = actions.id AND u.status IN ('started', 'unknown')),
    CASE WHEN status <> 'started' AND input IS NOT NULL AND output IS NULL THEN
        (SELECT e.body FROM tool_results x CROSS JOIN events e ON e.thread = actions.thread AND e.seq = x.seq
            WHERE x.call = actions.id) END";

/// Actions without a run that are looked at after a start. Each was confirmed by hand.
const MAX_BEGUN: i64 = 1_000;

impl Sqlite {
    pub(crate) async fn actions(
        &self,
        scope: &Scope,
        filter: ActionFilter,
        page: PageOf<u64>,
    ) -> Result<PageRows<ActionRow>, Error> {
        let scope = scope.clone();
        self.readers.read(move |conn| list(conn, &scope, &filter, page)).await
    }

    pub(crate) async fn action(&self, principal: &Principal, action: ActionId) -> Result<ActionRow, Error> {
        let user = principal.user().clone();
        self.readers.read(move |conn| of_user(conn, action, user.as_str())).await
    }

    pub(crate) async fn action_of(&self, scope: &Scope, action: ActionId) -> Result<ActionRow, Error> {
        let scope = scope.clone();
        let of_scope = move |conn: &Connection| {
            find(conn, action)?.filter(|row| row.scope == scope).ok_or(Error::NotFound("action"))
        };
        self.readers.read(of_scope).await
    }

    pub(crate) async fn undo(
        &self,
        principal: &Principal,
        action: ActionId,
        by: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error> {
        let user = principal.user().clone();
        self.writer.write(move |batch| undo::by_hand(batch, user.as_str(), action, by, once.as_ref())).await
    }

    pub(crate) async fn begin_undo(
        &self,
        principal: &Principal,
        action: ActionId,
        by: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error> {
        let user = principal.user().clone();
        self.writer.write(move |batch| undo::begin(batch, user.as_str(), action, by, once.as_ref())).await
    }

    pub(crate) async fn begin_action(
        &self,
        scope: &Scope,
        proposal: ProposalId,
        action: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if let Some(earlier) = once::earlier(batch, &scope, once.as_ref())? {
                return of_user(batch.conn(), earlier.into(), scope.user.as_str());
            }
            once::remember(batch, &scope, once.as_ref(), action.id.uuid())?;
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

/// A call of a run is about to be made, for the first time or again.
pub(super) fn started(batch: &Batch<'_>, run: RunId, start: &ToolStart) -> Result<(), Error> {
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
pub(super) fn ended(
    batch: &Batch<'_>,
    run: RunId,
    result: &ToolComplete,
    writes: &[Write],
    place: OutputPlace,
) -> Result<(), Error> {
    let action = match find(batch.conn(), result.call_id.into())? {
        Some(action) => action,
        None => of_call(batch, run, result.call_id.into(), &result.name)?,
    };
    settle(batch, action, call_end(result, writes), Some(place)).map(drop)
}

/// A second result for a call: noted, and nothing else. [T6]
pub(super) fn late(batch: &Batch<'_>, result: &ToolComplete) -> Result<(), Error> {
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

/// Begins an action that no run calls, and says which other it is to take back if that happens outside.
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
    erasures::changed(batch, &action.scope, action.id, &action.changes)?;
    if let Some(undone) = undone {
        undo::mark(batch, &action, undone)?;
    }
    Ok(action)
}

/// Removes what was said in and by the thread's calls, at most `limit` of them. Gives how many those were.
pub(super) fn erase(batch: &Batch<'_>, thread: ThreadId, limit: usize) -> Result<usize, Error> {
    let mut next = batch.conn().prepare_cached(
        "UPDATE actions SET input = NULL, output = NULL, changes = NULL WHERE id IN
            (SELECT id FROM actions WHERE thread = ?1 AND input IS NOT NULL ORDER BY position LIMIT ?2)
            RETURNING id, app, user",
    )?;
    let erased = next
        .query_map(params![thread.bytes(), limit as i64], |row| Ok((id(row, 0)?, threads::scope(row, 1)?)))?
        .collect::<Result<Vec<(ActionId, Scope)>, _>>()?;
    for (action, scope) in &erased {
        erase_traces(batch, scope, *action, THREAD_DELETED)?;
    }
    Ok(erased.len())
}

/// Removes what one action said and did, unless that was done before.
pub(super) fn erase_one(
    batch: &Batch<'_>,
    scope: &Scope,
    action: ActionId,
    reason: &str,
) -> Result<(), Error> {
    let erased = batch
        .conn()
        .prepare_cached(
            "UPDATE actions SET input = NULL, output = NULL, changes = NULL
                WHERE id = ?1 AND app = ?2 AND user = ?3 AND input IS NOT NULL",
        )?
        .execute(params![action.bytes(), scope.app.as_str(), scope.user.as_str()])?;
    if erased == 0 { Ok(()) } else { erase_traces(batch, scope, action, reason) }
}

/// Removes what is said of an erased action elsewhere: in the ledger, in snapshots, in the proposal it comes from.
fn erase_traces(batch: &Batch<'_>, scope: &Scope, action: ActionId, reason: &str) -> Result<(), Error> {
    ledger::erase(batch, scope, action, reason)?;
    texts::drop_of(batch, scope, &action.to_string())?;
    batch.conn().prepare_cached("DELETE FROM action_things WHERE action = ?1")?.execute([action.bytes()])?;
    batch
        .conn()
        .prepare_cached("UPDATE proposals SET input = '{}', note = NULL WHERE action = ?1")?
        .execute([action.bytes()])?;
    Ok(())
}

/// Whether what it did is not known any more.
pub(super) fn is_erased(batch: &Batch<'_>, action: ActionId) -> Result<bool, Error> {
    let mut find = batch.conn().prepare_cached("SELECT 1 FROM actions WHERE id = ?1 AND input IS NULL")?;
    Ok(find.exists([action.bytes()])?)
}

/// Those that no run will end, oldest first.
pub(super) fn begun(conn: &Connection) -> Result<Vec<ActionRow>, Error> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {READ} FROM actions WHERE status = 'started' AND run IS NULL ORDER BY started_at LIMIT ?1"
    ))?;
    Ok(find.query_map([MAX_BEGUN], action_row)?.collect::<Result<_, _>>()?)
}

/// A new action of a call of a run, with the input that its step gave it.
fn of_call(batch: &Batch<'_>, run: RunId, call: ActionId, tool: &str) -> Result<ActionRow, Error> {
    let (scope, thread, step, input) = batch
        .conn()
        .prepare_cached(
            "SELECT r.app, r.user, r.thread, c.step,
                    (SELECT asked.value -> '$.input' FROM events e, json_each(iif(json_valid(e.body), e.body, '{}'), '$.calls') asked
                        WHERE e.thread = r.thread AND e.seq = c.seq
                          AND asked.value ->> '$.id' = 'call_' || lower(hex(c.id)))
                FROM runs r LEFT JOIN tool_calls c ON c.id = ?2 AND c.run = r.id WHERE r.id = ?1",
        )?
        .query_row(params![run.bytes(), call.bytes()], |row| {
            Ok((threads::scope(row, 0)?, id(row, 2)?, row.get(3)?, json(row, 4)?))
        })
        .optional()?
        .ok_or(Error::NotFound("run"))?;
    let action = new_action(call, scope, tool.to_owned(), batch.now()?);
    Ok(ActionRow { thread: Some(thread), run: Some(run), step, input: input.unwrap_or_default(), ..action })
}

fn insert(batch: &Batch<'_>, action: &ActionRow, own_output: Option<&str>) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(&format!(
            "INSERT INTO actions ({COLUMNS})
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
        ))?
        .execute(params![
            action.id.bytes(),
            action.scope.app.as_str(),
            action.scope.user.as_str(),
            action.thread.as_ref().map(ThreadId::bytes),
            action.run.as_ref().map(RunId::bytes),
            action.step,
            action.tool,
            action.effect.name(),
            action.status.name(),
            canonical(&action.input),
            own_output,
            stored_changes(action)?,
            action.started_at.as_millisecond(),
            action.duration_ms.map(sql),
            action.undone_by.as_ref().map(ActionId::bytes),
            action.undo_of.as_ref().map(ActionId::bytes),
            sql(action.position),
        ])?;
    Ok(())
}

fn update(batch: &Batch<'_>, action: &ActionRow, own_output: Option<&str>) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached(
            "UPDATE actions SET effect = ?2, input = ?3, status = ?4, output = ?5, changes = ?6, duration_ms = ?7,
                undo_of = ?8 WHERE id = ?1",
        )?
        .execute(params![
            action.id.bytes(),
            action.effect.name(),
            canonical(&action.input),
            action.status.name(),
            own_output,
            stored_changes(action)?,
            action.duration_ms.map(sql),
            action.undo_of.as_ref().map(ActionId::bytes),
        ])?;
    Ok(())
}

pub(super) fn find(conn: &Connection, action: ActionId) -> Result<Option<ActionRow>, Error> {
    let mut find = conn.prepare_cached(&format!("SELECT {READ} FROM actions WHERE id = ?1"))?;
    Ok(find.query_row([action.bytes()], action_row).optional()?)
}

pub(super) fn of_user(conn: &Connection, action: ActionId, user: &str) -> Result<ActionRow, Error> {
    let found = find(conn, action)?.filter(|row| row.scope.user.as_str() == user);
    found.ok_or(Error::NotFound("action"))
}

/// All actions in the order of their ids, for going through them.
pub(super) fn after(conn: &Connection, last: [u8; 16], limit: i64) -> Result<Vec<ActionRow>, Error> {
    let mut find =
        conn.prepare_cached(&format!("SELECT {READ} FROM actions WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
    Ok(find.query_map(params![last, limit], action_row)?.collect::<Result<_, _>>()?)
}

fn list(
    conn: &Connection,
    scope: &Scope,
    filter: &ActionFilter,
    page: PageOf<u64>,
) -> Result<PageRows<ActionRow>, Error> {
    let before = page.after.map_or(i64::MAX, sql);
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let run = filter.run.map(|run| run.bytes().to_vec());
    let thread = filter.thread.map(|thread| thread.bytes().to_vec());
    let (effect, status) = (filter.effect.map(Effect::name), filter.status.map(ActionStatus::name));
    let mut wanted: Vec<(&str, &dyn ToSql)> =
        vec![("app = ?", &app), ("user = ?", &user), ("position < ?", &before)];
    let optional: [(&str, Option<&dyn ToSql>); 6] = [
        ("run = ?", run.as_ref().map(|run| run as &dyn ToSql)),
        ("thread = ?", thread.as_ref().map(|thread| thread as &dyn ToSql)),
        ("tool = ?", filter.tool.as_ref().map(|tool| tool as &dyn ToSql)),
        ("status = ?", status.as_ref().map(|status| status as &dyn ToSql)),
        ("effect = ?", effect.as_ref().map(|effect| effect as &dyn ToSql)),
        ("(undone_by IS NOT NULL) = ?", filter.undone.as_ref().map(|undone| undone as &dyn ToSql)),
    ];
    wanted.extend(optional.into_iter().filter_map(|(sql, value)| Some((sql, value?))));
    let conditions: Vec<&str> = wanted.iter().map(|(condition, _)| *condition).collect();
    let limit = one_more(page.limit);
    let mut find = conn.prepare(&format!(
        "SELECT {READ} FROM actions WHERE {} ORDER BY position DESC LIMIT ?",
        conditions.join(" AND ")
    ))?;
    let values = wanted.iter().map(|(_, value)| *value).chain([&limit as &dyn ToSql]);
    read::page(find.query(params_from_iter(values))?, page.limit, action_row)
}

fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    Ok(row.get::<_, Option<String>>(column)?.and_then(|json| serde_json::from_str(&json).ok()))
}

/// What the body of a `tool:complete` in this column says came out.
fn told_output(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    Ok(row.get::<_, Option<String>>(column)?.map(|body| output_in(&body)))
}

fn action_row(row: &Row<'_>) -> rusqlite::Result<ActionRow> {
    let changes = row.get::<_, Option<String>>(11)?;
    let changes = changes.and_then(|changes| serde_json::from_str::<Vec<Change>>(&changes).ok());
    Ok(ActionRow {
        id: id(row, 0)?,
        scope: threads::scope(row, 1)?,
        thread: maybe_id(row, 3)?,
        run: maybe_id(row, 4)?,
        step: row.get(5)?,
        tool: text(row, 6)?,
        // What nobody can read is best not repeated.
        effect: Effect::parse(&text(row, 7)?).unwrap_or(Effect::Irreversible),
        // The schema knows no other status; one that cannot be read is not known.
        status: ActionStatus::parse(&text(row, 8)?).unwrap_or(ActionStatus::Ended(ToolStatus::Unknown)),
        input: json(row, 9)?.unwrap_or_default(),
        output: json(row, 10)?.or(told_output(row, 18)?).unwrap_or_default(),
        changes: changes.unwrap_or_default(),
        started_at: time(row, 12)?,
        duration_ms: row.get::<_, Option<i64>>(13)?.and_then(|duration| u64::try_from(duration).ok()),
        undone_by: maybe_id(row, 14)?,
        undo_of: maybe_id(row, 15)?,
        undo_under_way: row.get(17)?,
        position: count(row, 16)?,
    })
}
