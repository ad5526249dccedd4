//! A request for a run: begun at once, queued, refused, or recognised as one that came before.

use protocol::planted::Bug;
use protocol::{Event, MessageId, RunId, Scope, ThreadId};
use rusqlite::{OptionalExtension, params};

use super::append::Batch;
use super::jobs::Task;
use super::read::{id, maybe_id, sql, text};
use super::{jobs, once, pace, proposals, queue, threads};
use crate::rules::submit::{NamedMessage, RunAdmission, RunBeginning, admission, beginning, job_delay};
use crate::{
    Admitted, Ask, Error, MessageRole, NewThread, Request, Stop, Submission, Submitted, Target, rules,
};

pub(super) fn submit(batch: &mut Batch<'_>, submission: Submission) -> Result<Submitted, Error> {
    let Submission { scope, thread, run, on_busy, once, replay_only, limits, request } = submission;
    if let Some(earlier) = once::earlier(batch, &scope, once.as_ref())? {
        let thread = thread_of(batch, earlier.into())?;
        return Ok(Submitted { thread, run: earlier.into(), admitted: Admitted::Replayed });
    }
    if replay_only {
        return Err(Error::NotFound("run"));
    }
    let thread = match thread {
        Target::New(id) => {
            // Who answers this run answers it alone: a thread has a persona only if it was given one.
            threads::insert(batch, &scope, &NewThread { id, title: None, persona: None })?
        }
        Target::Ensured(id) => threads::ensure(batch, &scope, id)?,
        Target::Existing(thread) => thread,
    };
    let active = active(batch, &scope, thread)?;
    pace::admit(batch, &scope, &limits, active.is_none())?;
    let admitted = match admission(active, on_busy)? {
        RunAdmission::Begin => {
            insert(batch, &scope, thread, (run, &request))?;
            begin(batch, thread, run, request)?;
            Admitted::Running
        }
        RunAdmission::Wait { active, interrupts } => {
            let interrupted = interrupts.then_some(active);
            interrupted.map_or(Ok(()), |active| interrupt(batch, active))?;
            insert(batch, &scope, thread, (run, &request))?;
            queue::push(batch, thread, run, &request, on_busy)?;
            let resumed = proposals::supersede(batch, active)?;
            Admitted::Queued { interrupted, resumed }
        }
    };
    pace::accepted(batch, &scope)?;
    if !Bug::IdemOutsideTx.is_planted() {
        once::remember(batch, &scope, once.as_ref(), run.uuid())?;
    }
    Ok(Submitted { thread, run, admitted })
}

/// Tells a run to make room for a newer message.
fn interrupt(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached("UPDATE runs SET stop = ?2 WHERE id = ?1 AND stop IS NULL")?
        .execute(params![run.bytes(), Stop::Interrupted.name()])?;
    Ok(())
}

/// The run under way in the thread, if the thread is there and is the scope's.
fn active(batch: &Batch<'_>, scope: &Scope, thread: ThreadId) -> Result<Option<RunId>, Error> {
    batch
        .conn()
        .prepare_cached(
            "SELECT (SELECT r.id FROM runs r WHERE r.thread = t.id AND r.status IN ('running', 'waiting'))
                FROM threads t WHERE t.id = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL",
        )?
        .query_row(params![thread.bytes(), scope.app.as_str(), scope.user.as_str()], |row| maybe_id(row, 0))
        .optional()?
        .ok_or(Error::NotFound("thread"))
}

fn thread_of(batch: &Batch<'_>, run: RunId) -> Result<ThreadId, Error> {
    let mut find = batch.conn().prepare_cached("SELECT thread FROM runs WHERE id = ?1")?;
    find.query_row([run.bytes()], |row| id(row, 0)).optional()?.ok_or(Error::NotFound("run"))
}

/// Puts the run's row down as queued; what names a message must name one of this thread.
fn insert(
    batch: &mut Batch<'_>,
    scope: &Scope,
    thread: ThreadId,
    (run, request): (RunId, &Request),
) -> Result<(), Error> {
    let message = match &request.ask {
        Ask::Say { id, parent, .. } => {
            if let Some(parent) = parent {
                message(batch, thread, *parent)?;
            }
            *id
        }
        Ask::Again { of } => answerable(batch, thread, *of)?,
    };
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO runs (id, thread, app, user, message, status, model, created_at)
                VALUES (?1, ?2, ?3, ?4, ?5, 'queued', ?6, ?7)",
        )?
        .execute(params![
            run.bytes(),
            thread.bytes(),
            scope.app.as_str(),
            scope.user.as_str(),
            message.bytes(),
            request.model,
            batch.at()
        ])?;
    Ok(())
}

/// Begins a queued run: its message is appended after what the thread holds by now.
pub(super) fn begin(
    batch: &mut Batch<'_>,
    thread: ThreadId,
    run: RunId,
    request: Request,
) -> Result<(), Error> {
    let head = batch.head(thread)?;
    let answered = match &request.ask {
        Ask::Say { .. } => None,
        Ask::Again { of } => Some(answerable(batch, thread, *of)?),
    };
    let RunBeginning { message, user_message, start, jobs } =
        beginning(thread, run, request, head, answered)?;
    let seq = batch.next(thread)?;
    batch
        .conn()
        .prepare_cached("UPDATE runs SET status = 'running', start_seq = ?2, message = ?3 WHERE id = ?1")?
        .execute(params![run.bytes(), sql(seq), message.bytes()])?;
    if let Some(user_message) = user_message {
        batch.record(thread, Some(run), &Event::MessageUser(user_message))?;
    }
    let key = message.to_string();
    for job in &jobs {
        let task = Task { id: job.id, kind: &job.kind, key: &key, delay: job_delay(job) };
        jobs::enqueue(batch, run, &task)?;
    }
    batch.record(thread, Some(run), &Event::RunStart(start))?;
    Ok(())
}

/// A message of the thread.
fn message(batch: &Batch<'_>, thread: ThreadId, message: MessageId) -> Result<NamedMessage, Error> {
    batch
        .conn()
        .prepare_cached("SELECT id, role, parent FROM messages WHERE thread = ?1 AND id = ?2")?
        .query_row(params![thread.bytes(), message.bytes()], |row| {
            let role = MessageRole::parse(text(row, 1)?);
            Ok(NamedMessage { id: id(row, 0)?, role, parent: maybe_id(row, 2)? })
        })
        .optional()?
        .ok_or(Error::NotFound("message"))
}

/// The message of the user that is meant by `of`; without one, by the newest message of the thread.
fn answerable(batch: &Batch<'_>, thread: ThreadId, of: Option<MessageId>) -> Result<MessageId, Error> {
    let named = match of {
        Some(named) => named,
        None => batch.head(thread)?.ok_or(Error::NothingToAnswer)?,
    };
    rules::submit::answerable(&message(batch, thread, named)?)
}
