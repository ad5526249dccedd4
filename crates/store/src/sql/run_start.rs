//! The start of a run: its message and its first events, after what the thread holds by then.

use crate::sql::params;
use protocol::{Event, MessageId, RunId, RunStatus, Seq, ThreadId};

use super::append::Batch;
use super::jobs::{self, Task};
use super::read::{find_first, id, maybe_id, sql, text};
use super::{earlier_runs, runs, threads};
use crate::rules::notices::NoticedChange;
use crate::rules::submit::{NamedMessage, RunBeginning, beginning, job_delay};
use crate::{Error, MessageRole, RunInput, RunRequest, RunRow, rules};

/// Begins a run that did not wait, and gives its row as it is now.
pub(super) fn begin_new(batch: &mut Batch<'_>, row: RunRow, request: RunRequest) -> Result<RunRow, Error> {
    let (beginning, seq) = prepare(batch, row.thread, row.id, request)?;
    let row = RunRow { status: RunStatus::Running, start_seq: Some(seq), owner: batch.node(), ..row };
    runs::insert(batch, &row)?;
    record(batch, row.thread, row.id, beginning)?;
    Ok(row)
}

/// Begins a queued run.
pub(super) fn begin_queued(
    batch: &mut Batch<'_>,
    thread: ThreadId,
    run: RunId,
    request: RunRequest,
) -> Result<(), Error> {
    let (beginning, seq) = prepare(batch, thread, run, request)?;
    let statement =
        "UPDATE runs SET status = 'running', start_seq = ?2, message = ?3, owner = ?4 WHERE id = ?1";
    batch.execute(statement, params![run.bytes(), sql(seq), beginning.message.bytes(), batch.node()])?;
    record(batch, thread, run, beginning)
}

/// Decides how a run begins, and the number of its first event. Its message comes after what the thread holds by now. A
/// thread that was archived is in use again.
fn prepare(
    batch: &mut Batch<'_>,
    thread: ThreadId,
    run: RunId,
    mut request: RunRequest,
) -> Result<(RunBeginning, Seq), Error> {
    let head = threads::bring_back(batch, thread)?;
    // A message after earlier runs follows the last of them, not the head that was read before.
    earlier_runs::write_before(batch, thread, &mut request)?;
    let answered = match &request.ask {
        RunInput::Say { .. } => None,
        RunInput::Again { of } => Some(message_to_answer(batch, thread, *of)?),
    };
    Ok((beginning(thread, run, request, head, answered)?, batch.next(thread)?))
}

/// Records the first events of a run whose row is there, and adds the jobs of its message.
fn record(batch: &mut Batch<'_>, thread: ThreadId, run: RunId, beginning: RunBeginning) -> Result<(), Error> {
    let RunBeginning { message, user_message, start, jobs } = beginning;
    if let Some(user_message) = user_message {
        batch.record(thread, Some(run), &Event::MessageUser(user_message))?;
    }
    let key = message.to_string();
    for job in &jobs {
        let task = Task { id: job.id, kind: &job.kind, key: &key, delay: job_delay(job) };
        jobs::enqueue(batch, run, &task)?;
    }
    batch.record(thread, Some(run), &Event::RunStart(start))?;
    batch.notice(NoticedChange::Run { run, thread });
    Ok(())
}

/// A message of the thread.
pub(super) fn message(
    batch: &Batch<'_>,
    thread: ThreadId,
    message: MessageId,
) -> Result<NamedMessage, Error> {
    let statement = "SELECT id, role, parent FROM messages WHERE thread = ?1 AND id = ?2";
    find_first(batch.conn(), statement, params![thread.bytes(), message.bytes()], |row| {
        let role = MessageRole::parse(text(row, 1)?);
        Ok(NamedMessage { id: id(row, 0)?, role, parent: maybe_id(row, 2)? })
    })?
    .ok_or(Error::NotFound("message"))
}

/// The message of the user that is meant by `of`; without one, by the newest message of the thread.
pub(super) fn message_to_answer(
    batch: &Batch<'_>,
    thread: ThreadId,
    of: Option<MessageId>,
) -> Result<MessageId, Error> {
    let named = match of {
        Some(named) => named,
        None => batch.head(thread)?.ok_or(Error::NothingToAnswer)?,
    };
    rules::submit::message_to_answer(&message(batch, thread, named)?)
}
