//! The start of a run: its message and its first events, after what the thread holds by then.

use crate::sql::params;
use protocol::{Event, MessageId, RunId, ThreadId};

use super::append::Batch;
use super::jobs::{self, Task};
use super::read::{find_first, id, maybe_id, sql, text};
use super::{earlier_runs, threads};
use crate::rules::notices::NoticedChange;
use crate::rules::submit::{NamedMessage, RunBeginning, beginning, job_delay};
use crate::{Error, MessageRole, RunInput, RunRequest, rules};

/// Begins a queued run: its message is appended after what the thread holds by now. A thread that was archived is in
/// use again.
pub(super) fn begin(
    batch: &mut Batch<'_>,
    thread: ThreadId,
    run: RunId,
    mut request: RunRequest,
) -> Result<(), Error> {
    threads::bring_back(batch, thread)?;
    earlier_runs::write_before(batch, thread, &mut request)?;
    let head = batch.head(thread)?;
    let answered = match &request.ask {
        RunInput::Say { .. } => None,
        RunInput::Again { of } => Some(answerable(batch, thread, *of)?),
    };
    let RunBeginning { message, user_message, start, jobs } =
        beginning(thread, run, request, head, answered)?;
    let seq = batch.next(thread)?;
    let statement =
        "UPDATE runs SET status = 'running', start_seq = ?2, message = ?3, owner = ?4 WHERE id = ?1";
    batch.execute(statement, params![run.bytes(), sql(seq), message.bytes(), batch.node()])?;
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
pub(super) fn answerable(
    batch: &Batch<'_>,
    thread: ThreadId,
    of: Option<MessageId>,
) -> Result<MessageId, Error> {
    let named = match of {
        Some(named) => named,
        None => batch.head(thread)?.ok_or(Error::NothingToAnswer)?,
    };
    rules::submit::answerable(&message(batch, thread, named)?)
}
