//! Recording an event: it is appended, and the rows that it implies are written in the same transaction.

use std::sync::Arc;

use crate::sql::params;
use protocol::{
    Event, MAX_STORED_DEPTH, MessageId, MessageUser, NoticeChange, RunEnd, RunId, Seq, StepEnd, StepReset,
    StreamComplete, ThreadChanged, ThreadId, ToolComplete, json_depth,
};

use super::append::Batch;
use super::events::IS_FACT;
use super::read::{find_first, find_only, has_any, id, maybe_id, sql};
use super::runs::ACTIVE_RUN;
use super::{
    actions, client_calls, items, memories, message_paths, proposals, queue, reserve, summaries, usage,
    writes,
};
use crate::rules::ledger::OutputPlace;
use crate::rules::notices::NoticedChange;
use crate::{Error, MessageRole, Write};

/// A message and the event that holds its text.
pub(super) struct NewMessage {
    pub(super) id: MessageId,
    pub(super) parent: Option<MessageId>,
    pub(super) role: MessageRole,
    pub(super) seq: Seq,
}

impl Batch<'_> {
    /// Appends an event and does what it implies. None when it comes second: a call's first result stays, and so does
    /// what was first decided about a proposal.
    pub(super) fn record(
        &mut self,
        thread: ThreadId,
        run: Option<RunId>,
        event: &Event,
    ) -> Result<Option<Seq>, Error> {
        self.record_with(thread, run, event, &[])
    }

    /// Records an event with the writes of the call, if the event is a result, or with what the run writes down as it begins.
    pub(super) fn record_with(
        &mut self,
        thread: ThreadId,
        run: Option<RunId>,
        event: &Event,
        writes: &[Write],
    ) -> Result<Option<Seq>, Error> {
        if self.comes_second(event)? {
            return Ok(None);
        }
        let body: Arc<str> = event.body().into();
        if json_depth(&body) > MAX_STORED_DEPTH {
            return Err(Error::TooDeep(event.kind().name()));
        }
        let seq = self.append(thread, run, event.kind(), Arc::clone(&body))?;
        self.project(thread, run, event, seq)?;
        if let (Event::ToolComplete(result), Some(run)) = (event, run) {
            actions::end_call(self, run, result, writes, OutputPlace::of(seq, &body))?;
        }
        if let (Event::ContextLoaded(_), Some(run)) = (event, run) {
            writes::note(self, run, writes)?;
        }
        Ok(Some(seq))
    }

    fn comes_second(&self, event: &Event) -> Result<bool, Error> {
        if let Event::ToolComplete(result) = event
            && self.has_result(result)?
        {
            tracing::warn!(call = %result.call_id, "a tool result that came too late was dropped");
            actions::note_late_result(self, result)?;
            return Ok(true);
        }
        if let Event::ProposalClosed(closed) = event {
            return proposals::is_closed(self, closed);
        }
        Ok(false)
    }

    fn has_result(&self, result: &ToolComplete) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM tool_results WHERE call = ?1";
        has_any(self.conn(), statement, [result.call_id.bytes()])
    }

    fn project(
        &mut self,
        thread: ThreadId,
        run: Option<RunId>,
        event: &Event,
        seq: Seq,
    ) -> Result<(), Error> {
        match (event, run) {
            (Event::MessageUser(message), Some(run)) => self.user_message(thread, run, message, seq),
            (Event::StepEnd(step), Some(run)) => self.step(run, step, seq),
            (Event::StepReset(reset), Some(run)) => self.reset(run, reset, seq),
            (Event::StepRetry(_), Some(run)) => reserve::settle(self, run.bytes()),
            (Event::ToolStart(start), Some(run)) => actions::start_call(self, run, start),
            (Event::ToolComplete(result), Some(run)) => self.result(run, result, seq),
            (Event::ProposalOpen(open), Some(run)) => proposals::add_opened(self, thread, run, open),
            (Event::ProposalClosed(closed), Some(run)) => proposals::note_closed(self, run, closed),
            (Event::CallOpen(open), Some(run)) => client_calls::add_opened(self, thread, run, open),
            (Event::StreamComplete(answer), Some(run)) => self.answer(thread, run, answer, seq),
            (Event::RunEnd(end), Some(run)) => self.end(thread, run, end, seq),
            (Event::ThreadNamed(named), _) => self.set_title(thread, &named.title),
            (Event::ThreadHead(chosen), _) => self.set_head(thread, chosen.head_id),
            (Event::ThreadChanged(changed), _) => self.set_marks(thread, changed),
            (Event::Summary(summary), _) => summaries::add_summary(self, thread, summary),
            (
                Event::MessageUser(_)
                | Event::RunStart(_)
                | Event::ContextLoaded(_)
                | Event::Source(_)
                | Event::StepStart(_)
                | Event::TextDelta(_)
                | Event::ReasoningDelta(_)
                | Event::ToolInput(_)
                | Event::StepEnd(_)
                | Event::StepRetry(_)
                | Event::StepReset(_)
                | Event::ToolStart(_)
                | Event::ToolComplete(_)
                | Event::ProposalOpen(_)
                | Event::ProposalClosed(_)
                | Event::CallOpen(_)
                | Event::StreamComplete(_)
                | Event::RunEnd(_)
                | Event::MemoryUpdate(_),
                _,
            ) => Ok(()),
        }
    }

    fn user_message(&self, thread: ThreadId, run: RunId, said: &MessageUser, seq: Seq) -> Result<(), Error> {
        let MessageUser { message_id: id, parent_id: parent, .. } = *said;
        self.message(thread, run, &NewMessage { id, parent, role: MessageRole::User, seq })
    }

    fn answer(&self, thread: ThreadId, run: RunId, answer: &StreamComplete, seq: Seq) -> Result<(), Error> {
        self.answered_by(run)?;
        let parent = Some(self.answered_message(run)?);
        self.message(
            thread,
            run,
            &NewMessage { id: answer.message_id, parent, role: MessageRole::Assistant, seq },
        )?;
        memories::count_references(self, run, &answer.memories_referenced)
    }

    /// Where another model stood in for the run's own and answered, the run names that one, and so do its message and its
    /// thread.
    fn answered_by(&self, run: RunId) -> Result<(), Error> {
        let statement = format!(
            "SELECT CASE WHEN json_valid(body) AND json_extract(body, '$.finish') <> 'failed'
                    THEN json_extract(body, '$.fallback') END FROM events
                WHERE run = ?1 AND kind = 'step:end' AND {IS_FACT} ORDER BY seq DESC LIMIT 1"
        );
        let stood_in: Option<String> =
            find_first(self.conn(), &statement, [run.bytes()], |row| row.get(0))?.flatten();
        if let Some(model) = stood_in {
            let statement = "UPDATE runs SET model = ?2 WHERE id = ?1";
            self.execute(statement, params![run.bytes(), model])?;
        }
        Ok(())
    }

    fn answered_message(&self, run: RunId) -> Result<MessageId, Error> {
        let statement = "SELECT message FROM runs WHERE id = ?1";
        find_only(self.conn(), statement, [run.bytes()], |row| id(row, 0))
    }

    /// Adds a message to its thread, and makes it the head.
    pub(super) fn message(&self, thread: ThreadId, run: RunId, said: &NewMessage) -> Result<(), Error> {
        let parent = said.parent.as_ref().map(MessageId::bytes);
        let place = message_paths::place_below(self.conn(), thread, said.id, said.parent)?;
        let statement = "INSERT INTO messages (id, thread, parent, role, run, seq, created_at, depth, leap)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.execute(
            statement,
            params![
                said.id.bytes(),
                thread.bytes(),
                parent,
                said.role.name(),
                run.bytes(),
                sql(said.seq),
                self.at(),
                place.map(|place| sql(place.depth)),
                place.as_ref().map(|place| place.leap.bytes()),
            ],
        )?;
        let statement = "UPDATE threads SET head = ?2, message_count = message_count + 1, updated_at = max(updated_at, ?3),
                        model = coalesce((SELECT model FROM runs WHERE id = ?4), model) WHERE id = ?1";
        self.execute(statement, params![thread.bytes(), said.id.bytes(), self.at(), run.bytes()])?;
        items::message_added(self, thread, said.id)
    }

    fn step(&self, run: RunId, step: &StepEnd, seq: Seq) -> Result<(), Error> {
        self.add_calls(run, step, seq)?;
        reserve::settle(self, run.bytes())?;
        usage::of_run(self, (run, seq), step.fallback.as_deref(), step.usage)
    }

    /// Adds the calls of a step.
    pub(super) fn add_calls(&self, run: RunId, step: &StepEnd, seq: Seq) -> Result<(), Error> {
        let mut insert = self.conn().prepare(
            "INSERT INTO tool_calls (id, run, step, idx, provider_id, name, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for (idx, call) in (0i64..).zip(&step.calls) {
            let own = call.id.to_string();
            let provider_id = call.provider_id.as_deref().unwrap_or(&own);
            insert.execute(params![
                call.id.bytes(),
                run.bytes(),
                step.step,
                idx,
                provider_id,
                call.name,
                sql(seq)
            ])?;
        }
        Ok(())
    }

    /// Void work has been paid for all the same, and by the model before the one that the event may name.
    fn reset(&self, run: RunId, reset: &StepReset, seq: Seq) -> Result<(), Error> {
        reserve::settle(self, run.bytes())?;
        reset.usage.map_or(Ok(()), |used| usage::of_run(self, (run, seq), None, used))
    }

    fn result(&self, run: RunId, result: &ToolComplete, seq: Seq) -> Result<(), Error> {
        self.add_result(run, result, seq)?;
        client_calls::close_with_result(self, run, result)
    }

    /// Adds the result of a call.
    pub(super) fn add_result(&self, run: RunId, result: &ToolComplete, seq: Seq) -> Result<(), Error> {
        let statement = "INSERT INTO tool_results (call, run, status, seq) VALUES (?1, ?2, ?3, ?4)";
        self.execute(statement, params![result.call_id.bytes(), run.bytes(), result.status.name(), sql(seq)])
    }

    fn end(&mut self, thread: ThreadId, run: RunId, end: &RunEnd, seq: Seq) -> Result<(), Error> {
        if let Some(message) = end.message_id {
            self.answered_by(run)?;
            let statement =
                format!("SELECT max(seq) FROM events WHERE run = ?1 AND kind = 'step:end' AND {IS_FACT}");
            let said: Option<i64> = find_only(self.conn(), &statement, [run.bytes()], |row| row.get(0))?;
            let said = said.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(seq);
            let parent = Some(self.answered_message(run)?);
            self.message(
                thread,
                run,
                &NewMessage { id: message, parent, role: MessageRole::Assistant, seq: said },
            )?;
        }
        proposals::run_ended(self, run)?;
        reserve::settle(self, run.bytes())?;
        let error = end.error.as_ref().and_then(|error| serde_json::to_string(error).ok());
        let statement = "UPDATE runs SET status = ?2, error = ?3, end_seq = ?4, ended_at = ?5 WHERE id = ?1";
        self.execute(statement, params![run.bytes(), end.status.name(), error, sql(seq), self.at()])?;
        let statement = "UPDATE threads SET updated_at = max(updated_at, ?2) WHERE id = ?1";
        self.execute(statement, params![thread.bytes(), self.at()])?;
        self.notice(NoticedChange::Run { run, thread });
        self.begin_next(thread)
    }

    /// Begins the thread's next waiting run, unless one is under way.
    fn begin_next(&mut self, thread: ThreadId) -> Result<(), Error> {
        let statement = format!("SELECT 1 FROM runs WHERE thread = ?1 AND {ACTIVE_RUN}");
        let busy = has_any(self.conn(), &statement, [thread.bytes()])?;
        if busy { Ok(()) } else { queue::start_next(self, thread) }
    }

    fn set_title(&self, thread: ThreadId, title: &str) -> Result<(), Error> {
        let statement = "UPDATE threads SET title = ?2, updated_at = max(updated_at, ?3) WHERE id = ?1";
        self.notice(NoticedChange::Thread { thread, change: NoticeChange::Changed });
        self.execute(statement, params![thread.bytes(), title, self.at()])
    }

    fn set_head(&self, thread: ThreadId, head: MessageId) -> Result<(), Error> {
        let statement = "UPDATE threads SET head = ?2 WHERE id = ?1";
        self.notice(NoticedChange::Thread { thread, change: NoticeChange::Changed });
        self.execute(statement, params![thread.bytes(), head.bytes()])
    }

    fn set_marks(&self, thread: ThreadId, marks: &ThreadChanged) -> Result<(), Error> {
        let statement = "UPDATE threads SET pinned = ?2, archived = ?3 WHERE id = ?1";
        self.notice(NoticedChange::Thread { thread, change: NoticeChange::Changed });
        self.execute(statement, params![thread.bytes(), marks.pinned, marks.archived])
    }

    /// The last message of the branch that a thread shows.
    pub(super) fn head(&self, thread: ThreadId) -> Result<Option<MessageId>, Error> {
        let statement = "SELECT head FROM threads WHERE id = ?1";
        find_only(self.conn(), statement, [thread.bytes()], |row| maybe_id(row, 0))
    }
}
