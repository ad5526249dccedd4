//! The model half of a step: ask, stream, and ask again where that is allowed.
//!
//! Deltas go to the log as they come and are not waited for. Trying again before anything was streamed is a
//! `step:retry`; afterwards it is a `step:reset`, so that readers throw away what they have. When a model has had its
//! tries, the next of the app's models is asked in the same way.

use std::sync::Arc;
use std::time::Duration;

use ::model::{AnswerFormat, Error, MODEL_CHOICES, Model, ModelRequest, ToolSpec};
use futures_util::StreamExt;
use protocol::{Delta, Event, Failure, Finish, StepReset, StepRetry, StepStart};
use tokio::time::Instant;

use super::Run;
use super::budget::Unfunded;
use super::collect::Collected;
use super::executor::ExecutedCall;
use crate::context::{self, Composed, Context, PromptBudget, ToolOffer, WantedAnswer, compose};
use crate::decide::{
    AfterFailure, Halt, MAX_RESTARTS, NextStep, RunEnding, Tries, after_failure, excuse, failure,
    is_of_provider, next_step, unoffered_outcome,
};
use crate::gate::CallPlace;
use crate::state::RunState;

/// Why a step that was begun before begins again: after a restart, at another node, and after an outage of the database.
const CUT_STEP: &str = "the server stopped or could not write while it ran this step";

/// How one try ended, if not well.
enum StoppedAnswer {
    Halted(Halt),
    Failed(Error),
    /// The log takes no more events, so no reader would ever see the answer.
    LogClosed,
}

impl Run {
    pub(super) async fn call_model(
        &mut self,
        state: &RunState,
        offer: ToolOffer,
    ) -> Result<Vec<Event>, store::Error> {
        let step = state.next_step_number();
        let (mut tries, mut facts) = match self.begun.take() {
            Some(tries) => (tries, Vec::new()),
            None => {
                let tries = self.first_tries();
                let facts = self.begin(state, step, &tries).await?;
                (tries, facts)
            }
        };
        if state.open.is_some() && state.restarts >= MAX_RESTARTS {
            return Ok(facts); // begun too often: deciding what that means is not done here
        }
        loop {
            let events = self.try_step(state, step, offer, &mut tries).await?;
            let Some(wait) = events.last().and_then(backoff) else {
                facts.extend(self.end_step(state, &facts, events).await?);
                return Ok(facts);
            };
            facts.extend(self.record(events).await?);
            // A halt ends the wait; the next try then stops before it begins.
            let _ = tokio::time::timeout(wait, self.wait_for_halt()).await;
        }
    }

    /// Commits the end of a step; if the run is complete with it, the end of the run in the same commit. `facts` is what
    /// was committed of the step before.
    async fn end_step(
        &self,
        state: &RunState,
        facts: &[Event],
        events: Vec<Event>,
    ) -> Result<Vec<Event>, store::Error> {
        let mut after = state.clone();
        facts.iter().chain(&events).for_each(|event| after.apply(event));
        if let NextStep::Finish(ending @ RunEnding::Completed { .. }) =
            next_step(&after, &self.app.limits, self.halt())
            && let Ok((last, jobs)) = self.last_record(&after, ending).await
        {
            let all = events.iter().cloned().chain(last).collect();
            match self.record_with(all, jobs, Vec::new()).await {
                Err(store::Error::Stopped(_)) => {} // it must not complete, but what it said stays
                recorded => return recorded,
            }
        }
        self.record(events).await
    }

    /// The tries of a step for which no model was asked yet.
    pub(super) fn first_tries(&self) -> Tries {
        self.admitted_model(0).map_or_else(|| Tries::last_of(0), Tries::of)
    }

    /// The first model from `place` on whose provider may be asked.
    fn admitted_model(&self, place: usize) -> Option<usize> {
        let rest = self.models.iter().enumerate().skip(place);
        rest.into_iter().find(|(_, model)| model.health.admits()).map(|(place, _)| place)
    }

    /// One try, and what is to be said of it: that the step has ended, or that there will be another try.
    async fn try_step(
        &mut self,
        state: &RunState,
        step: u32,
        offer: ToolOffer,
        tries: &mut Tries,
    ) -> Result<Vec<Event>, store::Error> {
        let Some(model) = self.models.get(tries.model).map(Arc::clone) else {
            let error = failure(
                "model_not_configured",
                &format!("no model is configured: {MODEL_CHOICES}; then restart the server"),
            );
            let end = Collected::new(step, WantedAnswer::Words).end(Finish::Failed, Some(error));
            return Ok(vec![Event::StepEnd(end)]);
        };
        let Composed { mut request, wanted, ledger } = match self.request(&model, state, offer, tries).await?
        {
            Ok(composed) => composed,
            Err(too_long) => return Ok(self.step_without_call(step, too_long, tries)),
        };
        tries.half = context::half(&ledger);
        if let Err(unfunded) = self.fund(&model, &mut request, ledger.tokens).await? {
            return Ok(self.step_over_budget(step, unfunded, tries));
        }
        self.read_images(&mut request).await?;
        let mut collected = Collected::new(step, wanted);
        collected.ledger = Some(ledger);
        let stopped = self.attempt(&model, &request, &mut collected).await;
        if matches!(stopped, Err(StoppedAnswer::LogClosed)) {
            return self.record(Vec::new()).await; // which says why
        }
        let rejected = matches!(stopped, Err(StoppedAnswer::Failed(Error::Rejected { .. })));
        let both = !request.tools.is_empty() && matches!(request.format, AnswerFormat::Schema(_));
        if tries.should_part(rejected, both) {
            tries.apart = true;
            model.health.keep_apart(true);
            let reason = "the provider refused tools together with a schema".to_owned();
            return Ok(vec![retry(step, reason, 0, None)]);
        }
        if rejected && tries.apart {
            model.health.keep_apart(false); // it refuses them apart too, so that was not it
        }
        if collected.is_streamed() || stopped.is_ok() {
            collected.count(&request, &model); // a step cut short costs tokens too, and the provider has not counted them
        }
        if tries.model > 0 {
            collected.fallback = Some(model.name().to_owned());
        }
        Ok(match stopped {
            Ok(finish) => {
                model.health.note_success();
                self.step_end_events(collected, finish, (offer, &request.tools))
            }
            Err(StoppedAnswer::Halted(halt)) => vec![halted_step(collected, halt)],
            Err(StoppedAnswer::Failed(error)) => self.failed_step_events(collected, &error, tries),
            Err(StoppedAnswer::LogClosed) => Vec::new(), // see above
        })
    }

    /// Says that the step begins, or begins again after it was cut.
    async fn begin(&self, state: &RunState, step: u32, tries: &Tries) -> Result<Vec<Event>, store::Error> {
        let event = if state.open.is_some() {
            let reason = CUT_STEP.into();
            Event::StepReset(StepReset { step, reason, model: None, usage: None })
        } else {
            self.step_start(step, tries)
        };
        self.record(vec![event]).await
    }

    /// Says which model is asked in a step.
    pub(super) fn step_start(&self, step: u32, tries: &Tries) -> Event {
        let model = self.models.get(tries.model).map(|model| model.name().to_owned());
        Event::StepStart(StepStart { step, model: model.unwrap_or_default() })
    }

    /// The request to the model, or why there is nothing to ask it.
    async fn request(
        &mut self,
        model: &Model,
        state: &RunState,
        offer: ToolOffer,
        tries: &Tries,
    ) -> Result<Result<Composed, Failure>, store::Error> {
        let context = match self.context.take() {
            Some(context) => context,
            None => self.rebuild(state).await?,
        };
        let window = model.capabilities().context_window;
        let budget = PromptBudget::of_window(window, context.settings.max_tokens);
        let shorter = tries.shorter.map(|limit| PromptBudget { prompt: limit.min(budget.prompt) });
        let composed = shorter.map(|shorter| compose(&context, model, state, shorter, offer));
        // Where nothing is left to leave out, the provider has the last word.
        let composed = match composed {
            Some(Ok(composed)) => Ok(composed),
            Some(Err(_)) | None => compose(&context, model, state, budget, offer),
        };
        self.context = Some(context);
        Ok(composed.map_err(|error| failure("context_too_long", &error.to_string())))
    }

    /// Whether tools are on offer in the next step.
    pub(crate) fn offer(&self, state: &RunState) -> ToolOffer {
        match next_step(state, &self.app.limits, None) {
            NextStep::Answer => ToolOffer::Words,
            NextStep::Load
            | NextStep::CallModel
            | NextStep::RunTools(_)
            | NextStep::Wait
            | NextStep::Finish(_) => ToolOffer::Tools,
        }
    }

    /// The context as the log says it was.
    pub(crate) async fn rebuild(&self, state: &RunState) -> Result<Context, store::Error> {
        let (Some(start), Some(loaded)) = (&state.start, &state.context) else {
            return Err(store::Error::NotFound("run:start"));
        };
        let sources = self.sources(start, &store::ProfileRow::default());
        Box::pin(context::rebuild(&sources, start, loaded, self.tools.specs())).await
    }

    /// One try, as soon as there is a place for it.
    async fn attempt(
        &mut self,
        model: &Model,
        request: &ModelRequest,
        into: &mut Collected,
    ) -> Result<Finish, StoppedAnswer> {
        let _place = self.place(model).await.map_err(StoppedAnswer::Halted)?;
        self.stream(model, request, into).await
    }

    /// Waits for a place among the calls under way. Time spent on the calls of others is not taken off the run's own
    /// time: each of them has an end, so the wait has one, too.
    async fn place(&mut self, model: &Model) -> Result<CallPlace, Halt> {
        let came = Instant::now();
        let place = tokio::select! {
            biased;
            halt = self.told_to_stop() => Err(halt),
            place = self.world.model_calls.place(&self.scope.user, &model.listing.provider) => Ok(place),
        };
        self.deadline += came.elapsed();
        place
    }

    /// Streams until the provider says that it is done.
    async fn stream(
        &self,
        model: &Model,
        request: &ModelRequest,
        into: &mut Collected,
    ) -> Result<Finish, StoppedAnswer> {
        let halted = self.wait_for_halt();
        tokio::pin!(halted); // one for the whole stream: it is looked at for every piece
        let mut stream = tokio::select! {
            biased;
            halt = &mut halted => return Err(StoppedAnswer::Halted(halt)),
            stream = model.chat.stream(request) => stream.map_err(StoppedAnswer::Failed)?,
        };
        loop {
            let piece = tokio::select! {
                biased;
                halt = &mut halted => return Err(StoppedAnswer::Halted(halt)),
                piece = stream.next() => piece,
            };
            match piece {
                Some(Ok(::model::AnswerPiece::Finish(finish))) => return Ok(finish),
                Some(Ok(piece)) => {
                    if let Some(delta) = into.take(piece, &*self.world.ids) {
                        self.push(delta).await?;
                    }
                }
                Some(Err(error)) => return Err(StoppedAnswer::Failed(error)),
                None => return Err(StoppedAnswer::Failed(Error::Broken("it ended early".into()))),
            }
        }
    }

    /// Hands a delta to the log; waits only when the log is behind.
    async fn push(&self, mut delta: Delta) -> Result<(), StoppedAnswer> {
        while let Err(back) = self.log.push(delta) {
            if self.log.is_closed() {
                return Err(StoppedAnswer::LogClosed);
            }
            delta = back;
            tokio::select! {
                biased;
                halt = self.wait_for_halt() => return Err(StoppedAnswer::Halted(halt)),
                () = self.log.room() => {}
            }
        }
        Ok(())
    }

    /// The end of a step. A call of a tool that was not offered has its result at once, in the same commit, so
    /// no process that takes the run up can ever make the call.
    fn step_end_events(
        &self,
        mut collected: Collected,
        finish: Finish,
        (offer, offered): (ToolOffer, &[ToolSpec]),
    ) -> Vec<Event> {
        if offer == ToolOffer::Words || finish == Finish::ContentFilter {
            collected.drop_calls(); // asked for words, or not to be trusted: calls do not count
        }
        let end = collected.end(finish, None);
        let refused: Vec<Event> = end
            .calls
            .iter()
            .filter_map(|call| {
                let is_known = self.tools.get(&call.name).is_some();
                let outcome = unoffered_outcome(call, offered, is_known)?;
                Some(Event::ToolComplete(ExecutedCall { outcome, duration_ms: 0 }.complete(call)))
            })
            .collect();
        std::iter::once(Event::StepEnd(end)).chain(refused).collect()
    }

    /// Whether to try again, with whom, and what to tell readers either way.
    fn failed_step_events(&self, collected: Collected, error: &Error, tries: &mut Tries) -> Vec<Event> {
        let model = self.models.get(tries.model).map_or("", |model| model.name());
        let (step, reason) = (collected.step, failure_text(error, model));
        tracing::warn!(thread = %self.thread, run = %self.id, step, model, %error, "a model call failed");
        let streamed = collected.is_streamed();
        let has_others = self.models.len() > tries.model + 1;
        match after_failure(error, streamed, has_others, tries) {
            AfterFailure::Reset(next) => {
                *tries = next;
                return vec![reset(&collected, reason, None)];
            }
            AfterFailure::Retry { wait, tries: next } => {
                *tries = next;
                return vec![retry(step, reason, jittered_millis(wait), None)];
            }
            AfterFailure::NextModel => self.note_failure(error, tries),
        }
        match self.next_model(tries) {
            Some(next) if streamed => vec![reset(&collected, reason, Some(next))],
            Some(next) => vec![retry(step, reason, 0, Some(next))],
            None => self.given_up(collected, failure(error.code(), &reason)),
        }
    }

    /// The call is not made, because it may not be paid for.
    fn step_over_budget(&self, step: u32, unfunded: Unfunded, tries: &mut Tries) -> Vec<Event> {
        let nothing = Collected::new(step, WantedAnswer::Words);
        match unfunded {
            Unfunded::Halted(halt) => vec![halted_step(nothing, halt)],
            Unfunded::WithoutPrice(error) => self.step_without_call(step, error, tries),
            Unfunded::Refused(error) => self.given_up(nothing, error),
        }
    }

    /// The prompt does not fit this model; it may fit the next.
    fn step_without_call(&self, step: u32, error: Failure, tries: &mut Tries) -> Vec<Event> {
        match self.next_model(tries) {
            Some(next) => vec![retry(step, error.message, 0, Some(next))],
            None => self.given_up(Collected::new(step, WantedAnswer::Words), error),
        }
    }

    /// Ends a step for which no model is left to ask. If the app has a reply for this case, it replaces the streamed
    /// text.
    fn given_up(&self, collected: Collected, error: Failure) -> Vec<Event> {
        if excuse(&self.app.limits, &error.code).is_none() || !collected.is_streamed() {
            return vec![Event::StepEnd(collected.end(Finish::Failed, Some(error)))];
        }
        let void = reset(&collected, error.message.clone(), None);
        let end = Collected::new(collected.step, WantedAnswer::Words).end(Finish::Failed, Some(error));
        vec![void, Event::StepEnd(end)]
    }

    /// Moves on to the next model that may be asked, if there is one.
    fn next_model(&self, tries: &mut Tries) -> Option<String> {
        let place = self.admitted_model(tries.model + 1)?;
        *tries = Tries::of(place);
        self.models.get(place).map(|model| model.name().to_owned())
    }

    /// Counts a failure against the provider, if it is one of the provider.
    fn note_failure(&self, error: &Error, tries: &Tries) {
        if let Some(model) = self.models.get(tries.model).filter(|_| is_of_provider(error)) {
            model.health.note_failure();
        }
    }
}

/// The text of a failure. A user who is told that there is no such model wants to know which.
fn failure_text(error: &Error, model: &str) -> String {
    match error.code() {
        "provider_model_not_found" => format!("{error} ({model:?})"),
        _ => error.to_string(),
    }
}

fn reset(collected: &Collected, reason: String, model: Option<String>) -> Event {
    Event::StepReset(StepReset { step: collected.step, reason, model, usage: collected.usage() })
}

fn retry(step: u32, reason: String, after: u64, model: Option<String>) -> Event {
    Event::StepRetry(StepRetry { step, reason, after, model })
}

fn halted_step(collected: Collected, halt: Halt) -> Event {
    Event::StepEnd(match halt {
        Halt::Cancelled | Halt::Interrupted => collected.end(Finish::Cancelled, None),
        Halt::TimedOut => {
            let error =
                failure("run_timeout", "the run took longer than the app allows; ask for a smaller part");
            collected.end(Finish::Failed, Some(error))
        }
    })
}

/// How long to wait before the next try; none when there is none.
fn backoff(event: &Event) -> Option<Duration> {
    if let Event::StepRetry(retry) = event {
        return Some(Duration::from_millis(retry.after));
    }
    matches!(event, Event::StepReset(_)).then_some(Duration::ZERO)
}

/// Milliseconds of a wait, and up to a tenth more so that clients part.
fn jittered_millis(wait: Duration) -> u64 {
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    millis.saturating_add(fastrand::u64(0..=millis / 10))
}
