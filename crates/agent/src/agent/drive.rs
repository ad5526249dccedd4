//! Runs under way: how each is taken up, driven to its end, told to stop, and followed by the next of its thread.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, MutexGuard, PoisonError};

use futures_util::FutureExt;
use protocol::{Failure, RunId, RunStatus, Stored, ThreadId};
use store::{BegunRun, RunRow, Stop};
use tokio::sync::watch;

use super::Agent;
use crate::app_revisions::app_of_run;
use crate::decide::failure;
use crate::jobs::embed_soon;
use crate::run::{self, Obstacle, Run};
use crate::state::RunState;
use crate::tasks::{MAX_STORE_FAILURES, STORE_PAUSE};

impl Agent {
    pub(super) fn running_runs(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Option<Stop>>>> {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the run can be told to stop. False if it is under way already.
    pub(super) fn register_run(&self, run: RunId) -> bool {
        let mut running = self.running_runs();
        let new = !running.contains_key(&run);
        running.entry(run).or_default();
        new
    }

    /// Tells a run of this process to stop. A cancel outweighs an interruption.
    pub(crate) fn stop(&self, run: RunId, stop: Stop) {
        if let Some(told) = self.running_runs().get(&run) {
            told.send_if_modified(|already| *already < Some(stop) && already.replace(stop) != Some(stop));
        }
    }

    pub(super) fn closing_threads(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        self.inner.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a deleted thread. Its followers are ended once its run has ended.
    pub(crate) fn close_when_ended(&self, thread: ThreadId) {
        self.closing_threads().insert(thread);
    }

    /// Ends the followers of a deleted thread, which has no run any more.
    pub(crate) fn close_if_deleted(&self, thread: ThreadId) {
        if self.closing_threads().remove(&thread) {
            self.world.bus.close(thread);
        }
    }

    /// Drives the active run of the thread, unless a task of this process drives it already. If the database is away,
    /// this happens as soon as it is back, because a committed run must not need another request.
    pub(crate) async fn take_up(&self, thread: ThreadId) -> Result<(), store::Error> {
        match self.take_up_now(thread).await {
            Err(error) if error.is_away() => {
                self.take_up_later(thread);
                Ok(())
            }
            taken => taken,
        }
    }

    fn take_up_later(&self, thread: ThreadId) {
        let agent = self.clone();
        self.world.tasks.spawn(async move {
            while agent.world.is_ready() {
                tokio::time::sleep(STORE_PAUSE).await;
                match agent.take_up_now(thread).await {
                    Err(error) if error.is_away() => {}
                    Err(error) => {
                        tracing::error!(%thread, %error, "a run was not taken up; the next start of the server resumes it");
                        return;
                    }
                    Ok(()) => return,
                }
            }
        });
    }

    async fn take_up_now(&self, thread: ThreadId) -> Result<(), store::Error> {
        let Some(row) = self.world.store.active_run(thread).await? else { return Ok(()) };
        if row.owner != self.world.store.node() {
            return Ok(()); // the commit that changed it has told its node
        }
        if row.status == RunStatus::Waiting && row.stop.is_none() {
            return Ok(()); // waits for an approval or a result; no task runs meanwhile
        }
        if self.run_waits_unseen(&row).await {
            return Ok(());
        }
        if self.register_run(row.id) {
            // Read again: a stop that was stored before the run was registered here is seen now.
            let newest = self.world.store.active_run(thread).await;
            if let Ok(Some(newest)) = &newest
                && newest.id == row.id
            {
                self.spawn(newest.clone(), None);
                return Ok(());
            }
            // It ended between the two looks, and the task that drove it has started the next run of the thread.
            self.running_runs().remove(&row.id);
            newest?;
        }
        Ok(())
    }

    /// Drives a run that was just begun, and that is registered already.
    pub(super) async fn take_up_begun(&self, begun: BegunRun) -> Result<(), store::Error> {
        let BegunRun { row, facts, .. } = begun;
        if !self.run_waits_unseen(&row).await {
            self.spawn(row, Some(facts));
            return Ok(());
        }
        self.running_runs().remove(&row.id);
        // An app that came back meanwhile found its run taken.
        if self.world.app(&row.scope.app).is_some() { self.take_up(row.thread).await } else { Ok(()) }
    }

    /// Drives a run in the background from the end of its log, and then the next run of its thread. `facts` is its log,
    /// if that is known.
    pub(super) fn spawn(&self, row: RunRow, facts: Option<Vec<Arc<Stored>>>) {
        let agent = self.clone();
        self.world.tasks.spawn_tracked(async move {
            let (id, thread, scope) = (row.id, row.thread, row.scope.clone());
            if let Some(stop) = row.stop {
                agent.stop(id, stop);
            }
            let driving = Box::pin(agent.drive_with_retries(&row, facts));
            let Some(driven) = agent.world.tasks.unless_abandoned(driving).await else { return };
            agent.running_runs().remove(&id);
            match driven {
                Ok(()) => {
                    agent.start_next_run_or_purge(thread).await;
                    embed_soon(&agent.world, &scope).await;
                }
                Err(store::Error::Fenced) if agent.world.store.node().is_some() => {
                    tracing::info!(%thread, run = %id, "a run continues on another node");
                    agent.start_next_run_or_purge(thread).await;
                }
                Err(error) => {
                    tracing::error!(%thread, run = %id, %error, "a run stopped before its end; the next start of the server resumes it");
                }
            }
        });
    }

    /// Starts the next queued run of a thread after one has ended. A server that stops leaves it to the next start. If
    /// the thread was deleted meanwhile, its rows are purged.
    async fn start_next_run_or_purge(&self, thread: ThreadId) {
        self.close_if_deleted(thread);
        if self.world.is_ready()
            && let Err(error) = self.take_up(thread).await
        {
            tracing::error!(%thread, %error, "the next queued run of a thread was not started; the next start of the server starts it");
        }
        self.world.sweeper.sweep_if_deleted(thread).await;
    }

    /// Drives a run to its end. When the store fails for a while, such as on a full disk, the run goes on from its log
    /// as after a crash, once the store takes what is written again. A failure that does not pass ends the run, and
    /// its user is told.
    async fn drive_with_retries(
        &self,
        row: &RunRow,
        mut facts: Option<Vec<Arc<Stored>>>,
    ) -> Result<(), store::Error> {
        let mut failures = 0;
        loop {
            let driven = AssertUnwindSafe(self.drive(row, facts.take())).catch_unwind().await;
            match driven.unwrap_or(Err(Obstacle::Panicked)) {
                Ok(()) => return Ok(()),
                Err(Obstacle::Store(error)) if error.is_lost() => return Err(error),
                Err(Obstacle::Store(error)) if error.may_pass() && failures < MAX_STORE_FAILURES => {
                    // A full disk and a database that is away may last for long.
                    failures += u32::from(!error.lasts());
                    tracing::warn!(thread = %row.thread, run = %row.id, %error, "a run waits until the store can write again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(obstacle) if self.world.store.is_deleted(row.thread).await.unwrap_or(false) => {
                    tracing::info!(thread = %row.thread, run = %row.id, %obstacle, "a run ends because its thread was deleted");
                    return self.force_end(row, obstacle.failure()).await;
                }
                Err(obstacle) => {
                    tracing::error!(thread = %row.thread, run = %row.id, %obstacle, "a run cannot continue and ends as failed");
                    return self.force_end(row, obstacle.failure()).await;
                }
            }
        }
    }

    async fn drive(&self, row: &RunRow, facts: Option<Vec<Arc<Stored>>>) -> Result<(), Obstacle> {
        let events = match facts {
            Some(facts) => run::read_stored(&facts)?,
            None => run::read_facts(&self.world.store.facts(row.id).await?)?,
        };
        let state = RunState::replay(&events);
        if state.end.is_some() {
            return Ok(());
        }
        let Some(serving) = app_of_run(&self.world, row, &state).await? else {
            if self.run_waits_for_app(row).await {
                return Ok(()); // the app went missing between two looks
            }
            let gone = failure(
                "app_gone",
                "the app of this run was missing for a day, so the run was ended; ask again when the app is \
                 back",
            );
            return Ok(self.force_end(row, gone).await?);
        };
        let stop = self.running_runs().get(&row.id).map(watch::Sender::subscribe);
        let mut run = Run::new((&self.world, &serving), row, &state, stop);
        run.drive(state).await.map(drop)
    }

    /// Ends a run that cannot be driven, from its rows alone. A full disk is waited for.
    async fn force_end(&self, row: &RunRow, failure: Failure) -> Result<(), store::Error> {
        let end = run::forced_end(failure, &*self.world.ids);
        loop {
            match self.world.store.force_end(row, end.clone()).await {
                Err(error) if error.lasts() || matches!(error, store::Error::Overloaded) => {
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                ended => return ended,
            }
        }
    }
}
