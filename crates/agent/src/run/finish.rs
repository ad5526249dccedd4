//! The end of a run: every call answered, the answer stored, `run:end` last, in one transaction.

use std::time::Duration;

use ::tools::CallOutcome;
use app::Fragment;
use memory::words::mentions_follow_up;
use protocol::{
    Call, Event, Failure, Ids, MemoryId, RunEnd, RunId, RunStatus, StreamComplete, TextDelta, ThreadId,
    ToolComplete, ToolStatus,
};
use store::{ForcedEnd, MemoryRow, NewJob, Stop};

use super::Run;
use super::executor::ExecutedCall;
use crate::decide::RunEnding;
use crate::state::{FinishedStep, RunState};

use crate::jobs::{NameThread, SummariseThread};

/// The number of results above which a run is suspicious. A normal run makes fewer calls.
const MANY_RESULTS: usize = 100;

/// The result of a call that was not made, or not to its end.
const NOT_FINISHED: &str = "the run ended before this call was finished";

impl Run {
    pub(super) async fn finish(
        &self,
        state: &RunState,
        ending: RunEnding,
    ) -> Result<Vec<Event>, store::Error> {
        match self.end(state, ending).await {
            // It was told to stop before the end could be written. Twice at most: interrupted, then cancelled.
            Err(store::Error::Stopped(stop)) => match self.end(state, stopped_ending(stop)).await {
                Err(store::Error::Stopped(stop)) => self.end(state, stopped_ending(stop)).await,
                ended => ended,
            },
            ended => ended,
        }
    }

    async fn end(&self, state: &RunState, ending: RunEnding) -> Result<Vec<Event>, store::Error> {
        let (events, jobs) = self.last_record(state, ending).await?;
        self.record_with(events, jobs, Vec::new()).await
    }

    /// The last events of a run, and the jobs that it causes.
    pub(super) async fn last_record(
        &self,
        state: &RunState,
        ending: RunEnding,
    ) -> Result<(Vec<Event>, Vec<NewJob>), store::Error> {
        let results: usize = state.steps.iter().map(|done| done.results.len()).sum();
        if results > MANY_RESULTS {
            tracing::warn!(thread = %self.thread, run = %self.id, results, "a run ends with very many tool results");
        }
        let completed = matches!(ending, RunEnding::Completed { .. });
        let unsure = |call: &Call| state.has_begun(call.id) && self.may_change_elsewhere(call);
        let left = state.pending.iter().map(|call| unanswered_result(call, unsure(call))).collect();
        let mut events = last_events((self.id, self.thread), state, (ending, left), &*self.world.ids);
        for event in &mut events {
            if let Event::StreamComplete(complete) = event {
                let brought_up = self.mentioned_follow_ups(state, complete).await?;
                complete.memories_referenced.extend(brought_up);
            }
        }
        let job = |kind, key| NewJob { id: self.world.ids.job(), kind, key, delay: Duration::ZERO };
        // Once per thread: the key sees to it. However the run has ended, the thread is in lists by its name.
        let mut jobs = vec![job(NameThread::NAME, self.thread.to_string())];
        if let (Some(start), true) = (&state.start, completed && self.is_long(state)) {
            jobs.push(job(SummariseThread::NAME, start.message_id.to_string()));
        }
        Ok((events, jobs))
    }

    /// Ids of follow-up memories that the answer speaks of but does not name. Other follow-ups stay due.
    async fn mentioned_follow_ups(
        &self,
        state: &RunState,
        complete: &StreamComplete,
    ) -> Result<Vec<String>, store::Error> {
        let due = state.context.as_ref().filter(|_| state.cut_short().is_none() && state.last().is_some());
        let due: Vec<MemoryId> = due
            .into_iter()
            .flat_map(|context| &context.follow_ups)
            .filter(|id| !complete.memories_referenced.contains(id))
            .filter_map(|id| id.parse().ok())
            .collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.world.store.memories_by_id(&self.scope, &due).await?;
        let is_mentioned = |row: &&MemoryRow| mentions_follow_up(&complete.text, &row.text);
        Ok(rows.iter().filter(is_mentioned).map(|row| row.id.to_string()).collect())
    }

    /// Whether there is so much of the conversation that its older part is to be summarised.
    fn is_long(&self, state: &RunState) -> bool {
        let ledger = state.steps.iter().rev().find_map(|done| done.step.prompt.as_ref());
        let (Some(summarise), Some(ledger)) = (&self.app.history.summarise, ledger) else { return false };
        let history = Fragment::History.name();
        let shown = ledger.fragments.iter().filter(|cost| cost.fragment == history).map(|cost| cost.tokens);
        let left = ledger.left_out.iter().filter(|left| left.fragment == history).map(|left| left.tokens);
        shown.chain(left).sum::<u64>() > u64::from(summarise.after)
    }
}

fn stopped_ending(stop: Stop) -> RunEnding {
    RunEnding::Other { status: stop.status(), error: None }
}

/// The end of a run that cannot be driven any more.
pub(crate) fn forced_end(error: Failure, ids: &dyn Ids) -> ForcedEnd {
    ForcedEnd {
        status: RunStatus::Failed,
        error,
        message: ids.message(),
        cancelled: NOT_FINISHED.into(),
        unknown: CallOutcome::unknown().output,
    }
}

pub(super) fn last_events(
    (run_id, thread): (RunId, ThreadId),
    state: &RunState,
    (ending, left): (RunEnding, Vec<ToolComplete>),
    ids: &dyn Ids,
) -> Vec<Event> {
    let mut events: Vec<Event> = left.into_iter().map(Event::ToolComplete).collect();
    let end = match ending {
        RunEnding::Completed { text } => {
            let (message_id, usage) = (ids.message(), state.usage);
            let structured = state.last().and_then(|step| step.structured.clone());
            let (memories_referenced, data) = structured
                .map(|structured| (structured.memories_referenced, structured.data))
                .unwrap_or_default();
            // Text that no model has written was in no step, and has not been streamed: its words are a piece, too.
            if state.last().is_none_or(|last| last.text != text) && !text.is_empty() {
                let (step, delta) = (state.next_step_number(), text.clone());
                events.push(Event::TextDelta(TextDelta { step, delta }));
            }
            let complete = StreamComplete { message_id, text, memories_referenced, data, usage };
            events.push(Event::StreamComplete(complete));
            RunEnd { run_id, status: RunStatus::Completed, error: None, message_id: None }
        }
        RunEnding::Other { status, error } => {
            if let Some(error) = &error {
                tracing::warn!(%thread, run = %run_id, code = error.code, cause = error.message, "a run failed");
            }
            let said = |done: &FinishedStep| !done.step.text.is_empty() || !done.step.calls.is_empty();
            let message_id = state.steps.iter().any(said).then(|| ids.message());
            RunEnd { run_id, status, error, message_id }
        }
    };
    events.push(Event::RunEnd(end));
    events
}

/// The result of a call that the end of its run left without one.
pub(super) fn unanswered_result(call: &Call, unsure: bool) -> ToolComplete {
    let unknown = CallOutcome::unknown();
    let outcome = if unsure {
        unknown
    } else {
        CallOutcome { status: ToolStatus::Cancelled, output: NOT_FINISHED.into(), ..unknown }
    };
    ExecutedCall { outcome, duration_ms: 0 }.complete(call)
}
