//! The end of a run: every call answered, the answer stored, `run:end` last, in one transaction.

use std::time::Duration;

use ::tools::Outcome;
use app::Fragment;
use protocol::{
    Call, Event, Ids, RunEnd, RunId, RunStatus, StreamComplete, ThreadId, ToolComplete, ToolStatus,
};
use store::{NewJob, RunLog, RunRow};

use super::Run;
use super::decide::{Ending, failure};
use super::state::{Done, RunState};

use crate::jobs::{NAME_THREAD, SUMMARISE};

/// Results of one run above which something is wrong: no sane run makes so many calls.
const MANY_RESULTS: usize = 100;

impl Run {
    pub(super) async fn finish(&self, state: &RunState, ending: Ending) -> Result<Vec<Event>, store::Error> {
        let results: usize = state.steps.iter().map(|done| done.results.len()).sum();
        if results > MANY_RESULTS {
            tracing::warn!(thread = %self.thread, run = %self.id, results, "a run ends with very many tool results");
        }
        let completed = matches!(ending, Ending::Completed { .. });
        let unsure = |call: &Call| state.has_begun(call.id) && self.tools.changes_elsewhere(&call.name);
        let left = state.pending.iter().map(|call| unanswered(call, unsure(call))).collect();
        let events = last_events((self.id, self.thread), state, (ending, left), &*self.ids);
        let job = |kind, key| NewJob { id: self.ids.job(), kind, key, delay: Duration::ZERO };
        let mut jobs = Vec::new();
        if completed {
            jobs.push(job(NAME_THREAD, self.thread.to_string())); // once per thread: the key sees to it
        }
        if let (Some(start), true) = (&state.start, completed && self.is_long(state)) {
            jobs.push(job(SUMMARISE, start.message_id.to_string()));
        }
        self.record_with(events, jobs, Vec::new()).await
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

/// Ends a run whose app is gone: there is nobody left to answer.
pub(crate) async fn end_without_app(
    row: &RunRow,
    state: &RunState,
    log: &dyn RunLog,
    ids: &dyn Ids,
) -> Result<(), store::Error> {
    let error = failure("app_gone", "the app of this run is no longer there");
    let ending = Ending::Other { status: RunStatus::Failed, error: Some(error) };
    let left = state.pending.iter().map(|call| unanswered(call, state.has_begun(call.id))).collect();
    let events = last_events((row.id, row.thread), state, (ending, left), ids);
    log.record(events, Vec::new(), Vec::new()).await.map(drop)
}

pub(super) fn last_events(
    (run_id, thread): (RunId, ThreadId),
    state: &RunState,
    (ending, left): (Ending, Vec<ToolComplete>),
    ids: &dyn Ids,
) -> Vec<Event> {
    let mut events: Vec<Event> = left.into_iter().map(Event::ToolComplete).collect();
    let end = match ending {
        Ending::Completed { text } => {
            let (message_id, usage) = (ids.message(), state.usage);
            let structured = state.last().and_then(|step| step.structured.clone());
            let (memories_referenced, data) = structured
                .map(|structured| (structured.memories_referenced, structured.data))
                .unwrap_or_default();
            let complete = StreamComplete { message_id, text, memories_referenced, data, usage };
            events.push(Event::StreamComplete(complete));
            RunEnd { run_id, status: RunStatus::Completed, error: None, message_id: None }
        }
        Ending::Other { status, error } => {
            if let Some(error) = &error {
                tracing::warn!(%thread, run = %run_id, code = error.code, cause = error.message, "a run failed");
            }
            let said = |done: &Done| !done.step.text.is_empty() || !done.step.calls.is_empty();
            let message_id = state.steps.iter().any(said).then(|| ids.message());
            RunEnd { run_id, status, error, message_id }
        }
    };
    events.push(Event::RunEnd(end));
    events
}

/// The result of a call that the end of its run left without one.
pub(super) fn unanswered(call: &Call, unsure: bool) -> ToolComplete {
    let (status, output) = if unsure {
        let Outcome { status, output, .. } = Outcome::unknown();
        (status, output)
    } else {
        (ToolStatus::Cancelled, "the run ended before this call was finished".into())
    };
    let (call_id, name) = (call.id, call.name.clone());
    ToolComplete { call_id, name, status, output, duration_ms: 0, outside: false, suspicious: false }
}
