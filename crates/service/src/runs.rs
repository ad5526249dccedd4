//! Runs as clients ask for them: begun by a message, shown, waited for, followed and cancelled.

use agent::{
    AcceptedRun, DAY_SPENT, Follower, RunCanceller, ServedApp, day_spent, find_persona, has_day,
    jobs_of_message,
};
use app::App;
use protocol::{
    Event, NewRun, PersonaSettings, Principal, RunId, RunResult, RunStatus, RunView, Scope, Seq, ThreadId,
};
use store::{IdempotencyClaim, RunInput, Submission, Target};
use tokio::sync::oneshot;
use tools::{check_client_tools, checked_answer_schema};

use crate::earlier_turns::check_earlier_turns;
use crate::parts::{KeptParts, check_parts};
use crate::{Error, Service, checks, views};

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// A request for a run that has been checked.
struct PreparedRun {
    submission: Submission,
    /// Why a new run would be refused, where only one that was accepted before may be answered.
    spent: Option<Error>,
    /// The parts of its message.
    kept: KeptParts,
}

impl Service {
    /// Stores the message and starts a run that answers it, or queues it. Once this returns, both are durable. Under a
    /// key that was used before, it is the run of then.
    pub async fn submit(
        &self,
        principal: &Principal,
        app: &str,
        new: NewRun,
        once: Option<IdempotencyClaim>,
    ) -> Result<AcceptedRun, Error> {
        let PreparedRun { submission, spent, kept } = self.prepare(principal, app, new, once).await?;
        let submitted = self.agent.submit(submission, spent).await;
        self.keep_if(principal, submitted, kept).await
    }

    /// Submits a message, and follows the events of its run from the first on; no follower when it has ended.
    pub async fn submit_and_follow(
        &self,
        principal: &Principal,
        app: &str,
        new: NewRun,
        once: Option<IdempotencyClaim>,
    ) -> Result<(AcceptedRun, Option<Follower>), Error> {
        let PreparedRun { submission, spent, kept } = self.prepare(principal, app, new, once).await?;
        let submitted = agent::submit_and_follow(&self.agent, principal, submission, spent).await;
        self.keep_if(principal, submitted, kept).await
    }

    /// Submits and follows a run that ends with its client: if the caller goes away before this returns, the run is
    /// cancelled.
    pub async fn submit_while_waited_for(
        &self,
        principal: &Principal,
        app: &str,
        new: NewRun,
        once: Option<IdempotencyClaim>,
    ) -> Result<(AcceptedRun, Option<Follower>), Error> {
        let (submitted, wait) = oneshot::channel();
        let (service, principal, app) = (self.clone(), principal.clone(), app.to_owned());
        self.world().tasks.spawn(async move {
            let outcome = service.submit_and_follow(&principal, &app, new, once).await;
            if let Err(Ok((accepted, _))) = submitted.send(outcome) {
                service.cancel_in_background(&principal, accepted.run);
            }
        });
        wait.await.unwrap_or(Err(Error::Internal))
    }

    /// Deletes the documents that came with a message, if the message was refused.
    async fn keep_if<T>(
        &self,
        principal: &Principal,
        submitted: Result<T, Error>,
        kept: KeptParts,
    ) -> Result<T, Error> {
        if submitted.is_err() {
            self.delete_refused_documents(principal, kept).await;
        }
        submitted
    }

    /// Checks a request, and keeps the parts of its message.
    async fn prepare(
        &self,
        principal: &Principal,
        app: &str,
        mut new: NewRun,
        once: Option<IdempotencyClaim>,
    ) -> Result<PreparedRun, Error> {
        self.check_ready()?;
        let serving = self.served_app(principal, app)?;
        let ids = &self.world().ids;
        let mut ask = checks::ask(&new, || ids.message())?;
        checks::options(&new, &serving.app.ranges)?;
        let registry = serving.tools();
        check_client_tools(&serving.app, &registry, &new.tools)
            .map_err(|message| Error::invalid("tools", message))?;
        let answer_schema = new.answer_schema.take().map(checked_answer_schema).transpose();
        let answer_schema = answer_schema.map_err(|message| Error::invalid("answerSchema", message))?;
        check_parts(&serving.app, &new.parts)?;
        check_earlier_turns(&serving.app, &new)?;
        self.check_wanted(&serving.app, &new).await?;
        let scope = principal.scope(serving.app.id.clone());
        let (persona, speaks) = self.persona_of(principal, &scope, &serving, &new).await?;
        let wanted = new.wanted_model().or(speaks.model.as_deref()).or(serving.app.model.as_deref());
        let model = self.world().models.name(wanted);
        let spent = self.spent_refusal(&serving.app, &scope).await?;
        if let (Some(refusal), None) = (&spent, &once) {
            return Err(refusal.clone());
        }
        self.check_vision(&serving.app, &new.parts, model.as_deref())?;
        let kept = self.keep_messages((principal, &scope), &mut new, once.as_ref());
        let (kept, earlier) = Box::pin(kept).await?;
        if let RunInput::Say { parts, .. } = &mut ask {
            parts.clone_from(&kept.parts);
        }
        let jobs = jobs_of_message(&serving.app, &ask, || ids.job());
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
            limits: self.user_limits(&serving.app),
            request: store::RunRequest {
                ask,
                model,
                settings: new.settings.settings.or(&speaks.settings).or(&serving.app.settings),
                system_prompt: new.system_prompt,
                persona,
                documents: new.document_ids,
                app_revision: serving.app.revision.clone(),
                echo: new.echo,
                actor: principal.actor().map(str::to_owned),
                tools: new.tools,
                client_tools: registry.client_tools(),
                answer_schema,
                earlier,
                jobs,
            },
        };
        Ok(PreparedRun { submission, spent, kept })
    }

    fn check_ready(&self) -> Result<(), Error> {
        if self.is_ready() {
            return Ok(());
        }
        Err(Error::Unavailable { message: "the server is stopping; try again".into(), retry_after: 2 })
    }

    /// Returns the persona that the request or its thread names, and what it sets. One that cannot be used sets
    /// nothing; the run says so.
    async fn persona_of(
        &self,
        principal: &Principal,
        scope: &Scope,
        serving: &ServedApp,
        new: &NewRun,
    ) -> Result<(Option<String>, PersonaSettings), Error> {
        let persona = match (&new.persona_id, new.thread_id) {
            (Some(persona), _) => Some(persona.clone()),
            (None, Some(thread)) => agent::thread_row(self.store(), principal, thread).await?.persona,
            (None, None) => None,
        };
        let Some(id) = &persona else { return Ok((None, PersonaSettings::default())) };
        let found = find_persona(self.store(), &serving.app, scope, id).await?;
        let mut speaks = found.map(|persona| persona.settings).unwrap_or_default();
        if let Some(model) = speaks.model.as_deref().filter(|_| new.wanted_model().is_none()) {
            if !self.is_served(model).await {
                tracing::warn!(persona = id, model, "no provider serves the model of a persona");
                speaks.model = None;
            } else {
                // Its settings, or the app's, may have changed since the persona was made.
                self.check_model(&serving.app, "personaId", Some(model))?;
            }
        }
        Ok((persona, speaks))
    }

    /// Why no new run may begin, if the user has used up the day: it would be refused its first model call.
    async fn spent_refusal(&self, app: &App, scope: &Scope) -> Result<Option<Error>, Error> {
        if !has_day(&app.budget) {
            return Ok(None);
        }
        let now = self.now();
        let spent = self.store().usage_of_day(scope, store::day(now)).await?;
        let left = SECONDS_PER_DAY - now.as_second().rem_euclid(SECONDS_PER_DAY);
        let retry_after = u32::try_from(left).unwrap_or_default();
        let refusal = Error::Budget { message: DAY_SPENT.into(), retry_after };
        Ok(day_spent(&app.budget, &spent).then_some(refusal))
    }

    pub async fn run(&self, principal: &Principal, run: RunId) -> Result<RunView, Error> {
        Ok(views::run(agent::run_row(self.store(), principal, run).await?))
    }

    /// Waits until the run has ended, or waits itself for the user.
    pub async fn result(&self, principal: &Principal, run: RunId) -> Result<RunResult, Error> {
        agent::wait_for_run(self.agent.world(), principal, run).await?;
        self.present_result(principal, run).await
    }

    /// The run as it is now, with its answer so far.
    pub async fn result_so_far(&self, principal: &Principal, run: RunId) -> Result<RunResult, Error> {
        let result = self.present_result(principal, run).await?;
        let streamed = match result.status {
            RunStatus::Running => agent::streamed_text(self.agent.world(), principal, run).await?,
            RunStatus::Queued
            | RunStatus::Waiting
            | RunStatus::Completed
            | RunStatus::Failed
            | RunStatus::Cancelled
            | RunStatus::Interrupted => None,
        };
        Ok(RunResult { reply: streamed.unwrap_or(result.reply), ..result })
    }

    async fn present_result(&self, principal: &Principal, run: RunId) -> Result<RunResult, Error> {
        let row = agent::run_row(self.store(), principal, run).await?;
        let is_waiting = row.status == RunStatus::Waiting;
        let proposals = if is_waiting { self.store().proposals_of(run).await? } else { Vec::new() };
        let calls = if is_waiting { self.store().client_calls_of(run).await? } else { Vec::new() };
        let proposals = proposals.into_iter().map(views::proposal).collect();
        let client_calls = calls.into_iter().map(views::client_call).collect();
        Ok(RunResult { proposals, client_calls, ..agent::run_result(row, &self.store().facts(run).await?) })
    }

    /// The events of a run without its deltas, each with its place in the log. An event that cannot be read is left
    /// out.
    pub async fn run_facts(&self, principal: &Principal, run: RunId) -> Result<Vec<(Seq, Event)>, Error> {
        agent::run_row(self.store(), principal, run).await?;
        let facts = self.store().facts(run).await?.into_iter();
        Ok(facts.filter_map(|fact| Some((fact.seq, Event::read(&fact.kind, &fact.body).ok()?))).collect())
    }

    /// Durable once it returns; the run ends soon after. A run that has ended stays as it is.
    pub async fn cancel(
        &self,
        principal: &Principal,
        run: RunId,
        once: Option<IdempotencyClaim>,
    ) -> Result<RunView, Error> {
        agent::run_row(self.store(), principal, run).await?;
        let by = RunCanceller::User { principal: principal.clone(), once };
        Ok(views::run(self.agent.cancel(run, by).await?))
    }

    /// Cancels a run whose client has gone, without waiting for it.
    pub fn cancel_in_background(&self, principal: &Principal, run: RunId) {
        let (service, principal) = (self.clone(), principal.clone());
        self.world().tasks.spawn(async move {
            if let Err(error) = service.cancel(&principal, run, None).await {
                tracing::warn!(%run, %error, "a run whose client has gone was not cancelled");
            }
        });
    }

    /// The run's events after `after`, then live; none when it has ended and everything has been read. A place that is
    /// not in the log gets a snapshot first.
    pub async fn follow_run(
        &self,
        principal: &Principal,
        run: RunId,
        after: Option<Seq>,
    ) -> Result<Option<Follower>, Error> {
        agent::follow_run(self.agent.world(), principal, run, after).await
    }

    /// The thread's events after `after`, then live, without end.
    pub async fn follow_thread(
        &self,
        principal: &Principal,
        thread: ThreadId,
        after: Option<Seq>,
    ) -> Result<Follower, Error> {
        agent::follow_thread(self.agent.world(), principal, thread, after).await
    }
}
