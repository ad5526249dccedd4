//! The end of a run: every call answered, the answer stored, `run:end` last, in one transaction.

use protocol::{Event, RunEnd, RunStatus, StreamComplete, ToolComplete, ToolStatus};

use super::Run;
use super::decide::Ending;
use super::state::RunState;

/// Results of one run above which something is wrong: no sane run makes so many calls.
const MANY_RESULTS: usize = 100;

impl Run {
    pub(super) async fn finish(&self, state: &RunState, ending: Ending) -> Result<Vec<Event>, store::Error> {
        let results: usize = state.steps.iter().map(|done| done.results.len()).sum();
        if results > MANY_RESULTS {
            tracing::warn!(thread = %self.thread, run = %self.id, results, "a run ends with very many tool results");
        }
        let mut events: Vec<Event> =
            state.pending.iter().map(|call| Event::ToolComplete(unanswered(call))).collect();
        let end = match ending {
            Ending::Completed { text } => {
                events.push(Event::StreamComplete(StreamComplete {
                    message_id: self.ids.message(),
                    text,
                    memories_referenced: Vec::new(),
                    usage: state.usage,
                }));
                RunEnd { run_id: self.id, status: RunStatus::Completed, error: None, message_id: None }
            }
            Ending::Other { status, error } => {
                if let Some(error) = &error {
                    tracing::warn!(thread = %self.thread, run = %self.id, code = error.code, cause = error.message, "a run failed");
                }
                let said_something =
                    state.steps.iter().any(|done| !done.step.text.is_empty() || !done.step.calls.is_empty());
                let message_id = said_something.then(|| self.ids.message());
                RunEnd { run_id: self.id, status, error, message_id }
            }
        };
        events.push(Event::RunEnd(end));
        self.record(events).await
    }
}

/// The result of a call that the end of its run left without one.
fn unanswered(call: &protocol::Call) -> ToolComplete {
    ToolComplete {
        call_id: call.id,
        name: call.name.clone(),
        status: ToolStatus::Cancelled,
        output: "the run ended before this call was finished".into(),
        duration_ms: 0,
    }
}
