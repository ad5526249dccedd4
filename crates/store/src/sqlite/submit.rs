//! A request for a run: begun at once, queued, refused, or recognised as one that came before.

use std::time::Duration;

use protocol::{Event, MessageId, MessageUser, OnBusy, RunId, RunStart, Scope, ThreadId};
use rusqlite::{OptionalExtension, params};

use super::append::Batch;
use super::jobs::Task;
use super::read::{id, maybe_id, sql, text};
use super::{jobs, once, pace, proposals, queue, threads};
use crate::{Admitted, Ask, Error, NewThread, Request, RunJob, Stop, Submission, Submitted, Target};

/// Jobs that one message causes.
const MAX_JOBS_PER_MESSAGE: usize = 16;

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
    let admitted = match active {
        None => {
            insert(batch, &scope, thread, (run, &request))?;
            begin(batch, thread, run, request)?;
            Admitted::Running
        }
        Some(active) => {
            let interrupted = busy(batch, active, on_busy)?;
            insert(batch, &scope, thread, (run, &request))?;
            queue::push(batch, thread, run, &request, on_busy)?;
            let resumed = proposals::supersede(batch, active)?;
            Admitted::Queued { interrupted, resumed }
        }
    };
    pace::accepted(batch, &scope)?;
    once::remember(batch, &scope, once.as_ref(), run.uuid())?;
    Ok(Submitted { thread, run, admitted })
}

/// What a message to a busy thread does to the run under way.
fn busy(batch: &Batch<'_>, active: RunId, on_busy: OnBusy) -> Result<Option<RunId>, Error> {
    match on_busy {
        OnBusy::Reject => Err(Error::Busy),
        OnBusy::Queue => Ok(None),
        OnBusy::Interrupt => {
            batch
                .conn()
                .prepare_cached("UPDATE runs SET stop = ?2 WHERE id = ?1 AND stop IS NULL")?
                .execute(params![active.bytes(), Stop::Interrupted.name()])?;
            Ok(Some(active))
        }
    }
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
    let (message, said) = match request.ask {
        Ask::Say { id, text, parent } => {
            let parent_id = if parent.is_some() { parent } else { batch.head(thread)? };
            (id, Some(MessageUser { message_id: id, parent_id, text }))
        }
        Ask::Again { of } => (answerable(batch, thread, of)?, None),
    };
    let start = batch.next(thread)?;
    batch
        .conn()
        .prepare_cached("UPDATE runs SET status = 'running', start_seq = ?2, message = ?3 WHERE id = ?1")?
        .execute(params![run.bytes(), sql(start), message.bytes()])?;
    if let Some(said) = said {
        batch.record(thread, Some(run), &Event::MessageUser(said))?;
        cause(batch, run, message, &request.jobs)?;
    }
    let start = RunStart {
        run_id: run,
        thread_id: thread,
        message_id: message,
        model: request.model,
        settings: request.settings,
        system_prompt: request.system_prompt,
        persona_id: request.persona,
        document_ids: request.documents,
        app_revision: request.app_revision,
    };
    batch.record(thread, Some(run), &Event::RunStart(start))?;
    Ok(())
}

/// Adds the jobs that a message causes.
fn cause(batch: &Batch<'_>, run: RunId, message: MessageId, caused: &[RunJob]) -> Result<(), Error> {
    let key = message.to_string();
    for job in caused.iter().take(MAX_JOBS_PER_MESSAGE) {
        let delay = Duration::from_millis(job.delay_ms);
        jobs::enqueue(batch, run, &Task { id: job.id, kind: &job.kind, key: &key, delay })?;
    }
    Ok(())
}

/// A message of the thread: its id, role and parent.
fn message(
    batch: &Batch<'_>,
    thread: ThreadId,
    message: MessageId,
) -> Result<(MessageId, String, Option<MessageId>), Error> {
    batch
        .conn()
        .prepare_cached("SELECT id, role, parent FROM messages WHERE thread = ?1 AND id = ?2")?
        .query_row(params![thread.bytes(), message.bytes()], |row| {
            Ok((id(row, 0)?, text(row, 1)?, maybe_id(row, 2)?))
        })
        .optional()?
        .ok_or(Error::NotFound("message"))
}

/// The user message meant by `of`: itself, or what it answered; the thread's head when silent.
fn answerable(batch: &Batch<'_>, thread: ThreadId, of: Option<MessageId>) -> Result<MessageId, Error> {
    let target = match of {
        Some(target) => target,
        None => batch.head(thread)?.ok_or(Error::NothingToAnswer)?,
    };
    let (id, role, parent) = message(batch, thread, target)?;
    if role == "user" { Ok(id) } else { parent.ok_or(Error::NothingToAnswer) }
}
