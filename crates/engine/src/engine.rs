//! The engine: what it is made of, and the runs that are under way.
//!
//! What the outside asks of it is in `requests`; this is how runs are taken up, driven, stopped and let go.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use app::{App, Apps, Problem};
use futures_util::FutureExt;
use jiff::Timestamp;
use memory::recall::Recall;
use model::{Counter, Model, Registry as Models};
use protocol::{AppId, Clock, Failure, Ids, JobId, MemoryId, RunId, RunStatus, Scope, SummaryId, ThreadId};
use store::{JobRow, JobStatus, PageOf, RunRow, Stop, Store};
use tokio::sync::{Notify, OnceCell, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::{Catalog, Vault};

use crate::apps::Shelf;
use crate::bus::Bus;
use crate::context::Fence;
use crate::documents::Extractor;
use crate::gate::{CallGate, CallPlace, CallShares};
use crate::keys::Ring;
use crate::missing::MissingApps;
use crate::run::{self, Limits, Obstacle, Run, RunState};
use crate::sweep::Sweeps;
use crate::vault::SealedVault;
use crate::{Error, jobs};

/// Uploads that are read at once.
const MAX_EXTRACTIONS: usize = 2;

/// What an engine is made of. `cli` puts it together.
pub struct Parts {
    pub store: Store,
    /// The one the store publishes to.
    pub bus: Arc<Bus>,
    pub apps: Apps,
    pub tools: Catalog,
    /// Seals the credentials of users.
    pub vault_key: [u8; 32],
    pub models: Models,
    /// Over the same store.
    pub recall: Arc<Recall>,
    /// Reads uploads.
    pub extractor: Arc<dyn Extractor>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    /// How long the deltas of a run are kept after its end: so long it resumes exactly.
    pub retention: Duration,
    /// Model calls at once. More wait their turn, as when a start takes up thousands of runs.
    pub model_calls: CallShares,
    /// Bytes of text that the documents of one user in one app may have.
    pub document_bytes: u64,
    /// How long what a tool deleted can be brought back.
    pub undo_retention: Duration,
}

/// A cheap handle.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) bus: Arc<Bus>,
    pub(crate) apps: Shelf,
    pub(crate) missing: MissingApps,
    pub(crate) catalog: Catalog,
    pub(crate) vault: Arc<SealedVault>,
    pub(crate) models: Models,
    pub(crate) recall: Arc<Recall>,
    pub(crate) extractor: Arc<dyn Extractor>,
    pub(crate) document_bytes: u64,
    /// Held by each upload while it is read.
    pub(crate) extracting_documents: Semaphore,
    /// What nobody outside knows; marks of data are made of it.
    secret: OnceLock<[u8; 32]>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    keys: Ring,
    pub(crate) retention: Duration,
    pub(crate) undo_retention: Duration,
    pub(crate) sweeps: Sweeps,
    tasks: TaskTracker,
    /// What goes on though whoever asked for it may be gone.
    asked: TaskTracker,
    /// Tasks that have no end.
    steady: AtomicUsize,
    /// Takes new runs, and is ready for all others.
    ready: AtomicBool,
    /// Cancelled when this process lets go of its runs.
    abandoned: CancellationToken,
    /// Gives each run a place while it asks the model.
    model_calls: Arc<CallGate>,
    /// There may be a job to do.
    job_notice: Notify,
    /// Deleted threads whose last run has not ended; who follows them sees its end first. Locked for a look-up.
    closing: Mutex<HashSet<ThreadId>>,
    /// How to stop each run of this process. Locked for a look-up, never over an await.
    running: Mutex<HashMap<RunId, watch::Sender<Option<Stop>>>>,
}

impl Engine {
    /// Fails if an app names a tool that does not exist, or a model that it may not use.
    pub fn new(parts: Parts) -> Result<Self, Problem> {
        let apps = Shelf::new(parts.apps, (&parts.tools, &parts.models))?;
        let vault = SealedVault::new(parts.store.clone(), &parts.vault_key);
        let model_calls = CallGate::new(parts.model_calls, parts.models.provider_count());
        let shared = Shared {
            catalog: parts.tools,
            vault: Arc::new(vault),
            store: parts.store,
            bus: parts.bus,
            apps,
            missing: MissingApps::default(),
            models: parts.models,
            recall: parts.recall,
            extractor: parts.extractor,
            document_bytes: parts.document_bytes,
            extracting_documents: Semaphore::new(MAX_EXTRACTIONS),
            secret: OnceLock::new(),
            clock: parts.clock,
            ids: parts.ids,
            keys: Ring::default(),
            retention: parts.retention,
            undo_retention: parts.undo_retention,
            sweeps: Sweeps::default(),
            tasks: TaskTracker::new(),
            asked: TaskTracker::new(),
            steady: AtomicUsize::new(0),
            ready: AtomicBool::new(false),
            abandoned: CancellationToken::new(),
            model_calls: Arc::new(model_calls),
            job_notice: Notify::new(),
            closing: Mutex::default(),
            running: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Takes over every run that an earlier process left unfinished, then becomes ready.
    pub async fn start(&self) -> Result<(), Error> {
        self.load_keys().await?;
        let secret = self.store().secret().await?;
        let _ = self.shared.secret.set(secret); // the same each time
        self.read_pinned_tools().await?;
        self.read_missing_apps().await?;
        let unfinished = self.store().adopt().await?;
        if !unfinished.is_empty() {
            tracing::info!(runs = unfinished.len(), "taking up unfinished runs");
        }
        for row in unfinished {
            if !self.run_waits_for_app(&row).await && self.stoppable(row.id) {
                self.spawn(row);
            }
        }
        // Reading the table takes a moment, which the first run need not wait for.
        self.shared.tasks.spawn_blocking(|| Counter::default().text(" "));
        self.in_background(self.clone().finish_begun_actions());
        self.in_background(self.clone().embed_all());
        self.sweep();
        self.for_good(jobs::work(self.clone()));
        if let Some(hub) = self.shared.catalog.hub() {
            self.for_good(self.clone().look_after_servers(Arc::clone(hub)));
            self.in_background(self.clone().look_at_servers());
        }
        self.shared.ready.store(true, Ordering::Release);
        Ok(())
    }

    /// Not before it has taken up what was left, not once it retires, and not when nothing can be written any more.
    pub fn is_ready(&self) -> bool {
        self.shared.ready.load(Ordering::Acquire) && self.can_write()
    }

    /// False once the disk or the writer has failed. Only another start helps.
    pub fn can_write(&self) -> bool {
        self.store().is_open()
    }

    /// Returns when nothing more can be written.
    pub async fn writing_ended(&self) {
        self.store().writing_ended().await;
    }

    /// Takes no new runs from here on. Those under way go on.
    pub fn retire(&self) {
        self.shared.ready.store(false, Ordering::Release);
    }

    /// Waits until the runs of this process and what else was asked of it have ended, at most so long, then lets go of
    /// the rest: the next start takes it up. Gives back how many runs were left.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.retire();
        let ended = async {
            let mut changed = tokio::time::interval(DRAIN_LOOK);
            while !self.running().is_empty() || !self.shared.asked.is_empty() {
                changed.tick().await;
            }
        };
        let _ = tokio::time::timeout(patience, ended).await;
        let (left, asked) = (self.running().len(), self.shared.asked.len());
        if asked > 0 {
            tracing::warn!(
                requests = asked,
                "letting go of what was confirmed or taken back and is not done; the next start ends it, as done or as unknown"
            );
        }
        let swept = async {
            let mut changed = tokio::time::interval(DRAIN_LOOK);
            while !self.shared.sweeps.is_idle() {
                changed.tick().await;
            }
        };
        let _the_next_start_sweeps = tokio::time::timeout(patience.min(LAST_SWEEP), swept).await;
        self.abandon().await;
        left
    }

    /// Drops all that this process does where it stands, as a crash would; the next start takes it up.
    pub async fn abandon(&self) {
        self.shared.abandoned.cancel();
        for tasks in [&self.shared.asked, &self.shared.tasks] {
            tasks.close();
            tasks.wait().await;
        }
        if let Some(hub) = self.shared.catalog.hub() {
            hub.close().await;
        }
    }

    /// Waits until no run of this process is under way and no job is due. For tests.
    pub async fn idle(&self) {
        let mut look = tokio::time::interval(DRAIN_LOOK);
        loop {
            look.tick().await;
            let steady = self.shared.steady.load(Ordering::Acquire);
            let asked = !self.shared.asked.is_empty();
            let working = !self.running().is_empty() || asked || self.shared.tasks.len() > steady;
            // A job that was just claimed is neither due nor yet a task.
            let newest = self.store().jobs(PageOf { after: None, limit: 100 }).await;
            let jobs = newest.map(|page| page.rows).unwrap_or_default();
            let now = self.now();
            let pending = |job: &JobRow| {
                job.status == JobStatus::Running || job.status == JobStatus::Ready && job.run_at <= now
            };
            if !working && !jobs.iter().any(pending) {
                return;
            }
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn vault(&self) -> Arc<dyn Vault> {
        Arc::clone(&self.shared.vault) as Arc<dyn Vault>
    }

    pub(crate) fn recall(&self) -> &Arc<Recall> {
        &self.shared.recall
    }

    /// Marks what is data in the prompts of a thread.
    pub(crate) fn fence(&self, thread: ThreadId) -> Fence {
        Fence::of(self.shared.secret.get().unwrap_or(&[0; 32]), thread)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    pub(crate) fn fresh_job(&self) -> JobId {
        self.shared.ids.job()
    }

    pub(crate) fn fresh_memory(&self) -> MemoryId {
        self.shared.ids.memory()
    }

    pub(crate) fn fresh_summary(&self) -> SummaryId {
        self.shared.ids.summary()
    }

    pub(crate) fn fresh_id(&self) -> uuid::Uuid {
        self.shared.ids.fresh()
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.shared.keys
    }

    /// Works until it is done, or until this process lets go of what it does.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.shared.abandoned.clone();
        self.shared.tasks.spawn(async move { abandoned.run_until_cancelled(work).await });
    }

    /// The same for work that has no end.
    fn for_good(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.steady.fetch_add(1, Ordering::AcqRel);
        self.in_background(work);
    }

    /// Waits for a store that fails. False when this process lets go of what it does.
    pub(crate) async fn pause(&self) -> bool {
        self.shared.abandoned.run_until_cancelled(tokio::time::sleep(STORE_PAUSE)).await.is_some()
    }

    /// A place to ask a model for work in the background, shared with everybody else who asks.
    pub(crate) async fn model_place(&self, scope: &Scope, model: &Model) -> CallPlace {
        self.shared.model_calls.place(&scope.user, &model.listing.provider).await
    }

    /// Wakes whoever looks for background work.
    pub(crate) fn notice_jobs(&self) {
        self.shared.job_notice.notify_waiters();
    }

    pub(crate) fn job_notice(&self) -> tokio::sync::futures::Notified<'_> {
        self.shared.job_notice.notified()
    }

    pub(crate) fn has_app(&self, app: &str) -> bool {
        self.shared.apps.get(&AppId::new(app)).is_some()
    }

    pub(crate) fn app(&self, app: &AppId) -> Option<Arc<App>> {
        self.shared.apps.get(app).map(|serving| Arc::clone(&serving.app))
    }

    /// The models of an app: the one wanted, its own or the default one, then those for when it fails.
    pub(crate) fn models_for(&self, app: &App, wanted: Option<&str>) -> Vec<Arc<Model>> {
        let models = &self.shared.models;
        let first = models.name(wanted.or(app.model.as_deref()));
        let mut chain: Vec<Arc<Model>> = Vec::new();
        for name in first.iter().chain(&app.fallbacks) {
            let Some(model) = models.find(name) else {
                tracing::warn!(app = %app.id, model = name, "no provider serves this model; it is left out");
                continue;
            };
            if !chain.iter().any(|other| other.name() == model.name()) {
                chain.push(model);
            }
        }
        chain
    }

    /// Finishes what has begun even if whoever asked for it goes away: a committed run must be driven. Only when this
    /// process lets go of all it does, it is dropped where it stands.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let abandoned = self.shared.abandoned.clone();
        let task = self.shared.asked.spawn(async move { abandoned.run_until_cancelled(work).await });
        match task.await {
            Ok(Some(done)) => done,
            Ok(None) => Err(Error::Unavailable {
                message:
                    "the server is stopping, and it is not known whether this was done; look once it is back"
                        .into(),
                retry_after: 2,
            }),
            Err(_) => Err(Error::Internal),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Option<Stop>>>> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the run can be told to stop. False if it is under way already.
    fn stoppable(&self, run: RunId) -> bool {
        let mut running = self.running();
        let new = !running.contains_key(&run);
        running.entry(run).or_default();
        new
    }

    /// Tells a run of this process to stop. A cancel outweighs an interruption.
    pub(crate) fn stop(&self, run: RunId, stop: Stop) {
        if let Some(told) = self.running().get(&run) {
            told.send_if_modified(|already| *already < Some(stop) && already.replace(stop) != Some(stop));
        }
    }

    fn closing(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread was deleted: once its run has ended, nobody follows it any more.
    pub(crate) fn close_when_ended(&self, thread: ThreadId) {
        self.closing().insert(thread);
    }

    /// Ends everybody who follows the thread, if it was deleted and has no run any more.
    pub(crate) fn close_if_deleted(&self, thread: ThreadId) {
        if self.closing().remove(&thread) {
            self.shared.bus.close(thread);
        }
    }

    /// Drives whatever run is under way in the thread, if nobody does yet.
    pub(crate) async fn take_up(&self, thread: ThreadId) -> Result<(), store::Error> {
        let Some(row) = self.store().active_run(thread).await? else { return Ok(()) };
        if row.status == RunStatus::Waiting && row.stop.is_none() {
            return Ok(()); // for the user's word; nothing is held meanwhile
        }
        if self.run_waits_for_app(&row).await {
            return Ok(());
        }
        if self.stoppable(row.id) {
            // Read again: what was told to stop before it could be told here is seen now.
            let newest = self.store().active_run(thread).await;
            if let Ok(Some(newest)) = &newest
                && newest.id == row.id
            {
                self.spawn(newest.clone());
                return Ok(());
            }
            // It ended between the two looks, and who drove it has gone on with the thread.
            self.running().remove(&row.id);
            newest?;
        }
        Ok(())
    }

    /// Drives a run in the background, from wherever its log has got to, and then the next of its thread.
    fn spawn(&self, row: RunRow) {
        let engine = self.clone();
        self.shared.tasks.spawn(async move {
            let (id, thread, scope) = (row.id, row.thread, row.scope.clone());
            if let Some(stop) = row.stop {
                engine.stop(id, stop);
            }
            let abandoned = &engine.shared.abandoned;
            let driving = Box::pin(engine.persevere(&row));
            let Some(driven) = abandoned.run_until_cancelled(driving).await else { return };
            engine.running().remove(&id);
            match driven {
                Ok(()) => {
                    engine.go_on(thread).await;
                    engine.embed_soon(&scope).await;
                }
                Err(error) => {
                    tracing::error!(%thread, run = %id, %error, "a run stopped; the next start takes it up");
                }
            }
        });
    }

    /// After a run has ended: the next one of its thread (or, when this process is retiring, left for the next start), the
    /// jobs it caused, and the thread's rows if it was deleted meanwhile.
    async fn go_on(&self, thread: ThreadId) {
        self.notice_jobs();
        self.close_if_deleted(thread);
        if self.is_ready()
            && let Err(error) = self.take_up(thread).await
        {
            tracing::error!(%thread, %error, "the next run of a thread was not taken up; the next start does it");
        }
        self.sweep_if_deleted(thread).await;
    }

    /// Drives a run to its end. When the store fails for a while, such as on a full disk, the run goes on from its log
    /// as after a crash, once the store takes what is written again. What does not pass ends the run, and its user is
    /// told.
    async fn persevere(&self, row: &RunRow) -> Result<(), store::Error> {
        let mut failures = 0;
        loop {
            let driven = AssertUnwindSafe(self.drive(row)).catch_unwind().await;
            match driven.unwrap_or(Err(Obstacle::Panicked)) {
                Ok(()) => return Ok(()),
                Err(Obstacle::Store(error)) if error.is_lost() => return Err(error),
                Err(Obstacle::Store(error)) if error.may_pass() && failures < MAX_STORE_FAILURES => {
                    failures += u32::from(!matches!(error, store::Error::Full));
                    tracing::warn!(thread = %row.thread, run = %row.id, %error, "a run waits for the store");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(obstacle) if self.store().is_deleted(row.thread).await.unwrap_or(false) => {
                    tracing::info!(thread = %row.thread, run = %row.id, %obstacle, "a run ends with its thread");
                    return self.force_end(row, obstacle.failure()).await;
                }
                Err(obstacle) => {
                    tracing::error!(thread = %row.thread, run = %row.id, %obstacle, "a run cannot go on and is ended");
                    return self.force_end(row, obstacle.failure()).await;
                }
            }
        }
    }

    async fn drive(&self, row: &RunRow) -> Result<(), Obstacle> {
        let events = run::read_facts(&self.store().facts(row.id).await?)?;
        let state = RunState::replay(&events);
        if state.end.is_some() {
            return Ok(());
        }
        let Ok(mut run) = self.driver(row) else {
            if self.run_waits_for_app(row).await {
                return Ok(()); // it went between two looks
            }
            let gone = run::failure("app_gone", "the app of this run has been missing for a day");
            return Ok(self.force_end(row, gone).await?);
        };
        run.drive(state).await.map(drop)
    }

    /// Ends a run that cannot be driven, from its rows alone. A full disk is waited for.
    async fn force_end(&self, row: &RunRow, failure: Failure) -> Result<(), store::Error> {
        let end = run::forced(failure, &*self.shared.ids);
        loop {
            match self.store().force_end(row, end.clone()).await {
                Err(store::Error::Full | store::Error::Overloaded) => tokio::time::sleep(STORE_PAUSE).await,
                ended => return ended,
            }
        }
    }

    /// A run and what it needs to go on; an error if its app is gone.
    pub(crate) fn driver(&self, row: &RunRow) -> Result<Run, Error> {
        let shared = &self.shared;
        let serving = shared.apps.get(&row.scope.app).ok_or(Error::NotFound { what: "app" })?;
        let stop = self.running().get(&row.id).map(watch::Sender::subscribe);
        let limits = &serving.app.limits;
        Ok(Run {
            id: row.id,
            thread: row.thread,
            app: Arc::clone(&serving.app),
            tools: serving.tools(),
            vault: self.vault(),
            scope: row.scope.clone(),
            models: self.models_for(&serving.app, row.model.as_deref()),
            store: shared.store.clone(),
            recall: Arc::clone(&shared.recall),
            fence: self.fence(row.thread),
            counter: Counter::default(),
            log: shared.store.log(row),
            clock: Arc::clone(&shared.clock),
            ids: Arc::clone(&shared.ids),
            started: row.created_at,
            limits: Limits {
                steps: limits.max_steps as usize,
                at_limit: limits.at_limit,
                limit_reply: limits.limit_reply.clone(),
                failure_reply: limits.failure_reply.clone(),
            },
            stop: stop.unwrap_or_else(|| watch::channel(None).1),
            told: OnceLock::new(),
            model_calls: Arc::clone(&shared.model_calls),
            deadline: Instant::now() + limits.run_timeout,
            context: None,
            zone: OnceCell::new(),
        })
    }
}

/// How long whoever could not write waits before trying again.
pub(crate) const STORE_PAUSE: Duration = Duration::from_millis(500);

/// Times work goes on after the store failed it; beyond, it is left for the next start. A full disk does not count.
pub(crate) const MAX_STORE_FAILURES: u32 = 5;

/// How long a server that stops waits for what was deleted to be gone.
const LAST_SWEEP: Duration = Duration::from_secs(5);

/// How often a wait for runs looks at them.
const DRAIN_LOOK: Duration = Duration::from_millis(10);
