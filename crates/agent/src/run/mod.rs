//! One run, from the present end of its log to its own end.
//!
//! `decide` says what comes next, the files here do it, and `state` folds what was done. Every fact is committed
//! before it is folded, so a run cut anywhere goes on from its log to the same end.

mod budget;
mod collect;
mod executor;
mod finish;
mod forget;
mod images;
mod interrupted_step;
mod load;
mod model;
mod obstacle;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::{Arc, OnceLock};

use ::model::Model;
use app::App;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{Event, RunEnd, RunId, Scope, ThreadId};
use store::{NewJob, RunLog, RunRow, Stop, Write};
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use crate::apps::ServedApp;
use crate::context::{self, Context, Fence};
use crate::decide::{Halt, NextStep, Tries, next_step};
use crate::state::RunState;
use crate::tasks::STORE_PAUSE;
use crate::world::World;

pub use executor::earlier_result;
pub(crate) use executor::{ExecutedCall, Executor, calling};
pub(crate) use finish::forced_end;
pub(crate) use obstacle::{Obstacle, read_facts, read_stored};

/// A run and what it needs to go on.
pub(crate) struct Run {
    pub(crate) world: Arc<World>,
    pub(crate) id: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) scope: Scope,
    pub(crate) app: Arc<App>,
    pub(crate) tools: Arc<::tools::ToolRegistry>,
    /// The model to ask, and those to ask when it fails; empty when nothing is configured.
    pub(crate) models: Vec<Arc<Model>>,
    /// Marks what is data.
    pub(crate) fence: Fence,
    pub(crate) log: RunLog,
    pub(crate) started: Timestamp,
    /// Says when, and how, the run is to end before its time.
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    /// How the run is to end, as the log said it when it refused to begin something.
    pub(crate) told: OnceLock<Stop>,
    pub(crate) deadline: Instant,
    /// The context of the prompt, once it has been read.
    pub(crate) context: Option<Context>,
    /// The tries of a step that has begun together with the context.
    pub(crate) begun: Option<Tries>,
    /// The time zone in which the user lives, once it was read.
    pub(crate) zone: OnceCell<TimeZone>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.log.close();
    }
}

impl Run {
    /// A run and what it needs to go on. `stop` says when the run is to end before its time.
    pub(crate) fn new(
        (world, serving): (&Arc<World>, &ServedApp),
        row: &RunRow,
        state: &RunState,
        stop: Option<watch::Receiver<Option<Stop>>>,
    ) -> Self {
        let of_request = state.start.as_ref().map(|start| start.tools.as_slice()).unwrap_or_default();
        Self {
            world: Arc::clone(world),
            id: row.id,
            thread: row.thread,
            app: Arc::clone(&serving.app),
            tools: serving.tools().with_client_tools(of_request),
            scope: row.scope.clone(),
            models: world.models_for(&serving.app, row.model.as_deref()),
            fence: Fence::of(world.secret(), row.thread),
            log: world.store.log(row),
            started: row.created_at,
            stop: stop.unwrap_or_else(|| watch::channel(None).1),
            told: OnceLock::new(),
            deadline: Instant::now() + serving.app.limits.run_timeout,
            context: None,
            begun: None,
            zone: OnceCell::new(),
        }
    }

    /// Runs to the end, starting from the events in the log. None when the run waits for the user.
    pub(crate) async fn drive(&mut self, mut state: RunState) -> Result<Option<RunEnd>, Obstacle> {
        let mut facts = self.end_interrupted_step(&state).await?;
        let mut last = None;
        loop {
            for fact in &facts {
                state.apply(fact); // committed by the log, and published, before it counts
            }
            if let Some(end) = state.end {
                return Ok(Some(end));
            }
            let step = next_step(&state, &self.app.limits, self.halt());
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
    async fn perform(&mut self, state: &RunState, step: NextStep) -> Result<Option<Vec<Event>>, Obstacle> {
        let facts = match step {
            NextStep::Load => self.load(state).await?,
            NextStep::CallModel => self.call_model(state, context::ToolOffer::Tools).await?,
            NextStep::Answer => self.call_model(state, context::ToolOffer::Words).await?,
            NextStep::RunTools(calls) => self.run_tools(state, calls).await?,
            NextStep::Wait => {
                let decisions = self.decisions(state).await?;
                return Ok((!decisions.is_empty()).then_some(decisions));
            }
            NextStep::Finish(ending) => self.finish(state, ending).await?,
        };
        Ok(Some(facts))
    }

    /// Events that others have added to the log: decisions on proposals, and results from the client.
    async fn decisions(&self, state: &RunState) -> Result<Vec<Event>, Obstacle> {
        let events = obstacle::read_facts(&self.world.store.facts(self.id).await?)?;
        Ok(events.into_iter().filter(|event| state.waits_for(event)).collect())
    }

    /// Commits facts and gives back those that count.
    async fn record(&self, events: Vec<Event>) -> Result<Vec<Event>, store::Error> {
        self.record_with(events, Vec::new(), Vec::new()).await
    }

    /// Commits facts with work for later and what a call writes.
    async fn record_with(
        &self,
        events: Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<Event>, store::Error> {
        self.record_when_possible(|| events.clone(), jobs, writes).await
    }

    /// Commits facts that depend on when they are written: a full disk, or a database that is away, is waited for.
    async fn record_when_possible(
        &self,
        facts: impl Fn() -> Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<Event>, store::Error> {
        let (events, recorded) = loop {
            let events = facts();
            match self.log.record(events.clone(), jobs.clone(), writes.clone()).await {
                // The work of a tool cannot be done again just to be written down.
                Err(error) if error.lasts() || matches!(error, store::Error::Overloaded) => {
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(store::Error::Stopped(stop)) => {
                    let _ = self.told.set(stop); // the request that stops the run tells it, too, a moment later
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
    async fn wait_for_halt(&self) -> Halt {
        tokio::select! {
            halt = self.told_to_stop() => halt,
            () = tokio::time::sleep_until(self.deadline) => Halt::TimedOut,
        }
    }

    /// Waits until the run is told to stop.
    async fn told_to_stop(&self) -> Halt {
        let mut stop = self.stop.clone();
        match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(Stop::Interrupted)) => Halt::Interrupted,
            Ok(Some(Stop::Cancelled)) => Halt::Cancelled,
            // The sender is gone, so no stop can come any more.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
