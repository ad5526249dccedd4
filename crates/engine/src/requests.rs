//! What the outside can ask of the engine: one function a request, each for a principal.

use std::sync::Arc;

use app::App;
use protocol::{
    AppId, AppView, Event, JobView, Message, NewRun, NewThread, Page, PersonaSettings, Principal, RunId,
    RunResult, RunStatus, RunView, Scope, Seq, ThreadChange, ThreadId, ThreadView,
};
use store::{Admitted, Once, PageOf, RunRow, Stop, Submission, Target, ThreadEdit, ThreadRow};

use crate::apps::Serving;
use crate::bus::Subscription;
use crate::follow::until_parked;
use crate::request::{self, PageQuery};
use crate::{Engine, Error, Follower, jobs, personas, run, views};

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// A run that has been accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub run: RunId,
    pub thread: ThreadId,
}

impl Engine {
    pub fn apps(&self) -> Vec<AppView> {
        let view = |serving: &Serving| AppView {
            id: serving.app.id.to_string(),
            name: serving.app.name.clone(),
            description: serving.app.description.clone(),
            model: self.shared.models.name(serving.app.model.as_deref()),
            models: self.choosable_models(&serving.app),
            tools: serving.tools().specs().iter().map(|tool| tool.name.clone()).collect(),
            problem: serving.problem(),
        };
        self.shared.apps.all().values().map(|serving| view(serving)).collect()
    }

    /// Stores the message and starts a run that answers it, or queues it. Once this returns, both are durable. Under a
    /// key that was used before, it is the run of then.
    pub async fn submit(
        &self,
        principal: &Principal,
        app: &str,
        new: NewRun,
        once: Option<Once>,
    ) -> Result<Submitted, Error> {
        self.check_ready()?;
        let serving = self.serving(principal, app)?;
        let ids = &self.shared.ids;
        let ask = request::ask(&new, || ids.message())?;
        request::options(&new, &serving.app.ranges)?;
        self.check_wanted(&serving.app, &new).await?;
        let scope = principal.scope(serving.app.id.clone());
        let (persona, speaks) = self.persona_of(principal, &scope, &serving, &new).await?;
        let wanted = new.wanted_model().or(speaks.model.as_deref()).or(serving.app.model.as_deref());
        let spent = self.spent(&serving.app, &scope).await?;
        if let (Some(refusal), None) = (&spent, &once) {
            return Err(refusal.clone());
        }
        let jobs = jobs::of_message(&serving.app, &ask, || ids.job());
        let submission = Submission {
            scope,
            thread: match (new.thread_id, new.chat) {
                (Some(thread), _) => Target::Existing(thread),
                (None, Some(chat)) => Target::Ensured(chat),
                (None, None) => Target::New(ids.thread()),
            },
            run: ids.run(),
            on_busy: new.on_busy,
            once,
            replay_only: spent.is_some(),
            limits: serving.app.user_limits,
            request: store::RunRequest {
                ask,
                model: self.shared.models.name(wanted),
                settings: new.settings.settings.or(&speaks.settings).or(&serving.app.settings),
                system_prompt: new.system_prompt,
                persona,
                documents: new.document_ids,
                app_revision: serving.app.revision.clone(),
                jobs,
            },
        };
        let engine = self.clone();
        self.to_the_end(async move { engine.admit(submission, spent).await }).await
    }

    /// Stores a submission, and drives what it starts. `spent` says why a new one would be refused.
    async fn admit(&self, submission: Submission, spent: Option<Error>) -> Result<Submitted, Error> {
        let causes_jobs = !submission.request.jobs.is_empty();
        let submitted = match (self.store().submit(submission).await, spent) {
            // It is not one that was accepted before the budget was used up.
            (Err(store::Error::NotFound(_)), Some(refusal)) => return Err(refusal),
            (submitted, _) => submitted?,
        };
        match submitted.admitted {
            Admitted::Running => self.take_up(submitted.thread).await?,
            Admitted::Queued { interrupted, resumed } => {
                if let Some(run) = interrupted {
                    self.stop(run, Stop::Interrupted);
                }
                if resumed || interrupted.is_some() {
                    self.take_up(submitted.thread).await?; // it may have waited, with nobody driving it
                }
            }
            Admitted::Replayed => {}
        }
        if causes_jobs {
            self.notice_jobs(); // they need not wait for the answer
        }
        Ok(Submitted { run: submitted.run, thread: submitted.thread })
    }

    fn check_ready(&self) -> Result<(), Error> {
        if self.is_ready() {
            return Ok(());
        }
        Err(Error::Unavailable { message: "the server is stopping; try again".into(), retry_after: 2 })
    }

    /// Who answers: the persona the request or its thread names, and what that one sets. One that cannot be used sets
    /// nothing; the run says so.
    async fn persona_of(
        &self,
        principal: &Principal,
        scope: &Scope,
        serving: &Serving,
        new: &NewRun,
    ) -> Result<(Option<String>, PersonaSettings), Error> {
        let persona = match (&new.persona_id, new.thread_id) {
            (Some(persona), _) => Some(persona.clone()),
            (None, Some(thread)) => self.thread_row(principal, thread).await?.persona,
            (None, None) => None,
        };
        let Some(id) = &persona else { return Ok((None, PersonaSettings::default())) };
        let found = personas::find(self.store(), &serving.app, scope, id).await;
        let mut speaks = found.map(|persona| persona.settings).unwrap_or_default();
        if let Some(model) = speaks.model.as_deref().filter(|_| new.wanted_model().is_none()) {
            if !self.is_served(model).await {
                tracing::warn!(persona = id, model, "no provider serves a persona's model");
                speaks.model = None;
            } else {
                // Its settings, or the app's, may have changed since the persona was made.
                self.check_model(&serving.app, "personaId", Some(model))?;
            }
        }
        Ok((persona, speaks))
    }

    /// Why no new run may begin, if the user has used up the day: it would be refused its first model call.
    async fn spent(&self, app: &App, scope: &Scope) -> Result<Option<Error>, Error> {
        if !run::has_day(&app.budget) {
            return Ok(None);
        }
        let now = self.now();
        let spent = self.store().usage_of_day(scope, store::day(now)).await?;
        let left = SECONDS_PER_DAY - now.as_second().rem_euclid(SECONDS_PER_DAY);
        let retry_after = u32::try_from(left).unwrap_or_default();
        let refusal = Error::Budget { message: run::DAY_SPENT.into(), retry_after };
        Ok(run::day_spent(&app.budget, &spent).then_some(refusal))
    }

    pub async fn run(&self, principal: &Principal, run: RunId) -> Result<RunView, Error> {
        Ok(views::run(self.run_row(principal, run).await?))
    }

    /// Waits until the run has ended, or waits itself for the user.
    pub async fn result(&self, principal: &Principal, run: RunId) -> Result<RunResult, Error> {
        let (row, subscription) = self.listen(principal, run).await?;
        if row.end_seq.is_none() {
            let start = self.beginning(principal, &row).await?;
            let mut follower = self.follower(subscription, (row.thread, Some(run)), start);
            let asked_now = || async move {
                let open = self.store().proposals_of(run).await?;
                Ok(open.into_iter().filter_map(|proposal| proposal.call).collect())
            };
            until_parked(&mut follower, asked_now).await?;
        }
        let row = self.run_row(principal, run).await?;
        let proposals = match row.status {
            RunStatus::Waiting => self.store().proposals_of(run).await?,
            RunStatus::Queued
            | RunStatus::Running
            | RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::Interrupted => Vec::new(),
        };
        let proposals = proposals.into_iter().map(views::proposal).collect();
        Ok(RunResult { proposals, ..views::answered(row, &self.store().facts(run).await?) })
    }

    /// Durable once it returns; the run ends soon after. A run that has ended stays as it is.
    pub async fn cancel(
        &self,
        principal: &Principal,
        run: RunId,
        once: Option<Once>,
    ) -> Result<RunView, Error> {
        self.run_row(principal, run).await?;
        let (engine, principal) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            let row = engine.store().cancel(&principal, run, once).await?;
            engine.stop(run, Stop::Cancelled);
            engine.take_up(row.thread).await?; // it may have waited, with nobody driving it
            Ok(views::run(row))
        })
        .await
    }

    pub async fn create_thread(
        &self,
        principal: &Principal,
        app: &str,
        new: NewThread,
        once: Option<Once>,
    ) -> Result<ThreadView, Error> {
        let scope = principal.scope(self.serving(principal, app)?.app.id.clone());
        let title = new.title.as_deref().map(request::title).transpose()?;
        let persona = new.persona_id.map(request::persona).transpose()?;
        let thread = store::NewThreadRow { id: self.shared.ids.thread(), title, persona };
        Ok(views::thread(self.store().create_thread(&scope, thread, once).await?))
    }

    pub async fn threads(
        &self,
        principal: &Principal,
        app: &str,
        page: PageQuery,
    ) -> Result<Page<ThreadView>, Error> {
        let scope = principal.scope(self.serving(principal, app)?.app.id.clone());
        let (after, limit) = (page.threads()?, page.limit()?);
        let page = self.store().threads(&scope, PageOf { after, limit }).await?;
        Ok(request::page(page, |row| request::thread_cursor(row.updated_at, row.id), views::thread))
    }

    pub async fn thread(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadView, Error> {
        Ok(views::thread(self.thread_row(principal, thread).await?))
    }

    pub async fn change_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        change: ThreadChange,
        once: Option<Once>,
    ) -> Result<ThreadView, Error> {
        let title = change.title.as_deref().map(request::title).transpose()?;
        let persona =
            change.persona_id.map(|persona| persona.map(request::persona).transpose()).transpose()?;
        if title.is_none() && persona.is_none() {
            return Err(Error::invalid("title", "is required, unless `personaId` is given"));
        }
        self.thread_row(principal, thread).await?;
        let change = ThreadEdit { title, persona };
        Ok(views::thread(self.store().change_thread(principal, thread, change, once).await?))
    }

    /// Hides the thread at once and cancels its run; its rows go in the background.
    pub async fn delete_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        once: Option<Once>,
    ) -> Result<(), Error> {
        if let Ok(row) = self.store().thread(principal, thread).await
            && !principal.may_use(&row.scope.app)
        {
            return Err(Error::NotFound { what: "thread" });
        }
        let (engine, principal) = (self.clone(), principal.clone());
        self.to_the_end(async move {
            let stopped = engine.store().delete_thread(&principal, thread, once).await?;
            engine.close_when_ended(thread);
            if let Some(run) = stopped {
                engine.stop(run, Stop::Cancelled);
                engine.take_up(thread).await?; // it may have waited, with nobody driving it
            }
            if engine.store().active_run(thread).await?.is_none() {
                engine.close_if_deleted(thread);
                engine.sweep();
            }
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
        let (after, limit) = (page.messages()?, page.limit()?);
        let row = self.thread_row(principal, thread).await?;
        let Some(head) = row.head else { return Ok(Page { data: Vec::new(), next: None }) };
        let page = self.store().messages(thread, head, PageOf { after, limit }).await?;
        let last = page.rows.last().filter(|_| page.more).map(|row| row.seq.to_string());
        // One by one, so that no more than one message is there both as its rows and as it is shown.
        let data = page.rows.into_iter().filter_map(|row| views::message(&row)).collect();
        Ok(Page { data, next: last })
    }

    /// The run's events after `after`, then live; none when it has ended and everything has been read. A place that is
    /// not in the log gets a snapshot first.
    pub async fn follow_run(
        &self,
        principal: &Principal,
        run: RunId,
        after: Option<Seq>,
    ) -> Result<Option<Follower>, Error> {
        let (row, subscription) = self.listen(principal, run).await?;
        let after = after.unwrap_or(0);
        if after > 0 {
            let head = self.store().head(row.thread).await?;
            if after <= head && row.end_seq.is_some_and(|end| after >= end) {
                return Ok(None);
            }
            if after > head || self.store().is_skipped(row.thread, after).await? {
                // Read again: a run that ended before the head was read has nothing more to come.
                let row = self.run_row(principal, run).await?;
                return self.snapshot(row, head, subscription).await.map(Some);
            }
        }
        let beginning = self.beginning(principal, &row).await?;
        Ok(Some(self.follower(subscription, (row.thread, Some(run)), after.max(beginning))))
    }

    /// The thread's events after `after`, then live, without end.
    pub async fn follow_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        after: Option<Seq>,
    ) -> Result<Follower, Error> {
        let subscription = self.shared.bus.subscribe(thread); // see `listen`
        let row = self.thread_row(principal, thread).await?;
        Ok(self.follower(subscription, (thread, None), after.unwrap_or(0).min(row.last_seq)))
    }

    /// Work in the background, newest first, of all users: for whoever looks after the server, in the app of their key.
    pub async fn job_views(&self, page: PageQuery, by: Option<&Principal>) -> Result<Page<JobView>, Error> {
        let (after, limit) = (page.jobs()?, page.limit()?);
        let wanted = PageOf { after, limit };
        let page = match by.and_then(Principal::only_app) {
            Some(app) => self.store().jobs_of_app(app, wanted).await?,
            None => self.store().jobs(wanted).await?,
        };
        Ok(request::page(page, |row| request::job_cursor(row.created_at, row.id), views::job))
    }

    pub(crate) fn serving(&self, principal: &Principal, app: &str) -> Result<Arc<Serving>, Error> {
        let app = AppId::new(app);
        let serving = self.shared.apps.get(&app).filter(|_| principal.may_use(&app));
        serving.ok_or(Error::NotFound { what: "app" })
    }

    pub(crate) async fn run_row(&self, principal: &Principal, run: RunId) -> Result<RunRow, Error> {
        let row = self.store().run(principal, run).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "run" }) }
    }

    async fn thread_row(&self, principal: &Principal, thread: ThreadId) -> Result<ThreadRow, Error> {
        let row = self.store().thread(principal, thread).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "thread" }) }
    }

    /// A run, and a place to listen from before it was looked at: were its thread deleted in between, nobody would ever
    /// close the place.
    async fn listen(&self, principal: &Principal, run: RunId) -> Result<(RunRow, Subscription), Error> {
        let thread = self.run_row(principal, run).await?.thread;
        let subscription = self.shared.bus.subscribe(thread);
        Ok((self.run_row(principal, run).await?, subscription))
    }

    fn follower(&self, subscription: Subscription, of: (ThreadId, Option<RunId>), after: Seq) -> Follower {
        Follower::new(Arc::new(self.store().clone()), subscription, of, after)
    }

    /// The number before a run's first event. A queued run has none yet: they come after all there are now.
    async fn beginning(&self, principal: &Principal, row: &RunRow) -> Result<Seq, Error> {
        let before = |row: &RunRow| row.start_seq.or(row.end_seq).map(|first| first.saturating_sub(1));
        if let Some(before) = before(row) {
            return Ok(before);
        }
        let head = self.store().head(row.thread).await?;
        // Read again: its turn may have come before the head was read.
        Ok(before(&self.run_row(principal, row.id).await?).unwrap_or(head))
    }

    /// For a cursor that is not in the log: where the run stands, then what follows.
    async fn snapshot(&self, row: RunRow, head: Seq, subscription: Subscription) -> Result<Follower, Error> {
        let (thread, run, ended) = (row.thread, row.id, row.end_seq);
        let until = ended.unwrap_or(head);
        let mut facts = self.store().facts(run).await?;
        facts.retain(|fact| fact.seq <= until); // what is newer follows
        let streamed = match views::open_since(&facts).filter(|_| ended.is_none()) {
            Some(since) => match self.streamed((thread, run), since, until).await {
                // It has ended meanwhile, and the follower knows what is left of it.
                Err(store::Error::Pruned) => return Ok(self.follower(subscription, (thread, Some(run)), 0)),
                streamed => Some(streamed?),
            },
            None => None,
        };
        let snapshot = views::snapshot(row, &facts, streamed, until);
        let follower = self.follower(subscription, (thread, Some(run)), head);
        Ok(follower.beginning_with(snapshot, ended.is_some()))
    }

    /// The text of a run's deltas after `since`, up to and with `until`.
    async fn streamed(&self, of: (ThreadId, RunId), since: Seq, until: Seq) -> Result<String, store::Error> {
        let (mut text, mut seen) = (String::new(), since);
        while seen < until {
            let events = self.store().events(of.0, Some(of.1), seen).await?;
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
}
