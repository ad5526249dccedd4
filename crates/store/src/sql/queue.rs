//! Messages that wait for their thread.

use crate::sql::{SqlConnection, params};
use jiff::Timestamp;
use protocol::{Event, OnBusy, RunEnd, RunId, RunStatus, ThreadId};

use super::append::Batch;
use super::read::{count, find_all, find_first, find_only, has_any, id, text, time};
use super::{SqlStore, images, run_start};
use crate::rules::notices::NoticedChange;
use crate::rules::submit::{check_queue_room, is_urgent, stop_at_begin};
use crate::{Error, QueuedRun, RunRequest};

pub(super) fn push(
    batch: &Batch<'_>,
    thread: ThreadId,
    run: RunId,
    request: &RunRequest,
    on_busy: OnBusy,
) -> Result<(), Error> {
    let statement = "SELECT count(*) FROM queue WHERE thread = ?1";
    check_queue_room(find_only(batch.conn(), statement, [thread.bytes()], |row| count(row, 0))?)?;
    let request = serde_json::to_string(request).map_err(|_| Error::Aborted)?;
    let statement = "INSERT INTO queue (thread, run, urgent, submission) VALUES (?1, ?2, ?3, ?4)";
    batch.execute(statement, params![thread.bytes(), run.bytes(), is_urgent(on_busy), request])?;
    batch.notice(NoticedChange::Run { run, thread });
    Ok(())
}

impl SqlStore {
    pub(crate) async fn queued_runs(&self, thread: ThreadId) -> Result<Vec<QueuedRun>, Error> {
        self.readers.read(move |conn| queued(conn, thread)).await
    }
}

/// The runs that wait for a thread, the next one first. One whose request cannot be read is left out: it will fail.
fn queued(conn: &SqlConnection, thread: ThreadId) -> Result<Vec<QueuedRun>, Error> {
    let statement = "SELECT q.run, q.submission, r.created_at FROM queue q CROSS JOIN runs r ON r.id = q.run
                WHERE q.thread = ?1 ORDER BY q.urgent DESC, q.position";
    let rows =
        find_all(conn, statement, [thread.bytes()], |row| Ok((id(row, 0)?, text(row, 1)?, time(row, 2)?)))?;
    let read = |(run, request, created_at): (RunId, String, Timestamp)| {
        let request: RunRequest = serde_json::from_str(&request).ok()?;
        Some(QueuedRun { run, ask: request.ask, created_at })
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// Whether a message waits for the thread.
pub(super) fn is_any_waiting(batch: &Batch<'_>, thread: ThreadId) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM queue WHERE thread = ?1 LIMIT 1";
    has_any(batch.conn(), statement, [thread.bytes()])
}

/// Begins the next waiting run of a thread whose run has just ended. One that can no longer begin fails, and the one
/// after it is tried.
pub(super) fn start_next(batch: &mut Batch<'_>, thread: ThreadId) -> Result<(), Error> {
    let statement =
        "SELECT run, submission FROM queue WHERE thread = ?1 ORDER BY urgent DESC, position LIMIT 1";
    let next: Option<(RunId, String)> =
        find_first(batch.conn(), statement, [thread.bytes()], |row| Ok((id(row, 0)?, text(row, 1)?)))?;
    let Some((run, request)) = next else { return Ok(()) };
    remove(batch, run)?;
    match serde_json::from_str::<RunRequest>(&request) {
        Ok(request) => match batch.part(|batch| run_start::begin_queued(batch, thread, run, request))? {
            None => yield_to_urgent(batch, thread, run),
            Some(refused) => {
                tracing::warn!(%thread, %run, %refused, "a queued message could not begin");
                end(batch, thread, run, RunStatus::Failed)
            }
        },
        Err(_) => end(batch, thread, run, RunStatus::Failed), // which begins the one after it
    }
}

/// A run that begins while a message is waiting that would have interrupted it is interrupted.
fn yield_to_urgent(batch: &Batch<'_>, thread: ThreadId, run: RunId) -> Result<(), Error> {
    let statement = "SELECT 1 FROM queue WHERE thread = ?1 AND urgent = 1 LIMIT 1";
    let is_urgent_waiting = has_any(batch.conn(), statement, [thread.bytes()])?;
    let Some(stop) = stop_at_begin(is_urgent_waiting) else { return Ok(()) };
    batch.execute("UPDATE runs SET stop = ?2 WHERE id = ?1", params![run.bytes(), stop.name()])
}

/// Takes a waiting run out of the queue and ends it. False when it was not waiting.
pub(super) fn cancel(batch: &mut Batch<'_>, thread: ThreadId, run: RunId) -> Result<bool, Error> {
    if !remove(batch, run)? {
        return Ok(false);
    }
    end(batch, thread, run, RunStatus::Cancelled)?;
    Ok(true)
}

/// Ends everything that waits for a thread.
pub(super) fn clear(batch: &mut Batch<'_>, thread: ThreadId) -> Result<(), Error> {
    let statement = "SELECT run FROM queue WHERE thread = ?1 ORDER BY position";
    let runs: Vec<RunId> = find_all(batch.conn(), statement, [thread.bytes()], |row| id(row, 0))?;
    for run in &runs {
        remove(batch, *run)?;
    }
    for run in runs {
        end(batch, thread, run, RunStatus::Cancelled)?;
    }
    Ok(())
}

fn remove(batch: &Batch<'_>, run: RunId) -> Result<bool, Error> {
    let removed = batch.count_changed("DELETE FROM queue WHERE run = ?1", [run.bytes()])?;
    Ok(removed > 0)
}

fn end(batch: &mut Batch<'_>, thread: ThreadId, run: RunId, status: RunStatus) -> Result<(), Error> {
    images::unused_by(batch, run)?; // its message is never said
    let end = RunEnd { run_id: run, status, error: None, message_id: None };
    batch.record(thread, Some(run), &Event::RunEnd(end)).map(drop)
}
