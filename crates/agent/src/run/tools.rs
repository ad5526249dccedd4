//! The tool half of a step: calls run side by side, each with one start and one result.
//!
//! Each call is looked up and checked, and the policy rules on it, before the call begins. A call that needs approval
//! becomes a proposal. A call of the client is left to the client. The other calls of the step go on meanwhile. A call
//! that is allowed begins with a committed intent, and ends with a commit of its outcome and its writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::tools::{CallOutcome, Calling, Ruling, Taint};
use futures_util::StreamExt;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use protocol::{Call, CallOpen, Effect, Event, ProposalOpen, ToolStart, ToolStatus};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::executor::{ExecutedCall, Executor};
use crate::decide::{CallVerdict, call_verdicts};
use crate::profile;
use crate::state::RunState;

/// How long tools under way may take to end once the run must stop.
const GRACE: Duration = Duration::from_secs(5);

/// How long a call waits for approval, or for a result from the client, before it is denied.
const WAIT_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// State that the calls of one step share.
#[derive(Default)]
struct Shared {
    /// Sources outside this server whose words are in the prompt.
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
    /// Runs the calls; results come in any order. When the run must stop, no further call starts, and the running calls
    /// are told and have a moment to end. The end of the run gives a result to every call that has none by then.
    pub(super) async fn run_tools(
        &self,
        state: &RunState,
        calls: Vec<Call>,
    ) -> Result<Vec<Event>, store::Error> {
        let shared = Shared { taint: state.asked_with.clone(), ..Shared::default() };
        let verdicts = call_verdicts(state, &calls);
        let each = |(call, verdict)| self.run_tool(call, verdict, &shared);
        let work = calls.into_iter().zip(verdicts).map(each);
        let mut running =
            futures_util::stream::iter(work).buffer_unordered(self.app.limits.max_parallel_tools);
        let ending = async {
            self.wait_for_halt().await;
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
        verdict: CallVerdict,
        shared: &Shared,
    ) -> Result<Vec<Event>, store::Error> {
        if shared.stop.is_cancelled() || shared.failed.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let begun_at = Instant::now();
        let (approved, begun) = match verdict {
            CallVerdict::Refuse(outcome) => {
                return self.settle(&call, ExecutedCall::with_duration_since(begun_at, outcome)).await;
            }
            CallVerdict::Run { approved, begun } => (approved, begun),
        };
        let unsure = begun && self.may_change_elsewhere(&call);
        let checked = |executed: ExecutedCall| if unsure { executed.of_second_try() } else { executed };
        let settle =
            |outcome| self.settle(&call, checked(ExecutedCall::with_duration_since(begun_at, outcome)));
        let tool = match self.tools.find(&call.name) {
            Ok(tool) if begun && tool.facts().is_beyond_knowing() => {
                return settle(CallOutcome::unknown()).await;
            }
            Ok(tool) => tool,
            Err(failed) => return settle(failed.into()).await,
        };
        let executor = Executor::new(&self.world, &self.scope, self.app.limits.tool_timeout, &shared.stop);
        let calling = Calling {
            thread: Some(self.thread),
            run: Some(self.id),
            zone: self.zone().await,
            ..executor.calling(call.id, call.input.clone())
        };
        let prepared = match tool.prepare(&calling, &shared.taint).await {
            Ok(prepared) => prepared,
            Err(failed) => return settle(failed.into()).await,
        };
        match if approved { Ruling::Allow } else { prepared.ruling } {
            Ruling::Allow => {}
            Ruling::Ask if !begun => return self.propose(call).await,
            Ruling::Ask | Ruling::Deny => return settle(denied_outcome()).await,
        }
        if tool.facts().by_client {
            return self.open_call(call, tool.facts().effect).await;
        }
        let _lane = shared.lane(tool.facts().exclusive).await;
        if !begun {
            let (call_id, name, input) = (call.id, call.name.clone(), call.input.clone());
            let (effect, marker) = (tool.facts().effect, tool.facts().marker.clone());
            let start = ToolStart { call_id, name, input, effect, marker };
            let recorded = match self.record(vec![Event::ToolStart(start)]).await {
                Err(store::Error::Stopped(_)) => return Ok(Vec::new()),
                recorded => recorded?,
            };
            shared.begun.lock().await.extend(recorded);
        }
        let executed = executor.call(&prepared, calling).await;
        self.settle(&call, checked(executed)).await
    }

    /// Whether a call may have changed something elsewhere once it has begun. A tool that is no longer there may have.
    pub(super) fn may_change_elsewhere(&self, call: &Call) -> bool {
        self.tools.get(&call.name).is_none_or(|tool| tool.facts().changes_elsewhere())
    }

    /// Returns the time zone in which the user lives; it is read once for all calls of a run.
    async fn zone(&self) -> TimeZone {
        let read = || profile::zone_in_app(&self.world.store, &self.scope, &self.app);
        self.zone.get_or_init(read).await.clone()
    }

    /// Asks the user. The call stays without a result until there is an answer.
    async fn propose(&self, call: Call) -> Result<Vec<Event>, store::Error> {
        let proposal_id = self.world.ids.proposal();
        self.wait_with(|expires_at| {
            let Call { id: call_id, name, input, .. } = call.clone();
            Event::ProposalOpen(ProposalOpen { proposal_id, call_id, name, input, expires_at })
        })
        .await
    }

    /// Leaves a call to the client. It stays without a result until the client has sent one.
    async fn open_call(&self, call: Call, effect: Effect) -> Result<Vec<Event>, store::Error> {
        self.wait_with(|expires_at| {
            let Call { id: call_id, name, input, .. } = call.clone();
            Event::CallOpen(CallOpen { call_id, name, input, effect, expires_at })
        })
        .await
    }

    /// Commits that a call waits; the event says until when.
    async fn wait_with(&self, open: impl Fn(Timestamp) -> Event) -> Result<Vec<Event>, store::Error> {
        let open = || {
            let now = self.world.clock.now();
            vec![open(now.checked_add(WAIT_LIFE).unwrap_or(now))]
        };
        match self.record_when_possible(open, Vec::new(), Vec::new()).await {
            Err(store::Error::Stopped(_)) => Ok(Vec::new()),
            recorded => recorded,
        }
    }

    /// Commits the outcome with what the call writes. If that came too late, the call has failed and nothing is written.
    async fn settle(&self, call: &Call, executed: ExecutedCall) -> Result<Vec<Event>, store::Error> {
        let CallOutcome { writes, sources, .. } = &executed.outcome;
        let mut events = vec![Event::ToolComplete(executed.complete(call))];
        events.extend(sources.iter().cloned().map(Event::Source));
        match self.record_with(events, Vec::new(), writes.clone()).await {
            Ok(recorded) => Ok(recorded),
            Err(error) => {
                let complete = executed.without_writes(error)?.complete(call);
                self.record(vec![Event::ToolComplete(complete)]).await
            }
        }
    }
}

fn denied_outcome() -> CallOutcome {
    CallOutcome::refused(ToolStatus::Denied, "denied", "the app does not allow this call")
}
