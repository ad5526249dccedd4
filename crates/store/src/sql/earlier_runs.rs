//! Runs that were made elsewhere, written as complete runs: with the events and the rows of any other, but without
//! actions, usage, jobs, limits and notices, because nothing was called here.

use crate::sql::params;
use protocol::{Event, MessageId, RunId, Scope, Seq, StepEnd, ThreadId, ToolComplete};

use super::append::Batch;
use super::project::NewMessage;
use super::read::sql;
use super::{SqlStore, threads};
use crate::rules::earlier_runs::{EarlierLog, ImportFacts, checked_body, earlier_log};
use crate::{EarlierRun, Error, MessageRole, NewThreadRow, RunInput, RunRequest, ThreadImport};

impl SqlStore {
    pub(crate) async fn import_thread(&self, scope: &Scope, import: ThreadImport) -> Result<bool, Error> {
        let scope = scope.clone();
        self.writer.write(move |batch| import_thread(batch, &scope, import)).await
    }
}

fn import_thread(batch: &mut Batch<'_>, scope: &Scope, import: ThreadImport) -> Result<bool, Error> {
    let ThreadImport { id, title, created_at, runs, app_revision, actor } = import;
    if threads::is_there(batch.conn(), id)? {
        return Ok(false);
    }
    let new = NewThreadRow { id, title, persona: None };
    batch.as_of(created_at, |batch| threads::insert(batch, scope, &new))?;
    write(batch, &ImportFacts { thread: id, app_revision, actor }, None, runs)?;
    Ok(true)
}

/// Writes the earlier runs of a request that is about to begin; its message follows the last of them.
pub(super) fn write_before(
    batch: &mut Batch<'_>,
    thread: ThreadId,
    request: &mut RunRequest,
) -> Result<(), Error> {
    let earlier = std::mem::take(&mut request.earlier);
    let RunInput::Say { parent, .. } = &mut request.ask else { return Ok(()) };
    if earlier.is_empty() {
        return Ok(());
    }
    let after = match *parent {
        Some(parent) => Some(parent),
        None => batch.head(thread)?,
    };
    let (app_revision, actor) = (request.app_revision.clone(), request.actor.clone());
    *parent = write(batch, &ImportFacts { thread, app_revision, actor }, after, earlier)?;
    Ok(())
}

/// Writes runs, each after the one before it. Gives the last message.
pub(super) fn write(
    batch: &mut Batch<'_>,
    facts: &ImportFacts,
    after: Option<MessageId>,
    runs: Vec<EarlierRun>,
) -> Result<Option<MessageId>, Error> {
    let mut last = after;
    for run in runs {
        let (id, at) = (run.id, run.at);
        let log = earlier_log(facts, last, run);
        last = Some(log.last_message());
        batch.as_of(at, |batch| batch.write_earlier(id, facts, log))?;
    }
    Ok(last)
}

impl Batch<'_> {
    fn write_earlier(&mut self, run: RunId, facts: &ImportFacts, log: EarlierLog) -> Result<(), Error> {
        let thread = facts.thread;
        let EarlierLog { user_message, start, steps, answer, end } = log;
        let (message, parent) = (user_message.message_id, user_message.parent_id);
        let first = self.next(thread)?;
        // Its thread has one run under way at most, so it is never under way itself.
        let statement = "INSERT INTO runs (id, thread, app, user, message, status, created_at, actor, start_seq, imported)
                SELECT ?1, t.id, t.app, t.user, ?3, 'queued', ?4, ?5, ?6, 1 FROM threads t WHERE t.id = ?2";
        let row = params![run.bytes(), thread.bytes(), message.bytes(), self.at(), facts.actor, sql(first)];
        self.execute(statement, row)?;
        let seq = self.append_fact(thread, run, &Event::MessageUser(user_message))?;
        self.message(thread, run, &NewMessage { id: message, parent, role: MessageRole::User, seq })?;
        self.append_fact(thread, run, &Event::RunStart(start))?;
        for (step, results) in steps {
            self.write_earlier_step((thread, run), &step, results)?;
        }
        if let Some(answer) = answer {
            let (id, parent) = (answer.message_id, Some(message));
            let seq = self.append_fact(thread, run, &Event::StreamComplete(answer))?;
            self.message(thread, run, &NewMessage { id, parent, role: MessageRole::Assistant, seq })?;
        }
        let status = end.status.name();
        let seq = self.append_fact(thread, run, &Event::RunEnd(end))?;
        let statement = "UPDATE runs SET status = ?2, end_seq = ?3, ended_at = ?4 WHERE id = ?1";
        self.execute(statement, params![run.bytes(), status, sql(seq), self.at()])
    }

    fn write_earlier_step(
        &mut self,
        (thread, run): (ThreadId, RunId),
        step: &StepEnd,
        results: Vec<ToolComplete>,
    ) -> Result<(), Error> {
        let seq = self.append_fact(thread, run, &Event::StepEnd(step.clone()))?;
        self.add_calls(run, step, seq)?;
        for result in results {
            let seq = self.append_fact(thread, run, &Event::ToolComplete(result.clone()))?;
            self.add_result(run, &result, seq)?;
        }
        Ok(())
    }

    /// Appends an event of an earlier run, and nothing that it would imply.
    fn append_fact(&mut self, thread: ThreadId, run: RunId, event: &Event) -> Result<Seq, Error> {
        self.append(thread, Some(run), event.kind(), checked_body(event)?.into())
    }
}
