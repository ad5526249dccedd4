//! The tool half of a step: calls run side by side, each with one start and one result.
//!
//! A call is looked up, checked and ruled on before anything is begun. What needs a yes becomes a proposal, and its
//! siblings go on. What is allowed begins with a committed intent and ends with a committed outcome, together with
//! whatever it writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::tools::{Calling, Outcome, Ruling, Taint};
use futures_util::StreamExt;
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use protocol::{Call, Event, ProposalOpen, ToolComplete, ToolStart, ToolStatus};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::decide::{MAX_CALLS_PER_RUN, REPEATS_STOPPED};
use super::state::{INVALID_ARGUMENTS, RunState};
use crate::profile;

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
    /// Whose words from outside are in the prompt.
    taint: Taint,
    /// Tells calls under way to end.
    stop: CancellationToken,
    /// The store has failed a call: no further one starts.
    failed: AtomicBool,
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
        let shared = Shared { taint: state.asked_with.clone(), ..Shared::default() };
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
        let (mut facts, mut failed) = (Vec::new(), None);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut ending => None,
                next = running.next() => next,
            };
            match next {
                Some(Ok(done)) => facts.extend(done),
                // Its siblings have begun: what they did is written down before the run goes on from its log.
                Some(Err(error)) => {
                    shared.failed.store(true, Ordering::Relaxed);
                    failed.get_or_insert(error);
                }
                None => break,
            }
        }
        drop(running);
        facts.append(&mut *shared.begun.lock().await);
        failed.map_or(Ok(facts), Err)
    }

    async fn run_tool(
        &self,
        call: Call,
        verdict: Verdict,
        shared: &Shared,
    ) -> Result<Vec<Event>, store::Error> {
        if shared.stop.is_cancelled() || shared.failed.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let begun_at = Instant::now();
        let (approved, begun) = match verdict {
            Verdict::Refuse(outcome) => return self.settle(&call, outcome, begun_at).await,
            Verdict::Run { begun: true, .. } if self.tools.is_beyond_knowing(&call.name) => {
                return self.settle(&call, Outcome::unknown(), begun_at).await;
            }
            Verdict::Run { approved, begun } => (approved, begun),
        };
        let calling = Calling { zone: self.zone().await, ..self.calling(&call, &shared.stop) };
        let prepared = match self.tools.prepare(&call.name, &calling, &shared.taint).await {
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
            let start = ToolStart { call_id, name, input, effect: prepared.effect, marker: prepared.marker };
            let recorded = match self.record(vec![Event::ToolStart(start)]).await {
                Err(store::Error::Stopped(_)) => return Ok(Vec::new()),
                recorded => recorded?,
            };
            shared.begun.lock().await.extend(recorded);
        }
        let begun_at = Instant::now();
        let outcome = self.tools.run(&call.name, calling, self.app.limits.tool_timeout).await;
        self.settle(&call, outcome, begun_at).await
    }

    fn calling<'a>(&'a self, call: &Call, stop: &'a CancellationToken) -> Calling<'a> {
        Calling {
            id: call.id,
            input: call.input.clone(),
            scope: &self.scope,
            thread: Some(self.thread),
            run: Some(self.id),
            store: &self.store,
            vault: &self.vault,
            recall: &self.recall,
            ids: &self.ids,
            now: self.clock.now(),
            zone: TimeZone::UTC,
            stop,
        }
    }

    /// Where the user lives; read once for all calls of a run.
    async fn zone(&self) -> TimeZone {
        let read = || profile::zone_in_app(&self.store, &self.scope, &self.app);
        self.zone.get_or_init(read).await.clone()
    }

    /// Asks the user. The call stays without a result until there is an answer.
    async fn propose(&self, call: Call) -> Result<Vec<Event>, store::Error> {
        let proposal_id = self.ids.proposal();
        let open = || {
            let now = self.clock.now();
            vec![Event::ProposalOpen(ProposalOpen {
                proposal_id,
                call_id: call.id,
                name: call.name.clone(),
                input: call.input.clone(),
                expires_at: now.checked_add(PROPOSAL_LIFE).unwrap_or(now),
            })]
        };
        match self.record_when_possible(open, Vec::new(), Vec::new()).await {
            Err(store::Error::Stopped(_)) => Ok(Vec::new()),
            recorded => recorded,
        }
    }

    /// Commits the outcome with what the call writes. If that came too late, the call has failed and nothing is written.
    async fn settle(
        &self,
        call: &Call,
        outcome: Outcome,
        begun: Instant,
    ) -> Result<Vec<Event>, store::Error> {
        let Outcome { status, output, writes, sources, outside } = outcome;
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
        let mut events = vec![event(status, output)];
        events.extend(sources.into_iter().map(Event::Source));
        match self.record_with(events, Vec::new(), writes).await {
            Err(store::Error::Changed(reason)) => {
                let output = json!({ "error": "conflict", "message": reason });
                self.record(vec![event(ToolStatus::Failed, output)]).await
            }
            Err(store::Error::Known(memory)) => {
                self.record(vec![event(status, ::tools::known_already(memory))]).await
            }
            recorded => recorded,
        }
    }
}

/// Whether what came from outside reads like instructions, in any of its texts.
fn is_instruction(output: &Value) -> bool {
    let mut texts = String::new();
    add_texts(output, &mut texts);
    memory::suspicion::is_instruction(&texts)
}

/// All words of a result, a line each. How deep results nest is bounded where they come in.
fn add_texts(output: &Value, texts: &mut String) {
    match output {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => texts.extend([text.as_str(), "\n"]),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts.extend([name.as_str(), "\n"]);
                add_texts(value, texts);
            }
        }
    }
}

fn denied() -> Outcome {
    Outcome::refused(ToolStatus::Denied, "denied", "the app does not allow this call")
}

/// Decides for each call of the step whether it runs, counting the ones before it.
fn verdicts(state: &RunState, calls: &[Call]) -> Vec<Verdict> {
    let earlier = state.calls().saturating_sub(state.last().map_or(0, |step| step.calls.len()));
    let room = MAX_CALLS_PER_RUN.saturating_sub(earlier);
    calls.iter().enumerate().map(|(index, call)| verdict(state, calls, index, call, room)).collect()
}

fn verdict(state: &RunState, calls: &[Call], index: usize, call: &Call, room: usize) -> Verdict {
    let refuse = |status, error, message: &str| Verdict::Refuse(Outcome::refused(status, error, message));
    if call.raw.is_some() {
        let message =
            "the arguments were not a complete JSON object, or nested too deep; the call was not run";
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
