//! Runs: looking up, cancelling, adopting.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{AppId, AuditKind, Failure, Principal, RunId, RunStatus, Scope, Seq, ThreadId};
use serde_json::json;

use super::append::Batch;
use super::read::{count, find_all, find_first, has_any, id, maybe_time, scope_at, sql, text, time};
use super::{RowsOf, SqlStore};
use super::{admin_audit, idempotency, queue, run_end, submit, usage};
use crate::rules::admin_audit::AdminAct;
use crate::{BegunRun, Error, ForcedEnd, IdempotencyClaim, RunRow, Stop, Submission, SubmittedRun};

/// The condition that a run is active. It repeats the WHERE of the index `runs_one_active`, so that the planner uses
/// the index. The columns of threads spell it out, because they are a constant, too.
pub(crate) const ACTIVE_RUN: &str = "status IN ('running', 'waiting')";

/// As [`run_row`] expects them, of runs `r`.
pub(super) const COLUMNS: &str =
    "r.id, r.thread, r.app, r.user, r.message, r.status, r.model, r.error, r.stop, r.epoch,
    r.start_seq, r.end_seq, r.created_at, r.ended_at, r.input_tokens, r.output_tokens, r.cached_tokens,
    r.reasoning_tokens, r.cost, r.estimated, r.actor, r.owner";

impl SqlStore {
    pub(crate) async fn submit(
        &self,
        submission: Submission,
    ) -> Result<(SubmittedRun, Option<BegunRun>), Error> {
        let work = move |batch: &mut Batch<'_>| {
            let (submitted, used, row) = submit::submit(batch, submission)?;
            let begun = row.map(|row| BegunRun { facts: batch.recorded_of(row.id), row, used });
            Ok((submitted, begun))
        };
        self.writer.write(work).await
    }

    pub(crate) async fn is_made(&self, scope: &Scope, once: IdempotencyClaim) -> Result<bool, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        let made =
            move |conn: &SqlConnection| Ok(idempotency::find_target(conn, &scope, Some(&once))?.is_some());
        self.readers.read_for(rows, made).await
    }

    pub(crate) async fn run(&self, principal: &Principal, run: RunId) -> Result<RunRow, Error> {
        let rows = RowsOf::user(principal.user());
        let user = principal.user().clone();
        self.readers.read_now(rows, move |conn| find(conn, run, user.as_str())).await
    }

    pub(crate) async fn cancel(
        &self,
        principal: &Principal,
        run: RunId,
        once: Option<IdempotencyClaim>,
    ) -> Result<RunRow, Error> {
        let rows = RowsOf::user(principal.user());
        let principal = principal.clone();
        self.writer.write_for(rows, move |batch| cancel(batch, &principal, run, once.as_ref())).await
    }

    pub(crate) async fn cancel_as_admin(
        &self,
        run: RunId,
        only_apps: Option<Vec<AppId>>,
        by: String,
    ) -> Result<Option<RunRow>, Error> {
        self.writer.write(move |batch| cancel_as_admin(batch, run, only_apps.as_deref(), by)).await
    }

    pub(crate) async fn force_end(&self, run: &RunRow, end: ForcedEnd) -> Result<(), Error> {
        let (run, thread, epoch) = (run.id, run.thread, run.epoch);
        self.writer.write(move |batch| run_end::end(batch, (run, thread, epoch), &end)).await
    }

    pub(crate) async fn is_skipped(&self, thread: ThreadId, seq: Seq) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM skipped WHERE thread = ?1 AND first <= ?2 AND ?2 < last";
        let skipped = move |conn: &SqlConnection| has_any(conn, statement, params![thread.bytes(), sql(seq)]);
        self.readers.read(skipped).await
    }
}

fn cancel(
    batch: &mut Batch<'_>,
    principal: &Principal,
    run: RunId,
    once: Option<&IdempotencyClaim>,
) -> Result<RunRow, Error> {
    let user = principal.user().as_str();
    let row = find(batch.conn(), run, user)?;
    if idempotency::claim(batch, &row.scope, once, run.uuid())?.is_some() {
        return Ok(row);
    }
    stop(batch, row.thread, run)?;
    find(batch.conn(), run, user)
}

/// Cancels a run of any user, for an admin of its app. An entry in the audit says so, unless nothing changed.
fn cancel_as_admin(
    batch: &mut Batch<'_>,
    run: RunId,
    only_apps: Option<&[AppId]>,
    by: String,
) -> Result<Option<RunRow>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM runs r WHERE r.id = ?1");
    let found = find_first(batch.conn(), &statement, [run.bytes()], run_row)?;
    let is_theirs = |row: &RunRow| only_apps.is_none_or(|apps| apps.contains(&row.scope.app));
    let Some(row) = found.filter(is_theirs) else { return Ok(None) };
    if stop(batch, row.thread, run)? {
        let detail = json!({ "user": row.scope.user.as_str(), "thread": row.thread.to_string() });
        let (app, target) = (Some(row.scope.app.to_string()), run.to_string());
        admin_audit::append(batch, AdminAct { by, kind: AuditKind::RunCancelled, app, target, detail })?;
    }
    find_first(batch.conn(), &statement, [run.bytes()], run_row)
}

/// Ends a run that waits for its turn, or tells one under way to end. False when it was told before, or has ended.
fn stop(batch: &mut Batch<'_>, thread: ThreadId, run: RunId) -> Result<bool, Error> {
    if queue::cancel(batch, thread, run)? {
        return Ok(true);
    }
    let statement =
        "UPDATE runs SET stop = ?2 WHERE id = ?1 AND stop IS DISTINCT FROM ?2 AND ended_at IS NULL";
    let told = batch.count_changed(statement, params![run.bytes(), Stop::Cancelled.name()])?;
    batch.touch(thread);
    Ok(told > 0)
}

fn find(conn: &SqlConnection, run: RunId, user: &str) -> Result<RunRow, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM runs r JOIN threads t ON t.id = r.thread
            WHERE r.id = ?1 AND r.user = ?2 AND t.deleted_at IS NULL"
    );
    find_first(conn, &statement, params![run.bytes(), user], run_row)?.ok_or(Error::NotFound("run"))
}

/// Takes over every run under way that no node has. Writes of earlier owners are refused from here on.
pub(super) fn adopt(batch: &mut Batch<'_>) -> Result<Vec<RunRow>, Error> {
    batch.forget_owners();
    let statement = format!(
        "UPDATE runs SET epoch = epoch + 1, owner = ?1 WHERE {ACTIVE_RUN}
            AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = runs.owner) RETURNING id"
    );
    let adopted: Vec<RunId> = find_all(batch.conn(), &statement, params![batch.node()], |row| id(row, 0))?;
    let statement = format!("SELECT {COLUMNS} FROM runs r WHERE r.id = ?1");
    let mut rows = Vec::with_capacity(adopted.len());
    for run in adopted {
        rows.extend(find_first(batch.conn(), &statement, [run.bytes()], run_row)?);
    }
    rows.sort_by_key(|row| (row.created_at, row.id));
    Ok(rows)
}

/// Adds the row of a run that waits or begins.
pub(super) fn insert(batch: &Batch<'_>, row: &RunRow) -> Result<(), Error> {
    let statement =
        "INSERT INTO runs (id, thread, app, user, message, status, model, created_at, actor, epoch, owner, start_seq)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    batch.execute(
        statement,
        params![
            row.id.bytes(),
            row.thread.bytes(),
            row.scope.app.as_str(),
            row.scope.user.as_str(),
            row.message.bytes(),
            row.status.name(),
            row.model,
            row.created_at.as_millisecond(),
            row.actor,
            sql(row.epoch),
            row.owner,
            row.start_seq.map(sql)
        ],
    )
}

pub(super) fn active(conn: &SqlConnection, thread: ThreadId) -> Result<Option<RunRow>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM runs r WHERE r.thread = ?1 AND r.{ACTIVE_RUN}");
    find_first(conn, &statement, [thread.bytes()], run_row)
}

pub(super) fn run_row(row: &SqlRow<'_>) -> Result<RunRow, Error> {
    let status = RunStatus::parse(&text(row, 5)?).unwrap_or(RunStatus::Failed);
    let error = row.get::<Option<String>>(7)?.and_then(|error| serde_json::from_str::<Failure>(&error).ok());
    Ok(RunRow {
        id: id(row, 0)?,
        thread: id(row, 1)?,
        scope: scope_at(row, 2)?,
        actor: row.get(20)?,
        message: id(row, 4)?,
        status,
        model: row.get(6)?,
        error,
        usage: usage::read(row, 14)?,
        stop: row.get::<Option<String>>(8)?.and_then(|stop| Stop::parse(&stop)),
        epoch: count(row, 9)?,
        owner: row.get(21)?,
        start_seq: seq(row, 10)?,
        end_seq: seq(row, 11)?,
        created_at: time(row, 12)?,
        ended_at: maybe_time(row, 13)?,
    })
}

fn seq(row: &SqlRow<'_>, column: usize) -> Result<Option<u64>, Error> {
    Ok(row.get::<Option<i64>>(column)?.and_then(|seq| u64::try_from(seq).ok()))
}
