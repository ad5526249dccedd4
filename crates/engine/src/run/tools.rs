//! The tool half of a step: calls run side by side, each with one start and one result.

use std::time::Duration;

use futures_util::StreamExt;
use protocol::{Call, Event, ToolComplete, ToolStart, ToolStatus};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::decide::{MAX_CALLS_PER_RUN, REPEATS_STOPPED};
use super::state::{INVALID_ARGUMENTS, RunState};

/// How long tools under way may take to end once the run must stop.
const GRACE: Duration = Duration::from_secs(5);

/// What to do with a call before it reaches a tool.
enum Verdict {
    Run,
    Refuse { status: ToolStatus, error: &'static str, message: String },
}

impl Run {
    /// Runs the calls; results come in any order. When the run must stop, no further call starts, those under way are
    /// told and have a moment to end, and whatever has no result then is left to the end of the run.
    pub(super) async fn run_tools(
        &self,
        state: &RunState,
        calls: Vec<Call>,
    ) -> Result<Vec<Event>, store::Error> {
        let stop = CancellationToken::new();
        let verdicts = verdicts(state, &calls);
        let work = calls.into_iter().zip(verdicts).map(|(call, verdict)| self.run_tool(call, verdict, &stop));
        let mut running =
            futures_util::stream::iter(work).buffer_unordered(self.app.limits.max_parallel_tools);
        let ending = async {
            self.halted().await;
            stop.cancel();
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(ending);
        let mut facts = Vec::new();
        loop {
            let next = tokio::select! {
                biased;
                () = &mut ending => None,
                next = running.next() => next,
            };
            match next {
                Some(done) => facts.extend(done?),
                None => return Ok(facts),
            }
        }
    }

    async fn run_tool(
        &self,
        call: Call,
        verdict: Verdict,
        stop: &CancellationToken,
    ) -> Result<Vec<Event>, store::Error> {
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let (status, output) = match verdict {
            Verdict::Refuse { status, error, message } => {
                (status, json!({ "error": error, "message": message }))
            }
            Verdict::Run => {
                let start =
                    ToolStart { call_id: call.id, name: call.name.clone(), input: call.input.clone() };
                self.record(vec![Event::ToolStart(start)]).await?;
                let outcome =
                    self.tools.run(&call.name, call.input, self.app.limits.tool_timeout, stop).await;
                (outcome.status, outcome.output)
            }
        };
        let duration_ms = millis(started.elapsed());
        let result = ToolComplete { call_id: call.id, name: call.name, status, output, duration_ms };
        self.record(vec![Event::ToolComplete(result)]).await
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Decides for each call of the step whether it runs, counting the ones before it.
fn verdicts(state: &RunState, calls: &[Call]) -> Vec<Verdict> {
    let earlier = state.calls().saturating_sub(state.last().map_or(0, |step| step.calls.len()));
    let room = MAX_CALLS_PER_RUN.saturating_sub(earlier);
    calls.iter().enumerate().map(|(index, call)| verdict(state, calls, index, call, room)).collect()
}

fn verdict(state: &RunState, calls: &[Call], index: usize, call: &Call, room: usize) -> Verdict {
    if call.raw.is_some() {
        let message = "the arguments were not a complete JSON object; the call was not run".to_owned();
        return Verdict::Refuse { status: ToolStatus::Failed, error: INVALID_ARGUMENTS, message };
    }
    let same_later =
        calls.iter().skip(index + 1).filter(|other| other.name == call.name && other.input == call.input);
    let times = state.repeated(call).saturating_sub(u32::try_from(same_later.count()).unwrap_or(u32::MAX));
    if times >= REPEATS_STOPPED {
        let message =
            format!("this same call was made {times} times; it was not run again. Answer with what you have");
        return Verdict::Refuse { status: ToolStatus::Denied, error: "loop_detected", message };
    }
    if index >= room {
        let message = format!("a run may make {MAX_CALLS_PER_RUN} calls; this one was not run");
        return Verdict::Refuse { status: ToolStatus::Denied, error: "too_many_calls", message };
    }
    Verdict::Run
}
