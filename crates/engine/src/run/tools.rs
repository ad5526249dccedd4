//! The tool half of a step: calls run side by side, each with one start and one result.
//!
//! A call is looked up, checked and ruled on before anything is begun. What needs a yes becomes a proposal, and its
//! siblings go on. What is allowed begins with a committed intent and ends with a committed outcome, together with
//! whatever it writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::tools::{Calling, Outcome, Prepared, Registry, Ruling};
use futures_util::StreamExt;
use jiff::SignedDuration;
use protocol::{Call, Effect, Event, ProposalOpen, ToolComplete, ToolStart, ToolStatus};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::decide::{MAX_CALLS_PER_RUN, REPEATS_STOPPED};
use super::state::{INVALID_ARGUMENTS, RunState};

/// How long tools under way may take to end once the run must stop.
const GRACE: Duration = Duration::from_secs(5);

/// How long a call waits for a yes before it is denied.
const PROPOSAL_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// What to do with a call before it reaches a tool.
enum Verdict {
    /// Let its tool and policy say.
    Run {
        approved: bool,
        begun: bool,
    },
    Refuse(Outcome),
}

/// What the calls of one step share.
#[derive(Default)]
struct Shared {
    /// Words from outside are in the prompt.
    tainted: bool,
    /// Tells calls under way to end.
    stop: CancellationToken,
    /// Calls that must not overlap wait here for each other.
    lanes: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// Intents that were committed; kept here, since a call that is dropped can no longer tell of its own.
    begun: Mutex<Vec<Event>>,
}

impl Shared {
    async fn lane(&self, name: Option<&str>) -> Option<OwnedMutexGuard<()>> {
        let lane = Arc::clone(self.lanes.lock().await.entry(name?.to_owned()).or_default());
        Some(lane.lock_owned().await)
    }
}

impl Run {
    /// Runs the calls; results come in any order. When the run must stop, no further call starts, those under way are
    /// told and have a moment to end, and whatever has no result then is left to the end of the run.
    pub(super) async fn run_tools(
        &self,
        state: &RunState,
        calls: Vec<Call>,
    ) -> Result<Vec<Event>, store::Error> {
        let shared = Shared { tainted: state.tainted, ..Shared::default() };
        let verdicts = verdicts(state, &calls);
        let each = |(call, verdict)| self.run_tool(call, verdict, &shared);
        let work = calls.into_iter().zip(verdicts).map(each);
        let mut running =
            futures_util::stream::iter(work).buffer_unordered(self.app.limits.max_parallel_tools);
        let ending = async {
            self.halted().await;
            shared.stop.cancel();
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
                None => break,
            }
        }
        drop(running);
        facts.append(&mut *shared.begun.lock().await);
        Ok(facts)
    }

    async fn run_tool(
        &self,
        call: Call,
        verdict: Verdict,
        shared: &Shared,
    ) -> Result<Vec<Event>, store::Error> {
        if shared.stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let begun_at = Instant::now();
        let (approved, begun) = match verdict {
            Verdict::Refuse(outcome) => return self.settle(&call, outcome, begun_at).await,
            Verdict::Run { begun: true, .. } if is_beyond_knowing(&self.tools, &call.name) => {
                return self.settle(&call, unknown(), begun_at).await;
            }
            Verdict::Run { approved, begun } => (approved, begun),
        };
        let calling = self.calling(&call, &shared.stop);
        let prepared = match self.tools.prepare(&call.name, &calling, shared.tainted).await {
            Ok(prepared) => prepared,
            Err(failed) => return self.settle(&call, failed.into(), begun_at).await,
        };
        match if approved { Ruling::Allow } else { prepared.ruling } {
            Ruling::Allow => {}
            Ruling::Ask => return self.propose(call).await,
            Ruling::Deny => return self.settle(&call, denied(), begun_at).await,
        }
        let _lane = shared.lane(prepared.exclusive.as_deref()).await;
        if !begun {
            let (call_id, name, input) = (call.id, call.name.clone(), call.input.clone());
            let start = ToolStart { call_id, name, input, effect: prepared.effect };
            let recorded = self.record(vec![Event::ToolStart(start)]).await?;
            shared.begun.lock().await.extend(recorded);
        }
        let begun_at = Instant::now();
        let outcome = self.tools.run(&call.name, calling, self.app.limits.tool_timeout).await;
        self.settle(&call, honest(outcome, &prepared), begun_at).await
    }

    fn calling<'a>(&'a self, call: &Call, stop: &'a CancellationToken) -> Calling<'a> {
        Calling {
            id: call.id,
            input: call.input.clone(),
            scope: &self.scope,
            thread: Some(self.thread),
            run: Some(self.id),
            store: &self.store,
            recall: &self.recall,
            ids: &self.ids,
            now: self.clock.now(),
            stop,
        }
    }

    /// Asks the user. The call stays without a result until there is an answer.
    async fn propose(&self, call: Call) -> Result<Vec<Event>, store::Error> {
        let now = self.clock.now();
        let open = ProposalOpen {
            proposal_id: self.ids.proposal(),
            call_id: call.id,
            name: call.name,
            input: call.input,
            expires_at: now.checked_add(PROPOSAL_LIFE).unwrap_or(now),
        };
        self.record(vec![Event::ProposalOpen(open)]).await
    }

    /// Commits the outcome with what the call writes. If that came too late, the call has failed and nothing is written.
    async fn settle(
        &self,
        call: &Call,
        outcome: Outcome,
        begun: Instant,
    ) -> Result<Vec<Event>, store::Error> {
        let outside = self.tools.is_outside(&call.name);
        let event = |status, output| {
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (call_id, name) = (call.id, call.name.clone());
            let suspicious = outside && is_instruction(&output);
            Event::ToolComplete(ToolComplete {
                call_id,
                name,
                status,
                output,
                duration_ms,
                outside,
                suspicious,
            })
        };
        let Outcome { status, output, writes } = outcome;
        match self.record_with(vec![event(status, output)], Vec::new(), writes).await {
            Err(store::Error::Changed(reason)) => {
                let output = json!({ "error": "conflict", "message": reason });
                self.record(vec![event(ToolStatus::Failed, output)]).await
            }
            recorded => recorded,
        }
    }
}

/// Whether what came from outside reads like instructions.
fn is_instruction(output: &Value) -> bool {
    match output.as_str() {
        Some(text) => memory::suspicion::is_instruction(text),
        None => memory::suspicion::is_instruction(&output.to_string()),
    }
}

/// Whether nobody can know what became of a call to this tool that was cut: it acts elsewhere, and doing it again would
/// do it twice.
pub(crate) fn is_beyond_knowing(tools: &Registry, tool: &str) -> bool {
    let repeatable = |effect| matches!(effect, Effect::Read | Effect::Idempotent);
    tools.is_outside(tool) && !tools.effect(tool).is_some_and(repeatable)
}

fn refused(status: ToolStatus, error: &str, message: &str) -> Outcome {
    Outcome { status, output: json!({ "error": error, "message": message }), writes: Vec::new() }
}

fn denied() -> Outcome {
    refused(ToolStatus::Denied, "denied", "the app does not allow this call")
}

/// The result of a call that may or may not have happened.
pub(crate) fn unknown() -> Outcome {
    let message = "it is not known whether this call took effect; do not repeat it without asking the user";
    refused(ToolStatus::Unknown, "unknown", message)
}

/// A call that acts elsewhere and gave no answer is not said to have failed: it may have happened.
fn honest(outcome: Outcome, prepared: &Prepared) -> Outcome {
    let silent = outcome.output.get("error").is_some_and(|error| error == "timeout" || error == "crashed");
    let failed = outcome.status == ToolStatus::Failed && silent;
    if failed && prepared.outside && prepared.effect != Effect::Read { unknown() } else { outcome }
}

/// Decides for each call of the step whether it runs, counting the ones before it.
fn verdicts(state: &RunState, calls: &[Call]) -> Vec<Verdict> {
    let earlier = state.calls().saturating_sub(state.last().map_or(0, |step| step.calls.len()));
    let room = MAX_CALLS_PER_RUN.saturating_sub(earlier);
    calls.iter().enumerate().map(|(index, call)| verdict(state, calls, index, call, room)).collect()
}

fn verdict(state: &RunState, calls: &[Call], index: usize, call: &Call, room: usize) -> Verdict {
    let refuse = |status, error, message: &str| Verdict::Refuse(refused(status, error, message));
    if call.raw.is_some() {
        let message = "the arguments were not a complete JSON object; the call was not run";
        return refuse(ToolStatus::Failed, INVALID_ARGUMENTS, message);
    }
    let same_later =
        calls.iter().skip(index + 1).filter(|other| other.name == call.name && other.input == call.input);
    let times = state.repeated(call).saturating_sub(u32::try_from(same_later.count()).unwrap_or(u32::MAX));
    if times >= REPEATS_STOPPED {
        let message =
            format!("this same call was made {times} times; it was not run again. Answer with what you have");
        return refuse(ToolStatus::Denied, "loop_detected", &message);
    }
    if index >= room {
        let message = format!("a run may make {MAX_CALLS_PER_RUN} calls; this one was not run");
        return refuse(ToolStatus::Denied, "too_many_calls", &message);
    }
    Verdict::Run { approved: state.is_approved(call.id), begun: state.has_begun(call.id) }
}
