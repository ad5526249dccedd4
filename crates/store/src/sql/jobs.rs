//! Jobs: claimed by epoch, done together with their effect.

use std::time::Duration;

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use protocol::{
    AppId, AuditKind, Event, JobId, PlannedCall, RunId, Scope, SpendBounds, SpendGrant, ThreadId,
};
use serde_json::json;

use super::append::Batch;
use super::read::{
    count, find_all, find_first, find_only, find_page, id, maybe_id, one_more, page_start, scope_at, sql,
    text, time,
};
use super::{RowsOf, SqlStore, admin_audit, events, reserve, usage};
use crate::rules::admin_audit::AdminAct;
use crate::rules::jobs::{
    JobMove, MAX_WORKING_PER_USER, PROCESS_ENDED, after_failure, after_process_end, dead_before, due_at,
    is_late, is_to_retry, scope_key,
};
use crate::{Error, JobRow, JobStatus, JobUsage, NewJob, PageOf, PageRows, Retry, TimeCursor};

const COLUMNS: &str =
    "id, kind, key, app, user, thread, status, attempts, epoch, run_at, error, created_at, updated_at";

/// Jobs forgotten in one transaction, of those done and of those dead.
const MAX_FORGOTTEN: i64 = 500;

impl SqlStore {
    pub(crate) async fn schedule(&self, job: NewJob) -> Result<(), Error> {
        self.writer.write(move |batch| add(batch, ("", ""), None, &Task::of(&job, &job.key))).await
    }

    pub(crate) async fn schedule_for(&self, scope: &Scope, job: NewJob) -> Result<(), Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| schedule_for(batch, &scope, &job)).await
    }

    pub(crate) async fn claim(&self) -> Result<Option<JobRow>, Error> {
        self.writer.write(claim).await
    }

    pub(crate) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        let statement = format!(
            "SELECT due_at FROM job_users WHERE working < {MAX_WORKING_PER_USER} AND due_at IS NOT NULL
                        ORDER BY due_at LIMIT 1"
        );
        self.readers
            .read_now(RowsOf::ALL, move |conn| find_first(conn, &statement, [], |row| time(row, 0)))
            .await
    }

    pub(crate) async fn complete(
        &self,
        job: &JobRow,
        effect: Option<Event>,
        spent: Option<JobUsage>,
    ) -> Result<(), Error> {
        let job = job.clone();
        let work = move |batch: &mut Batch<'_>| {
            complete(batch, &job, effect.as_ref())?;
            spent.map_or(Ok(()), |spent| usage::add(batch, &job.scope, &spent.model, spent.usage))
        };
        self.writer.write(work).await
    }

    pub(crate) async fn fail(
        &self,
        job: &JobRow,
        error: String,
        retry: Retry,
        spent: Option<JobUsage>,
    ) -> Result<(), Error> {
        let job = job.clone();
        let work = move |batch: &mut Batch<'_>| {
            fail(batch, &job, &error, retry)?;
            spent.map_or(Ok(()), |spent| usage::add(batch, &job.scope, &spent.model, spent.usage))
        };
        self.writer.write(work).await
    }

    pub(crate) async fn reserve_for_job(
        &self,
        job: &JobRow,
        call: PlannedCall,
        bounds: SpendBounds,
    ) -> Result<SpendGrant, Error> {
        let job = job.clone();
        // Nothing of it is worth anything to another process.
        self.writer.write_ahead(move |batch| reserve::for_job(batch, &job, &call, &bounds)).await
    }

    pub(crate) async fn retry_job(
        &self,
        job: JobId,
        only_apps: Option<Vec<AppId>>,
        by: String,
    ) -> Result<Option<JobRow>, Error> {
        self.writer.write(move |batch| retry(batch, job, only_apps.as_deref(), by)).await
    }

    pub(crate) async fn jobs(&self, page: PageOf<TimeCursor<JobId>>) -> Result<PageRows<JobRow>, Error> {
        self.readers.read(move |conn| list(conn, page)).await
    }

    pub(crate) async fn jobs_of_app(
        &self,
        app: &AppId,
        page: PageOf<TimeCursor<JobId>>,
    ) -> Result<PageRows<JobRow>, Error> {
        let app = app.clone();
        self.readers.read(move |conn| list_of_app(conn, &app, page)).await
    }
}

/// A job to be added, with its key.
pub(super) struct Task<'a> {
    pub(super) id: JobId,
    pub(super) kind: &'a str,
    pub(super) key: &'a str,
    pub(super) delay: Duration,
}

impl<'a> Task<'a> {
    pub(super) fn of(job: &NewJob, key: &'a str) -> Self {
        Self { id: job.id, kind: job.kind, key, delay: job.delay }
    }
}

/// Adds a job of a run, unless one of its kind and key was there before.
pub(super) fn enqueue(batch: &Batch<'_>, run: RunId, task: &Task<'_>) -> Result<(), Error> {
    let statement = "SELECT app, user, thread FROM runs WHERE id = ?1";
    let (scope, thread) =
        find_only(batch.conn(), statement, [run.bytes()], |row| Ok((scope_at(row, 0)?, id(row, 2)?)))?;
    add(batch, (scope.app.as_str(), scope.user.as_str()), Some(thread), task)
}

fn add(
    batch: &Batch<'_>,
    (app, user): (&str, &str),
    thread: Option<ThreadId>,
    task: &Task<'_>,
) -> Result<(), Error> {
    let statement =
        "INSERT INTO jobs (id, kind, key, app, user, thread, status, run_at, created_at, updated_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9) ON CONFLICT (kind, key) DO NOTHING";
    let added = batch.count_changed(
        statement,
        params![
            task.id.bytes(),
            task.kind,
            task.key,
            app,
            user,
            thread.as_ref().map(ThreadId::bytes),
            JobStatus::Ready.name(),
            due_at(batch.at(), task.delay),
            batch.at()
        ],
    )?;
    if added > 0 {
        batch.adds_work();
    }
    Ok(())
}

/// Adds a job for a scope. A key is good for all scopes, so this one is made of the scope, too.
fn schedule_for(batch: &Batch<'_>, scope: &Scope, job: &NewJob) -> Result<(), Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let key = scope_key(scope, &job.key)?;
    let statement = "DELETE FROM jobs WHERE kind = ?1 AND key = ?2 AND status IN ('done', 'dead')";
    batch.execute(statement, [job.kind, &key])?;
    add(batch, (app, user), None, &Task::of(job, &key))
}

/// Takes over the jobs that a process had begun that is gone.
pub(super) fn adopt(batch: &Batch<'_>) -> Result<(), Error> {
    let statement = "SELECT id, kind, attempts FROM jobs WHERE status = 'running'
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = jobs.owner)";
    let begun: Vec<(JobId, String, u32)> =
        find_all(batch.conn(), statement, [], |row| Ok((id(row, 0)?, text(row, 1)?, attempts(row, 2)?)))?;
    for (job, kind, attempts) in begun {
        let status = after_process_end(&kind, attempts).name();
        let statement = "UPDATE jobs SET status = ?2, error = ?3, updated_at = ?4 WHERE id = ?1";
        batch.execute(statement, params![job.bytes(), status, PROCESS_ENDED, batch.at()])?;
    }
    // A clock that was put back must not keep those waiting who were served by the later one.
    batch.conn().execute("UPDATE job_users SET served_at = ?1 WHERE served_at > ?1", [batch.at()])?;
    batch.conn().execute(
        "UPDATE job_users SET due_at = max(served_at,
            (SELECT due_at FROM job_lines l WHERE l.user = job_users.user ORDER BY due_at LIMIT 1)) WHERE due_at > ?1",
        [batch.at()],
    )?;
    Ok(())
}

/// Forgets jobs that were done before, and those that died so much earlier that the operator has had time to look at
/// them, a bounded number of each. The work that a key keeps from being done twice meanwhile is known for good by what
/// the job did: a thread has its name, its messages were looked at, a stretch has its summary.
pub(super) fn forget(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let before = before.as_millisecond();
    let mut forgotten = 0;
    for (statement, before) in [
        (
            "DELETE FROM jobs WHERE id IN
                (SELECT id FROM jobs WHERE status = 'done' AND updated_at < ?1 ORDER BY updated_at LIMIT ?2)",
            before,
        ),
        (
            "DELETE FROM jobs WHERE id IN
                (SELECT id FROM jobs WHERE status = 'dead' AND updated_at < ?1 ORDER BY updated_at LIMIT ?2)",
            dead_before(before),
        ),
    ] {
        forgotten += batch.count_changed(statement, [before, MAX_FORGOTTEN])?;
    }
    Ok(forgotten > 0)
}

/// Takes the first job of the line that is due longest, of the user who has waited longest and has fewer than eight at
/// work. Whom that is, triggers have written down.
fn claim(batch: &mut Batch<'_>) -> Result<Option<JobRow>, Error> {
    let statement = format!(
        "SELECT user, kind, app, CASE WHEN length(thread) > 0 THEN thread END FROM job_lines
            WHERE user = (SELECT user FROM job_users
                WHERE working < {MAX_WORKING_PER_USER} AND due_at IS NOT NULL AND due_at <= ?1
                ORDER BY due_at, user LIMIT 1)
            ORDER BY due_at, kind, app, thread LIMIT 1"
    );
    let line =
        |row: &SqlRow<'_>| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?, maybe_id::<ThreadId>(row, 3)?));
    let Some((user, kind, app, thread)) = find_first(batch.conn(), &statement, [batch.at()], line)? else {
        return Ok(None);
    };
    let statement = format!(
        "UPDATE jobs SET status = ?7, attempts = attempts + 1, epoch = epoch + 1, updated_at = ?1, owner = ?6
            WHERE id = (SELECT id FROM jobs WHERE status = 'ready' AND user = ?2 AND kind = ?3 AND app = ?4
                AND thread IS NOT DISTINCT FROM ?5 ORDER BY run_at, id LIMIT 1)
            RETURNING {COLUMNS}"
    );
    let thread = thread.as_ref().map(ThreadId::bytes);
    let running = JobStatus::Running.name();
    let key = params![batch.at(), user, kind, app, thread, batch.node(), running];
    find_first(batch.conn(), &statement, key, job_row)
}

/// Marks a job as done, if it is still this owner's.
pub(super) fn mark_done(batch: &Batch<'_>, job: &JobRow) -> Result<(), Error> {
    leave(batch, job, JobStatus::Done, None, job.run_at)
}

fn complete(batch: &mut Batch<'_>, job: &JobRow, effect: Option<&Event>) -> Result<(), Error> {
    mark_done(batch, job)?;
    if let (Some(event), Some(thread)) = (effect, job.thread)
        && !is_late(event, events::is_named(batch.conn(), thread)?)
    {
        batch.record(thread, None, event)?;
    }
    Ok(())
}

fn fail(batch: &Batch<'_>, job: &JobRow, error: &str, retry: Retry) -> Result<(), Error> {
    let JobMove { status, run_at, counts } = after_failure(job, retry);
    leave(batch, job, status, Some(error), run_at)?;
    if !counts {
        let uncount = "UPDATE jobs SET attempts = attempts - 1 WHERE id = ?1 AND attempts > 0";
        batch.execute(uncount, [job.id.bytes()])?;
    }
    Ok(())
}

/// Makes a dead job of any user ready, for an admin of its app. An entry in the audit says so, unless nothing changed.
fn retry(
    batch: &Batch<'_>,
    job: JobId,
    only_apps: Option<&[AppId]>,
    by: String,
) -> Result<Option<JobRow>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
    let found = find_first(batch.conn(), &statement, [job.bytes()], job_row)?;
    let is_theirs = |row: &JobRow| only_apps.is_none_or(|apps| apps.contains(&row.scope.app));
    let Some(row) = found.filter(is_theirs) else { return Ok(None) };
    if !is_to_retry(&row)? {
        return Ok(Some(row));
    }
    let statement = "UPDATE jobs SET status = ?3, attempts = 0, run_at = ?2, updated_at = ?2 WHERE id = ?1";
    batch.adds_work();
    batch.execute(statement, params![job.bytes(), batch.at(), JobStatus::Ready.name()])?;
    // A job without an app is the server's own.
    let app = Some(row.scope.app.to_string()).filter(|app| !app.is_empty());
    let detail = json!({ "kind": row.kind, "user": row.scope.user.as_str() });
    let target = job.to_string();
    admin_audit::append(batch, AdminAct { by, kind: AuditKind::JobRetried, app, target, detail })?;
    let statement = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
    find_first(batch.conn(), &statement, [job.bytes()], job_row)
}

/// Moves a job on, if it is still this owner's.
fn leave(
    batch: &Batch<'_>,
    job: &JobRow,
    status: JobStatus,
    error: Option<&str>,
    run_at: Timestamp,
) -> Result<(), Error> {
    let statement = "UPDATE jobs SET status = ?3, error = ?4, run_at = ?5, updated_at = ?6
                WHERE id = ?1 AND epoch = ?2 AND status = 'running'";
    let changed = batch.count_changed(
        statement,
        params![job.id.bytes(), sql(job.epoch), status.name(), error, run_at.as_millisecond(), batch.at()],
    )?;
    if changed == 1 { reserve::settle(batch, job.id.bytes()) } else { Err(Error::Fenced) }
}

fn list(conn: &SqlConnection, page: PageOf<TimeCursor<JobId>>) -> Result<PageRows<JobRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM jobs WHERE (created_at, id) < (?1, ?2) ORDER BY created_at DESC, id DESC LIMIT ?3"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let key = params![at, last, one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, job_row)
}

fn list_of_app(
    conn: &SqlConnection,
    app: &AppId,
    page: PageOf<TimeCursor<JobId>>,
) -> Result<PageRows<JobRow>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM jobs WHERE app = ?4 AND (created_at, id) < (?1, ?2)
            ORDER BY created_at DESC, id DESC LIMIT ?3"
    );
    let (at, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let key = params![at, last, one_more(page.limit), app.as_str()];
    find_page(conn, &statement, key, page.limit, job_row)
}

fn attempts(row: &SqlRow<'_>, column: usize) -> Result<u32, Error> {
    count(row, column).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn job_row(row: &SqlRow<'_>) -> Result<JobRow, Error> {
    Ok(JobRow {
        id: id::<JobId>(row, 0)?,
        kind: text(row, 1)?,
        key: text(row, 2)?,
        scope: scope_at(row, 3)?,
        thread: maybe_id(row, 5)?,
        status: JobStatus::parse(&text(row, 6)?).unwrap_or(JobStatus::Dead),
        attempts: attempts(row, 7)?,
        epoch: count(row, 8)?,
        run_at: time(row, 9)?,
        error: row.get(10)?,
        created_at: time(row, 11)?,
        updated_at: time(row, 12)?,
    })
}
