//! A request for a run: begun at once, queued, refused, or recognised as one that came before.

use crate::sql::params;
use protocol::{MessageId, RunId, Scope, ThreadId, Used};

use super::append::Batch;
use super::read::{find_first, id, maybe_id};
use super::runs::ACTIVE_RUN;
use super::{idempotency, images, queue, rate_limits, run_start, runs, threads, waiting_calls};
use crate::rules::submit::{RunAdmission, admission, new_run};
use crate::{
    Error, NewThreadRow, RunAcceptance, RunInput, RunRequest, RunRow, Stop, Submission, SubmittedRun, Target,
};

/// Gives the run, what its user has used with it, and its row if it has begun.
pub(super) fn submit(
    batch: &mut Batch<'_>,
    submission: Submission,
) -> Result<(SubmittedRun, Used, Option<RunRow>), Error> {
    let Submission { scope, thread, run, on_busy, once, replay_only, limits, request } = submission;
    if let Some(earlier) = idempotency::earlier_target(batch, &scope, once.as_ref())? {
        let thread = thread_of(batch, earlier.into())?;
        let replayed = SubmittedRun { thread, run: earlier.into(), admitted: RunAcceptance::Replayed };
        return Ok((replayed, Used::default(), None));
    }
    if replay_only {
        return Err(Error::NotFound("run"));
    }
    let thread = match thread {
        Target::New(id) => {
            // The persona of this run answers in this run only: a thread has a persona only if it was given one.
            threads::insert(batch, &scope, &NewThreadRow { id, title: None, persona: None })?
        }
        Target::Ensured(id) => threads::ensure(batch, &scope, id)?,
        Target::Existing(thread) => thread,
    };
    let active = active(batch, &scope, thread)?;
    let used = rate_limits::admit(batch, &scope, &limits, active.is_none())?;
    let (admitted, begun) = match admission(active, on_busy)? {
        RunAdmission::Begin => {
            let row = new_row(batch, &scope, (thread, run), &request)?;
            (RunAcceptance::Running, Some(run_start::begin_new(batch, row, request)?))
        }
        RunAdmission::Wait { active, interrupts } => {
            let interrupted = interrupts.then_some(active);
            interrupted.map_or(Ok(()), |active| interrupt(batch, active))?;
            batch.touch(thread);
            runs::insert(batch, &new_row(batch, &scope, (thread, run), &request)?)?;
            queue::push(batch, thread, run, &request, on_busy)?;
            let resumed = waiting_calls::supersede(batch, active)?;
            (RunAcceptance::Queued { interrupted, resumed }, None)
        }
    };
    rate_limits::count_run(batch, &scope)?;
    idempotency::remember(batch, &scope, once.as_ref(), run.uuid())?;
    Ok((SubmittedRun { thread, run, admitted }, used, begun))
}

/// Tells a run to make room for a newer message.
fn interrupt(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    let statement = "UPDATE runs SET stop = ?2 WHERE id = ?1 AND stop IS NULL";
    batch.execute(statement, params![run.bytes(), Stop::Interrupted.name()])
}

/// The run under way in the thread, if the thread is there and is the scope's.
fn active(batch: &Batch<'_>, scope: &Scope, thread: ThreadId) -> Result<Option<RunId>, Error> {
    let statement = format!(
        "SELECT (SELECT r.id FROM runs r WHERE r.thread = t.id AND r.{ACTIVE_RUN})
                FROM threads t WHERE t.id = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL"
    );
    find_first(
        batch.conn(),
        &statement,
        params![thread.bytes(), scope.app.as_str(), scope.user.as_str()],
        |row| maybe_id(row, 0),
    )?
    .ok_or(Error::NotFound("thread"))
}

fn thread_of(batch: &Batch<'_>, run: RunId) -> Result<ThreadId, Error> {
    let statement = "SELECT thread FROM runs WHERE id = ?1";
    find_first(batch.conn(), statement, [run.bytes()], |row| id(row, 0))?.ok_or(Error::NotFound("run"))
}

/// The row of a run that may begin or wait.
fn new_row(
    batch: &Batch<'_>,
    scope: &Scope,
    (thread, run): (ThreadId, RunId),
    request: &RunRequest,
) -> Result<RunRow, Error> {
    let message = message_of(batch, scope, thread, request)?;
    Ok(new_run(scope, (thread, run, message), request, batch.now()?))
}

/// The message that the run answers. A request may name only messages of this thread and images of this user.
fn message_of(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: ThreadId,
    request: &RunRequest,
) -> Result<MessageId, Error> {
    let (id, parent, parts) = match &request.ask {
        RunInput::Say { id, parent, parts, .. } => (*id, parent, parts),
        RunInput::Again { of } => return run_start::message_to_answer(batch, thread, *of),
    };
    if let Some(parent) = parent {
        run_start::message(batch, thread, *parent)?;
    }
    images::used_by(batch, scope, (thread, id), parts)?;
    // Images of earlier turns stay as long as the thread does, which this message stands for.
    for earlier in &request.earlier {
        images::used_by(batch, scope, (thread, id), &earlier.parts)?;
    }
    Ok(id)
}
