//! The engine: what the outside can ask of it, and the runs that are under way.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use app::{App, Apps, Problem};
use jiff::Timestamp;
use protocol::{
    AppId, AppView, Clock, Event, Ids, Message, NewRun, NewThread, Page, Principal, RunId, RunResult,
    RunView, Seq, ThreadChange, ThreadId, ThreadView,
};
use store::{PageOf, RunRow, Store, Submission, Target, Window};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::{Catalog, Registry};

use crate::bus::Bus;
use crate::models::Models;
use crate::request::{self, PageQuery};
use crate::run::{Limits, Run, RunState};
use crate::{Error, Follower, views};

/// What an engine is made of. `cli` puts it together.
pub struct Parts {
    pub store: Arc<dyn Store>,
    /// The one the store publishes to.
    pub bus: Arc<Bus>,
    pub apps: Apps,
    pub tools: Catalog,
    pub models: Models,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

/// A cheap handle.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    bus: Arc<Bus>,
    apps: BTreeMap<AppId, Serving>,
    models: Models,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    tasks: TaskTracker,
    ready: AtomicBool,
    /// Cancelled when this process lets go of its runs.
    abandoned: CancellationToken,
    /// How to stop each run of this process. Locked for a look-up, never over an await.
    running: Mutex<HashMap<RunId, CancellationToken>>,
}

/// An app with its tools.
struct Serving {
    app: Arc<App>,
    tools: Arc<Registry>,
}

/// What driving a run takes.
struct Begun {
    id: RunId,
    thread: ThreadId,
    app: AppId,
    model: Option<String>,
    at: Timestamp,
}

impl From<RunRow> for Begun {
    fn from(row: RunRow) -> Self {
        let RunRow { id, thread, scope, model, created_at, .. } = row;
        Self { id, thread, app: scope.app, model, at: created_at }
    }
}

/// A run that has been accepted and is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub run: RunId,
    pub thread: ThreadId,
}

impl Engine {
    /// Fails if an app names a tool that does not exist.
    pub fn new(parts: Parts) -> Result<Self, Problem> {
        let serve = |(id, app): (AppId, Arc<App>)| {
            let tools = Arc::new(parts.tools.registry(&app)?);
            Ok((id, Serving { app, tools }))
        };
        let apps = parts.apps.into_iter().map(serve).collect::<Result<_, Problem>>()?;
        let shared = Shared {
            store: parts.store,
            bus: parts.bus,
            apps,
            models: parts.models,
            clock: parts.clock,
            ids: parts.ids,
            tasks: TaskTracker::new(),
            ready: AtomicBool::new(false),
            abandoned: CancellationToken::new(),
            running: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Takes up every run that an earlier process left unfinished, then becomes ready.
    pub async fn start(&self) -> Result<(), Error> {
        let unfinished = self.shared.store.unfinished().await?;
        if !unfinished.is_empty() {
            tracing::info!(runs = unfinished.len(), "taking up unfinished runs");
        }
        for row in unfinished {
            let cancel = self.stoppable(row.id);
            if row.cancel_requested {
                cancel.cancel();
            }
            self.spawn(row.into(), cancel);
        }
        self.sweep();
        self.shared.ready.store(true, Ordering::Release);
        Ok(())
    }

    pub fn is_ready(&self) -> bool {
        self.shared.ready.load(Ordering::Acquire)
    }

    pub fn apps(&self) -> Vec<AppView> {
        let view = |serving: &Serving| AppView {
            id: serving.app.id.to_string(),
            name: serving.app.name.clone(),
            description: serving.app.description.clone(),
            model: self.shared.models.name(serving.app.model.as_deref()),
            tools: serving.app.tools.iter().map(|tool| tool.name.clone()).collect(),
        };
        self.shared.apps.values().map(view).collect()
    }

    /// Stores the message and starts a run that answers it. Once this returns, both are durable.
    pub async fn submit(&self, principal: &Principal, app: &str, new: NewRun) -> Result<Submitted, Error> {
        let serving = self.serving(app)?;
        let ids = &self.shared.ids;
        let ask = request::ask(&new, || ids.message())?;
        request::options(&new)?;
        let wanted = new.model.as_deref().or(serving.app.model.as_deref());
        let submission = Submission {
            scope: principal.scope(serving.app.id.clone()),
            thread: new.thread_id.map_or_else(|| Target::New(ids.thread()), Target::Existing),
            run: ids.run(),
            ask,
            model: self.shared.models.name(wanted),
            settings: new.settings.or(&serving.app.settings),
            system_prompt: new.system_prompt,
            app_revision: serving.app.revision.clone(),
        };
        let (engine, run, at) = (self.clone(), submission.run, self.shared.clock.now());
        let (app, model) = (submission.scope.app.clone(), submission.model.clone());
        self.to_the_end(async move {
            // Whoever sees its first event may stop it, which can be before `submit` returns.
            let cancel = engine.stoppable(run);
            let submitted = engine.shared.store.submit(submission).await;
            let thread = submitted.inspect_err(|_| drop(engine.running().remove(&run)))?.thread;
            engine.spawn(Begun { id: run, thread, app, model, at }, cancel);
            Ok(Submitted { run, thread })
        })
        .await
    }

    pub async fn run(&self, principal: &Principal, run: RunId) -> Result<RunView, Error> {
        Ok(views::run(self.shared.store.run(principal, run).await?))
    }

    /// Waits until the run has ended.
    pub async fn result(&self, principal: &Principal, run: RunId) -> Result<RunResult, Error> {
        let row = self.shared.store.run(principal, run).await?;
        if row.end_seq.is_none() {
            let mut follower = self.follower((row.thread, Some(run)), row.start_seq);
            while follower.next().await?.is_some() {}
        }
        let row = self.shared.store.run(principal, run).await?;
        Ok(views::outcome(row, &self.shared.store.facts(run).await?))
    }

    /// Durable once it returns; the run ends soon after. A run that has ended stays as it is.
    pub async fn cancel(&self, principal: &Principal, run: RunId) -> Result<RunView, Error> {
        let (engine, principal) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            let row = engine.shared.store.cancel(&principal, run).await?;
            engine.stop(run);
            Ok(views::run(row))
        })
        .await
    }

    pub async fn create_thread(
        &self,
        principal: &Principal,
        app: &str,
        new: NewThread,
    ) -> Result<ThreadView, Error> {
        let scope = principal.scope(self.serving(app)?.app.id.clone());
        let title = new.title.as_deref().map(request::title).transpose()?;
        Ok(views::thread(self.shared.store.create_thread(&scope, self.shared.ids.thread(), title).await?))
    }

    pub async fn threads(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<ThreadView>, Error> {
        let scope = principal.scope(self.serving(app)?.app.id.clone());
        let (after, limit) = (page.threads()?, page.limit()?);
        let mut rows = self.shared.store.threads(&scope, PageOf { after, limit: limit + 1 }).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().map(|row| request::thread_cursor(row.updated_at, row.id));
        Ok(Page { data: rows.into_iter().map(views::thread).collect(), next: last.filter(|_| more) })
    }

    pub async fn thread(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadView, Error> {
        Ok(views::thread(self.shared.store.thread(principal, thread).await?))
    }

    pub async fn change_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        change: ThreadChange,
    ) -> Result<ThreadView, Error> {
        let title = request::title(&change.title)?;
        Ok(views::thread(self.shared.store.rename_thread(principal, thread, title).await?))
    }

    /// Hides the thread at once and cancels its run; its rows go in the background.
    pub async fn delete_thread(&self, principal: &Principal, thread: ThreadId) -> Result<(), Error> {
        let (engine, principal) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            match engine.shared.store.delete_thread(&principal, thread).await? {
                Some(run) => engine.stop(run), // it sweeps when it has ended
                None => engine.sweep(),
            }
            engine.shared.bus.close(thread);
            Ok(())
        })
        .await
    }

    /// The path from the thread's head, oldest first.
    pub async fn messages(
        &self,
        principal: &Principal,
        thread: ThreadId,
        page: PageQuery,
    ) -> Result<Page<Message>, Error> {
        let (after, limit) = (page.messages()?.unwrap_or(0), page.limit()?);
        let row = self.shared.store.thread(principal, thread).await?;
        let Some(head) = row.head else { return Ok(Page { data: Vec::new(), next: None }) };
        let mut rows = self.shared.store.path(thread, head, Window::After(after, limit + 1)).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().map(|row| row.seq.to_string());
        Ok(Page { data: rows.iter().filter_map(views::message).collect(), next: last.filter(|_| more) })
    }

    /// The run's events after `after`, then live; none when it has ended and everything has been read.
    pub async fn follow_run(
        &self,
        principal: &Principal,
        run: RunId,
        after: Option<Seq>,
    ) -> Result<Option<Follower>, Error> {
        let row = self.shared.store.run(principal, run).await?;
        let after = after.unwrap_or(0);
        let head = self.shared.store.head(row.thread).await?;
        if after > head {
            // Read again: a run that ended before the head was read has nothing more to come.
            let row = self.shared.store.run(principal, run).await?;
            return self.snapshot(row, head).await.map(Some);
        }
        if row.end_seq.is_some_and(|end| after >= end) {
            return Ok(None);
        }
        Ok(Some(self.follower((row.thread, Some(run)), after.max(row.start_seq.saturating_sub(1)))))
    }

    /// The thread's events after `after`, then live, without end.
    pub async fn follow_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        after: Option<Seq>,
    ) -> Result<Follower, Error> {
        let row = self.shared.store.thread(principal, thread).await?;
        Ok(self.follower((thread, None), after.unwrap_or(0).min(row.last_seq)))
    }

    /// Stops taking part: nothing new is ready here. Runs go on until the process ends, and after its next start.
    pub fn retire(&self) {
        self.shared.ready.store(false, Ordering::Release);
    }

    /// Drops every run of this process where it stands, as a crash would; the next start takes them up.
    pub async fn abandon(&self) {
        self.shared.abandoned.cancel();
        self.idle().await;
    }

    /// Waits until no run and no sweep is under way in this process.
    pub async fn idle(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.tasks.reopen();
    }

    /// Finishes what has begun even if whoever asked for it goes away: a committed run must be driven.
    async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.shared.tasks.spawn(work).await.unwrap_or(Err(Error::Internal))
    }

    fn serving(&self, app: &str) -> Result<&Serving, Error> {
        self.shared.apps.get(&AppId::new(app)).ok_or(Error::NotFound { what: "app" })
    }

    fn follower(&self, of: (ThreadId, Option<RunId>), after: Seq) -> Follower {
        Follower::new(Arc::clone(&self.shared.store), self.shared.bus.subscribe(of.0), of, after)
    }

    /// For a cursor past the head of the log: where the run stands, then what follows.
    async fn snapshot(&self, row: RunRow, head: Seq) -> Result<Follower, Error> {
        let (thread, run, ended) = (row.thread, row.id, row.end_seq);
        let until = ended.unwrap_or(head);
        let mut facts = self.shared.store.facts(run).await?;
        facts.retain(|fact| fact.seq <= until); // what is newer follows
        let streamed = match views::open_since(&facts) {
            Some(since) => Some(self.streamed((thread, run), since, until).await?),
            None => None,
        };
        let snapshot = views::snapshot(row, &facts, streamed, until);
        Ok(self.follower((thread, Some(run)), head).beginning_with(snapshot, ended.is_some()))
    }

    /// The text of a run's deltas after `since`, up to and with `until`.
    async fn streamed(&self, of: (ThreadId, RunId), since: Seq, until: Seq) -> Result<String, Error> {
        let (mut text, mut seen) = (String::new(), since);
        while seen < until {
            let events = self.shared.store.events(of.0, Some(of.1), seen).await?;
            let Some(last) = events.last() else { break };
            seen = last.seq;
            for event in events.iter().filter(|event| event.seq <= until) {
                if let Ok(Event::TextDelta(piece)) = Event::read(&event.kind, &event.body) {
                    text.push_str(&piece.delta);
                }
            }
        }
        Ok(text)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the run can be stopped.
    fn stoppable(&self, run: RunId) -> CancellationToken {
        self.running().entry(run).or_default().clone()
    }

    fn stop(&self, run: RunId) {
        if let Some(token) = self.running().get(&run) {
            token.cancel();
        }
    }

    /// Drives a run in the background, from wherever its log has got to.
    fn spawn(&self, begun: Begun, cancel: CancellationToken) {
        let engine = self.clone();
        self.shared.tasks.spawn(async move {
            let (id, thread) = (begun.id, begun.thread);
            match engine.shared.abandoned.run_until_cancelled(engine.drive(begun, cancel)).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::error!(%thread, run = %id, %error, "a run stopped; the next start takes it up");
                }
                None => return,
            }
            engine.running().remove(&id);
            engine.sweep();
        });
    }

    async fn drive(&self, begun: Begun, cancel: CancellationToken) -> Result<(), store::Error> {
        let shared = &self.shared;
        let facts = shared.store.facts(begun.id).await?;
        let events: Vec<Event> =
            facts.iter().filter_map(|raw| Event::read(&raw.kind, &raw.body).ok()).collect();
        let serving = shared.apps.get(&begun.app).ok_or(store::Error::NotFound("app"))?;
        let limits = &serving.app.limits;
        let mut run = Run {
            id: begun.id,
            thread: begun.thread,
            app: Arc::clone(&serving.app),
            tools: Arc::clone(&serving.tools),
            model: begun.model.as_deref().and_then(|name| shared.models.choose(name)),
            store: Arc::clone(&shared.store),
            log: shared.store.log(begun.id, begun.thread),
            ids: Arc::clone(&shared.ids),
            started: begun.at,
            limits: Limits {
                steps: limits.max_steps as usize,
                at_limit: limits.at_limit,
                limit_reply: limits.limit_reply.clone(),
            },
            cancel,
            deadline: Instant::now() + limits.run_timeout,
            context: None,
        };
        run.drive(RunState::replay(&events)).await.map(drop)
    }

    /// Purges deleted threads in the background, a little at a time.
    fn sweep(&self) {
        let engine = self.clone();
        self.shared.tasks.spawn(async move {
            loop {
                match engine.shared.store.purge(engine.shared.clock.now()).await {
                    Ok(true) => {}
                    Ok(false) | Err(store::Error::Closed) => return,
                    Err(error) => return tracing::warn!(%error, "purging deleted threads failed; it will be tried again"),
                }
            }
        });
    }
}
