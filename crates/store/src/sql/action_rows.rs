//! The rows of actions: reading, writing and erasing them.

use crate::sql::{SqlConnection, SqlRow, SqlValue, ToSqlValue, params};
use protocol::{ActionId, Effect, RunId, Scope, ThreadId, ToolStatus, canonical};
use serde_json::Value;

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_page, has_any, id, maybe_id, one_more, scope_at, sql, text, time,
};
use super::{ledger, texts};
use crate::rules::actions::{output_in, stored_changes};
use crate::rules::erasure::THREAD_DELETED;
use crate::{ActionFilter, ActionRow, ActionStatus, AppliedChange, Error, PageOf, PageRows};

const COLUMNS: &str =
    "id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
    duration_ms, undone_by, undo_of, position, actor";

/// The columns that are read of an action: its own, whether another undoes it or may have undone it, and the event with
/// its output, where the action itself does not. The output of a call of a run is stored once, in its `tool:complete`.
const READ: &str =
    "id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
    duration_ms, undone_by, undo_of, position,
    EXISTS (SELECT 1 FROM actions u WHERE u.undo_of = actions.id AND u.status IN ('started', 'unknown')),
    CASE WHEN status <> 'started' AND input IS NOT NULL AND output IS NULL THEN
        (SELECT e.body FROM tool_results x CROSS JOIN events e ON e.thread = actions.thread AND e.seq = x.seq
            WHERE x.call = actions.id) END,
    actor";

/// Actions without a run that are looked at after a start. Each was confirmed by hand.
const MAX_BEGUN: i64 = 1_000;

/// Removes what was said in and by the thread's calls, at most `limit` of them. Gives how many those were.
pub(super) fn erase(batch: &Batch<'_>, thread: ThreadId, limit: usize) -> Result<usize, Error> {
    let statement = "UPDATE actions SET input = NULL, output = NULL, changes = NULL WHERE id IN
            (SELECT id FROM actions WHERE thread = ?1 AND input IS NOT NULL ORDER BY position LIMIT ?2)
            RETURNING id, app, user";
    let erased = find_all(batch.conn(), statement, params![thread.bytes(), limit as i64], |row| {
        Ok((id(row, 0)?, scope_at(row, 1)?))
    })?;
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
    let statement = "UPDATE actions SET input = NULL, output = NULL, changes = NULL
                WHERE id = ?1 AND app = ?2 AND user = ?3 AND input IS NOT NULL";
    let erased =
        batch.count_changed(statement, params![action.bytes(), scope.app.as_str(), scope.user.as_str()])?;
    if erased == 0 { Ok(()) } else { erase_traces(batch, scope, action, reason) }
}

/// Removes what is said of an erased action elsewhere: in the ledger, in snapshots, in the proposal it comes from.
fn erase_traces(batch: &Batch<'_>, scope: &Scope, action: ActionId, reason: &str) -> Result<(), Error> {
    ledger::erase(batch, scope, action, reason)?;
    texts::drop_of(batch, scope, &action.to_string())?;
    batch.execute("DELETE FROM action_things WHERE action = ?1", [action.bytes()])?;
    let statement = "UPDATE proposals SET input = '{}', note = NULL WHERE action = ?1";
    batch.execute(statement, [action.bytes()])
}

/// Whether what it did is not known any more.
pub(super) fn is_erased(conn: &SqlConnection, action: ActionId) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM actions WHERE id = ?1 AND input IS NULL";
    has_any(conn, statement, [action.bytes()])
}

/// Whether there is an action that no run will end and that no node has.
pub(super) fn is_any_orphan(conn: &SqlConnection) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM actions a WHERE status = 'started' AND run IS NULL
            AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = a.owner) LIMIT 1";
    has_any(conn, statement, [])
}

/// Takes over actions that no run will end and that no node has. Gives them, oldest first.
pub(super) fn adopt(batch: &Batch<'_>) -> Result<Vec<ActionRow>, Error> {
    let statement = "UPDATE actions SET owner = ?1 WHERE id IN
            (SELECT id FROM actions a WHERE status = 'started' AND run IS NULL
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = a.owner) ORDER BY started_at LIMIT ?2)
            RETURNING id";
    let adopted: Vec<ActionId> =
        find_all(batch.conn(), statement, params![batch.node(), MAX_BEGUN], |row| id(row, 0))?;
    let mut rows = Vec::with_capacity(adopted.len());
    for action in adopted {
        rows.extend(find(batch.conn(), action)?);
    }
    rows.sort_by_key(|row| (row.started_at, row.id));
    Ok(rows)
}

pub(super) fn insert(batch: &Batch<'_>, action: &ActionRow, own_output: Option<&str>) -> Result<(), Error> {
    let statement = format!(
        "INSERT INTO actions ({COLUMNS}, owner)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
    );
    batch.execute(
        &statement,
        params![
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
            action.actor,
            batch.node(),
        ],
    )
}

pub(super) fn update(batch: &Batch<'_>, action: &ActionRow, own_output: Option<&str>) -> Result<(), Error> {
    let statement = "UPDATE actions SET effect = ?2, input = ?3, status = ?4, output = ?5, changes = ?6, duration_ms = ?7,
                undo_of = ?8 WHERE id = ?1";
    batch.execute(
        statement,
        params![
            action.id.bytes(),
            action.effect.name(),
            canonical(&action.input),
            action.status.name(),
            own_output,
            stored_changes(action)?,
            action.duration_ms.map(sql),
            action.undo_of.as_ref().map(ActionId::bytes),
        ],
    )
}

pub(super) fn find(conn: &SqlConnection, action: ActionId) -> Result<Option<ActionRow>, Error> {
    let statement = format!("SELECT {READ} FROM actions WHERE id = ?1");
    find_first(conn, &statement, [action.bytes()], action_row)
}

pub(super) fn of_user(conn: &SqlConnection, action: ActionId, user: &str) -> Result<ActionRow, Error> {
    let found = find(conn, action)?.filter(|row| row.scope.user.as_str() == user);
    found.ok_or(Error::NotFound("action"))
}

/// All actions in the order of their ids, for going through them.
pub(super) fn actions_after(
    conn: &SqlConnection,
    last: [u8; 16],
    limit: i64,
) -> Result<Vec<ActionRow>, Error> {
    let statement = format!("SELECT {READ} FROM actions WHERE id > ?1 ORDER BY id LIMIT ?2");
    find_all(conn, &statement, params![last, limit], action_row)
}

pub(super) fn list(
    conn: &SqlConnection,
    scope: &Scope,
    filter: &ActionFilter,
    page: PageOf<u64>,
) -> Result<PageRows<ActionRow>, Error> {
    let before = page.after.map_or(i64::MAX, sql);
    let text = |text: &'static str| SqlValue::Text(text.as_bytes());
    let wanted = [
        ("app = ?", Some(scope.app.as_str().to_value())),
        ("user = ?", Some(scope.user.as_str().to_value())),
        ("position < ?", Some(SqlValue::Integer(before))),
        ("run = ?", filter.run.as_ref().map(|run| SqlValue::Blob(run.bytes()))),
        ("thread = ?", filter.thread.as_ref().map(|thread| SqlValue::Blob(thread.bytes()))),
        ("tool = ?", filter.tool.as_deref().map(|tool| SqlValue::Text(tool.as_bytes()))),
        ("status = ?", filter.status.map(|status| text(status.name()))),
        ("effect = ?", filter.effect.map(|effect| text(effect.name()))),
        (
            "CASE WHEN undone_by IS NULL THEN 0 ELSE 1 END = ?",
            filter.undone.map(|is_undone| SqlValue::Integer(i64::from(is_undone))),
        ),
    ];
    let wanted = wanted.into_iter().filter_map(|(condition, value)| Some((condition, value?)));
    let (mut conditions, mut values): (Vec<String>, Vec<SqlValue<'_>>) = (vec![], vec![]);
    for (condition, value) in wanted {
        values.push(value);
        conditions.push(format!("{condition}{}", values.len()));
    }
    values.push(SqlValue::Integer(one_more(page.limit)));
    let conditions = conditions.join(" AND ");
    let statement = format!(
        "SELECT {READ} FROM actions WHERE {conditions} ORDER BY position DESC LIMIT ?{}",
        values.len()
    );
    find_page(conn, &statement, values, page.limit, action_row)
}

pub(super) fn json(row: &SqlRow<'_>, column: usize) -> Result<Option<Value>, Error> {
    Ok(row.get::<Option<String>>(column)?.and_then(|json| serde_json::from_str(&json).ok()))
}

/// The output in the body of a `tool:complete` in this column.
fn told_output(row: &SqlRow<'_>, column: usize) -> Result<Option<Value>, Error> {
    Ok(row.get::<Option<String>>(column)?.map(|body| output_in(&body)))
}

fn action_row(row: &SqlRow<'_>) -> Result<ActionRow, Error> {
    let changes = row.get::<Option<String>>(11)?;
    let changes = changes.and_then(|changes| serde_json::from_str::<Vec<AppliedChange>>(&changes).ok());
    Ok(ActionRow {
        id: id(row, 0)?,
        scope: scope_at(row, 1)?,
        actor: row.get(19)?,
        thread: maybe_id(row, 3)?,
        run: maybe_id(row, 4)?,
        step: row.get(5)?,
        tool: text(row, 6)?,
        // An effect that cannot be read is best not repeated.
        effect: Effect::parse(&text(row, 7)?).unwrap_or(Effect::Irreversible),
        // The schema knows no other status; one that cannot be read is not known.
        status: ActionStatus::parse(&text(row, 8)?).unwrap_or(ActionStatus::Ended(ToolStatus::Unknown)),
        input: json(row, 9)?.unwrap_or_default(),
        output: json(row, 10)?.or(told_output(row, 18)?).unwrap_or_default(),
        changes: changes.unwrap_or_default(),
        started_at: time(row, 12)?,
        duration_ms: row.get::<Option<i64>>(13)?.and_then(|duration| u64::try_from(duration).ok()),
        undone_by: maybe_id(row, 14)?,
        undo_of: maybe_id(row, 15)?,
        undo_under_way: row.get(17)?,
        position: count(row, 16)?,
    })
}
