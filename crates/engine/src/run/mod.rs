//! One run, from whatever its log holds to its end.
//!
//! [`decide`] says what comes next, the other files do it, and [`state`] folds what was done. Every fact is committed
//! before it is folded, so a run cut anywhere goes on from its log to the same end.

mod budget;
mod collect;
mod cut;
mod decide;
mod finish;
mod forget;
mod load;
#[cfg(test)]
mod machine;
mod model;
mod object;
mod obstacle;
mod state;
mod tools;

use std::sync::{Arc, OnceLock};

use ::model::{Counter, Model};
use app::App;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use memory::recall::Recall;
use protocol::{Clock, Event, Ids, RunEnd, RunId, Scope, ThreadId};
use store::{NewJob, RunLog, Stop, Store, Write};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use crate::context::{self, Context, Fence};
use crate::engine::STORE_PAUSE;
use crate::gate::CallGate;

pub(crate) use budget::{DAY_SPENT, day_spent, has_day};
use decide::{Halt, Step, next_step};
pub(crate) use decide::{Limits, REPEATS_WARNED, failure};
pub(crate) use finish::forced;
pub(crate) use object::{MEMORIES_FIELD, TEXT_FIELD};
pub(crate) use obstacle::{Obstacle, read as read_facts};
pub(crate) use state::{Done, RunState, is_not_offered};

/// A run and what it needs to go on.
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) scope: Scope,
    pub(crate) app: Arc<App>,
    pub(crate) tools: Arc<::tools::Registry>,
    /// The model to ask, and those to ask when it fails; empty when nothing is configured.
    pub(crate) models: Vec<Arc<Model>>,
    pub(crate) store: Store,
    pub(crate) recall: Arc<Recall>,
    pub(crate) vault: Arc<dyn ::tools::Vault>,
    /// Marks what is data.
    pub(crate) fence: Fence,
    /// Counts tokens where there is no model.
    pub(crate) counter: Counter,
    pub(crate) log: RunLog,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) started: Timestamp,
    pub(crate) limits: Limits,
    /// Says when, and how, the run is to end before its time.
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    /// The same, as the log said it when it refused to begin something.
    pub(crate) told: OnceLock<Stop>,
    /// Gives a place while the model is asked: so many at once, and no more.
    pub(crate) model_calls: Arc<CallGate>,
    pub(crate) deadline: Instant,
    /// What the prompt is made of, once it has been read.
    pub(crate) context: Option<Context>,
    /// Where the user lives, once a tool was called.
    pub(crate) zone: OnceCell<TimeZone>,
}

impl Run {
    /// Runs to the end, starting from whatever the log already holds. None when the run waits for the user.
    pub(crate) async fn drive(&mut self, mut state: RunState) -> Result<Option<RunEnd>, Obstacle> {
        let mut facts = self.end_cut_step(&state).await?;
        let mut last = None;
        loop {
            for fact in &facts {
                state.apply(fact); // committed by the log, and published, before it counts
            }
            if let Some(end) = state.end {
                return Ok(Some(end));
            }
            let step = next_step(&state, &self.limits, self.halt());
            if facts.is_empty() && last.as_ref() == Some(&step) {
                return Err(Obstacle::Stuck); // it would do the same for ever
            }
            last = Some(step.clone());
            facts = match self.perform(&state, step).await {
                Ok(Some(facts)) => facts,
                Ok(None) => return Ok(None),
                Err(Obstacle::Store(store::Error::Stopped(_))) => Vec::new(), // the next step is the end
                Err(obstacle) => return Err(obstacle),
            };
        }
    }

    /// Does a step and gives what the log has of it. None when the run waits for the user.
    async fn perform(&mut self, state: &RunState, step: Step) -> Result<Option<Vec<Event>>, Obstacle> {
        let facts = match step {
            Step::Load => self.load(state).await?,
            Step::CallModel => self.call_model(state, context::Offer::Tools).await?,
            Step::Answer => self.call_model(state, context::Offer::Words).await?,
            Step::RunTools(calls) => self.run_tools(state, calls).await?,
            Step::Wait => {
                let decisions = self.decisions(state).await?;
                return Ok((!decisions.is_empty()).then_some(decisions));
            }
            Step::Finish(ending) => self.finish(state, ending).await?,
        };
        Ok(Some(facts))
    }

    /// What others have added to the log: the user's word on proposals.
    async fn decisions(&self, state: &RunState) -> Result<Vec<Event>, Obstacle> {
        let events = obstacle::read(&self.store.facts(self.id).await?)?;
        Ok(events.into_iter().filter(|event| state.waits_for(event)).collect())
    }

    /// Commits facts and gives back those that count.
    async fn record(&self, events: Vec<Event>) -> Result<Vec<Event>, store::Error> {
        self.record_with(events, Vec::new(), Vec::new()).await
    }

    /// The same, with work for later and what a call writes.
    async fn record_with(
        &self,
        events: Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<Event>, store::Error> {
        self.record_when_possible(|| events.clone(), jobs, writes).await
    }

    /// The same for facts that depend on when they are written: a full disk may be waited for.
    async fn record_when_possible(
        &self,
        facts: impl Fn() -> Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<Event>, store::Error> {
        let (events, recorded) = loop {
            let events = facts();
            match self.log.record(events.clone(), jobs.clone(), writes.clone()).await {
                // What a tool has done cannot be done again just to be written down.
                Err(store::Error::Full | store::Error::Overloaded) => tokio::time::sleep(STORE_PAUSE).await,
                Err(store::Error::Stopped(stop)) => {
                    let _ = self.told.set(stop); // whoever asked for it tells the run, too, a moment later
                    return Err(store::Error::Stopped(stop));
                }
                recorded => break (events, recorded?),
            }
        };
        Ok(events.into_iter().zip(recorded).filter_map(|(event, kept)| kept.then_some(event)).collect())
    }

    fn halt(&self) -> Option<Halt> {
        let told = [self.told.get().copied(), *self.stop.borrow()].into_iter().flatten().max();
        match told {
            Some(Stop::Cancelled) => Some(Halt::Cancelled),
            Some(Stop::Interrupted) => Some(Halt::Interrupted),
            None if Instant::now() >= self.deadline => Some(Halt::TimedOut),
            None => None,
        }
    }

    /// Waits until the run must stop.
    async fn halted(&self) -> Halt {
        tokio::select! {
            halt = self.told_to_stop() => halt,
            () = tokio::time::sleep_until(self.deadline) => Halt::TimedOut,
        }
    }

    /// Waits until somebody stops the run.
    async fn told_to_stop(&self) -> Halt {
        let mut stop = self.stop.clone();
        match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(Stop::Interrupted)) => Halt::Interrupted,
            Ok(Some(Stop::Cancelled)) => Halt::Cancelled,
            // Nobody is left to tell it to stop.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
