//! The agent: what clients can have it do, and how it starts and stops.
//!
//! `drive` takes up runs and drives them, `missing_apps` keeps the work that waits for an app, `work` looks for jobs,
//! `nodes` follows other servers on the same database, and `proposals` and `undo` make the calls that no run makes.

mod drive;
mod missing_apps;
mod nodes;
mod proposals;
mod undo;
mod work;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use app::{App, Problem};
use protocol::{AppId, Principal, RunId, Seq, ThreadId, Used};
use store::{IdempotencyClaim, RunAcceptance, RunRow, Stop, Submission};
use tokio::sync::watch;
use tools::Vault;

use crate::apps::ServedApp;
use crate::jobs::embed_all;
use crate::world::{AgentParts, World};
use crate::{Error, app_revisions, mcp};

use missing_apps::MissingApps;
pub use undo::{CANNOT_UNDO, OutsideEffect, describe_undo};

/// How long a stopping server waits for the purge of deleted data.
const LAST_SWEEP: Duration = Duration::from_secs(5);

/// The pause between two looks of a server that stops at its runs and its sweeper.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// A run that has been accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedRun {
    pub run: RunId,
    pub thread: ThreadId,
    /// None if the run waits for its thread, or was accepted before.
    pub start: Option<AcceptedStart>,
}

/// Facts about a run that began with its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedStart {
    /// The number of its first event.
    pub first: Seq,
    /// Use of the user's limits, with this run.
    pub used: Used,
}

/// A person who tells a run to end.
pub enum RunCanceller {
    /// The user of the run, once under a key.
    User { principal: Principal, once: Option<IdempotencyClaim> },
    /// An admin of these apps, or of all apps. Runs of other apps do not exist for this admin.
    Admin { only_apps: Option<Vec<AppId>>, by: String },
}

/// Runs the agents of all apps. A clone is cheap.
#[derive(Clone)]
pub struct Agent {
    world: Arc<World>,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    missing: MissingApps,
    /// Deleted threads whose last run has not ended. Their followers see its end first. Locked for a look-up.
    closing: Mutex<HashSet<ThreadId>>,
    /// How to stop each run of this process. Locked for a look-up, never over an await.
    running: Mutex<HashMap<RunId, watch::Sender<Option<Stop>>>>,
}

impl Agent {
    /// Fails if an app names a tool that does not exist, or a model that it may not use.
    pub fn new(parts: AgentParts, vault: Arc<dyn Vault>) -> Result<Self, Problem> {
        let world = Arc::new(World::new(parts, vault)?);
        // Also for a command without a server, which takes up no work: the next server sends the messages.
        world.watch_webhooks();
        Ok(Self { world, inner: Arc::default() })
    }

    /// The handles that the agent works with.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Takes over every run that an earlier process left unfinished, then becomes ready.
    pub async fn start(&self) -> Result<(), Error> {
        let world = &self.world;
        world.read_secret().await?;
        mcp::read_pinned_tools(world).await?;
        self.read_missing_apps().await?;
        app_revisions::remove_unpacked(world).await;
        world.tasks.spawn(app_revisions::keep_all(Arc::clone(world)));
        self.take_over().await?;
        if world.store.node().is_some() {
            world.tasks.spawn_endless(nodes::follow_nodes(self.clone()));
        }
        let embedding = Arc::clone(world);
        world.tasks.spawn(async move { embed_all(&embedding).await });
        world.sweeper.sweep();
        world.tasks.spawn_endless(work::look_for_jobs(self.clone()));
        if let Some(hub) = world.catalog.hub() {
            world.tasks.spawn_endless(mcp::refresh_changed_tools(Arc::clone(world), Arc::clone(hub)));
            world.tasks.spawn(mcp::look_at_servers(Arc::clone(world)));
        }
        world.become_ready();
        Ok(())
    }

    /// Drives the runs and ends the actions that no live process works on any more.
    async fn take_over(&self) -> Result<(), store::Error> {
        let unfinished = self.world.store.adopt().await?;
        if !unfinished.is_empty() {
            tracing::info!(runs = unfinished.len(), "resuming unfinished runs");
        }
        for row in unfinished {
            if !self.run_waits_unseen(&row).await && self.register_run(row.id) {
                self.spawn(row, None);
            }
        }
        self.world.tasks.spawn(self.clone().finish_begun_actions());
        Ok(())
    }

    /// Waits at most `patience` for the runs, approved calls and undos of this process. Stops the remaining tasks; the
    /// next start resumes their runs. Returns the number of runs that did not end.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.world.retire();
        let tasks = &self.world.tasks;
        let ended = poll_until(|| self.running_runs().is_empty() && tasks.requests_left() == 0);
        let _ = tokio::time::timeout(patience, ended).await;
        let (left, requests) = (self.running_runs().len(), tasks.requests_left());
        if requests > 0 {
            tracing::warn!(
                requests,
                "abandoning approved calls and undos that are still running; the next start completes each \
                 of them, or records its result as unknown"
            );
        }
        let swept = poll_until(|| self.world.sweeper.is_idle());
        let _the_next_start_sweeps = tokio::time::timeout(patience.min(LAST_SWEEP), swept).await;
        self.world.abandon().await;
        left
    }

    /// Stores a submission, and drives its run. Once this returns, both are durable. If `spent` is given, the budget is
    /// used up: only a repeated request (same idempotency key) is answered, and a new one fails with `spent`.
    pub async fn submit(&self, submission: Submission, spent: Option<Error>) -> Result<AcceptedRun, Error> {
        let agent = self.clone();
        self.world.tasks.finish(async move { agent.admit(submission, spent).await }).await
    }

    async fn admit(&self, submission: Submission, spent: Option<Error>) -> Result<AcceptedRun, Error> {
        // The run is registered before it is stored, because a cancel may come right after the commit.
        let run = submission.run;
        self.register_run(run);
        let stored = self.world.store.submit(submission).await;
        if !stored.as_ref().is_ok_and(|(_, begun)| begun.is_some()) {
            self.running_runs().remove(&run);
        }
        let (submitted, begun) = match (stored, spent) {
            // The request is new: no run was accepted under its key before the budget was used up.
            (Err(store::Error::NotFound(_)), Some(refusal)) => return Err(refusal),
            (stored, _) => stored?,
        };
        let start = begun
            .as_ref()
            .and_then(|begun| Some(AcceptedStart { first: begun.row.start_seq?, used: begun.used }));
        match (submitted.admitted, begun) {
            (_, Some(begun)) => self.take_up_begun(begun).await?,
            (RunAcceptance::Queued { interrupted, .. }, None) => {
                if let Some(run) = interrupted {
                    self.stop(run, Stop::Interrupted);
                }
                // The run before it may have waited without a task, or has ended meanwhile.
                self.take_up(submitted.thread).await?;
            }
            (RunAcceptance::Running, None) => self.take_up(submitted.thread).await?,
            (RunAcceptance::Replayed, None) => {}
        }
        Ok(AcceptedRun { run: submitted.run, thread: submitted.thread, start })
    }

    /// Tells a run to end. Durable once it returns; the run ends soon after. A run that has ended stays as it is.
    pub async fn cancel(&self, run: RunId, by: RunCanceller) -> Result<RunRow, Error> {
        let agent = self.clone();
        self.world
            .tasks
            .finish(async move {
                let store = &agent.world.store;
                let row = match by {
                    RunCanceller::User { principal, once } => store.cancel(&principal, run, once).await?,
                    RunCanceller::Admin { only_apps, by } => {
                        let found = store.cancel_as_admin(run, only_apps, by).await?;
                        found.ok_or(store::Error::NotFound("run"))?
                    }
                };
                agent.stop(run, Stop::Cancelled);
                agent.take_up(row.thread).await?; // a run that waits has no task
                Ok(row)
            })
            .await
    }

    /// Hides the thread at once and cancels its run; its rows go in the background.
    pub async fn delete_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        once: Option<IdempotencyClaim>,
    ) -> Result<(), Error> {
        let (agent, principal) = (self.clone(), principal.clone());
        self.world
            .tasks
            .finish(async move {
                let stopped = agent.world.store.delete_thread(&principal, thread, once).await?;
                agent.close_when_ended(thread);
                if let Some(run) = stopped {
                    agent.stop(run, Stop::Cancelled);
                    agent.take_up(thread).await?; // a run that waits has no task
                }
                if agent.world.store.active_run(thread).await?.is_none() {
                    agent.close_if_deleted(thread);
                    agent.world.sweeper.sweep();
                }
                Ok(())
            })
            .await
    }

    /// Replaces the app of this id. Nothing changes if the new one names a tool that does not exist, or a model that it
    /// may not use.
    pub async fn replace_app(&self, app: Arc<App>) -> Result<(), Problem> {
        let world = &self.world;
        let serving = ServedApp::new(app, (&world.catalog, &world.models))?;
        let id = serving.app.id.clone();
        if !serving.app.mcp.is_empty()
            && let Err(error) = mcp::offer_again(world, &serving).await
        {
            tracing::error!(app = %id, %error, "the approved tools of an app's MCP servers could not be read");
        }
        world.apps.insert(Arc::clone(&serving));
        world.tasks.spawn(app_revisions::keep(Arc::clone(world), Arc::clone(&serving.app)));
        world.watch_webhooks();
        if let Some(hub) = world.catalog.hub() {
            hub.keep_servers(&id, &serving.app.mcp);
        }
        world.tasks.spawn(mcp::look_at_servers_of(Arc::clone(world), serving));
        self.resume_app(&id);
        Ok(())
    }
}

/// Polls until the condition is true.
async fn poll_until(is_true: impl Fn() -> bool) {
    let mut look = tokio::time::interval(DRAIN_LOOK);
    while !is_true() {
        look.tick().await;
    }
}
