//! The model half of a step: ask, stream, and ask again where that is allowed.
//!
//! Deltas go to the log as they come and are not waited for. Trying again before anything was streamed is a
//! `step:retry`; afterwards it is a `step:reset`, so that readers throw away what they have.

use std::time::Duration;

use futures_util::StreamExt;
use model::{Error, Request};
use protocol::{Delta, Event, Failure, Finish, StepEnd, StepReset, StepRetry, StepStart};

use super::Run;
use super::collect::Collected;
use super::decide::{Halt, MAX_RESTARTS, failure};
use super::state::RunState;
use crate::context::{self, Budget, Offer, compose};
use crate::models::Choice;

/// Tries after the first, before anything was streamed.
const MAX_RETRIES: u32 = 3;

/// Times a step is begun again after part of it was streamed.
const MAX_RESETS: u32 = 2;

/// The first wait between tries; each further one is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);

/// The longest wait a provider may ask of us.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// How one try ended, if not well.
enum Stopped {
    Halted(Halt),
    Failed(Error),
}

/// How often a step has been tried.
#[derive(Default)]
struct Tries {
    retries: u32,
    resets: u32,
    /// The provider found the prompt too long, and older turns were left out.
    shortened: bool,
}

impl Run {
    pub(super) async fn call_model(
        &mut self,
        state: &RunState,
        offer: Offer,
    ) -> Result<Vec<Event>, store::Error> {
        let step = state.next_step_number();
        let mut facts = self.begin(state, step).await?;
        if state.open.is_some() && state.restarts >= MAX_RESTARTS {
            return Ok(facts); // begun too often: deciding what that means is not done here
        }
        let mut tries = Tries::default();
        loop {
            let event = self.try_step(state, step, offer, &mut tries).await?;
            let wait = backoff(&event);
            facts.extend(self.record(vec![event]).await?);
            let Some(wait) = wait else { return Ok(facts) };
            // A halt ends the wait; the next try then stops before it begins.
            let _ = tokio::time::timeout(wait, self.halted()).await;
        }
    }

    /// One try, and what is to be said of it: that the step has ended, or that there will be another try.
    async fn try_step(
        &mut self,
        state: &RunState,
        step: u32,
        offer: Offer,
        tries: &mut Tries,
    ) -> Result<Event, store::Error> {
        let mut collected = Collected::new(step);
        let (choice, request) = match self.request(state, offer, tries).await? {
            Ok(ready) => ready,
            Err(error) => return Ok(Event::StepEnd(collected.end(Finish::Failed, Some(error)))),
        };
        let stopped = self.attempt(&choice, &request, &mut collected).await;
        if collected.is_streamed() {
            collected.estimate(&request); // a step cut short costs tokens too, and nobody counted them
        }
        Ok(match stopped {
            Ok(finish) => ended(&request, collected, finish, offer),
            Err(Stopped::Halted(halt)) => Event::StepEnd(halted(collected, halt)),
            Err(Stopped::Failed(error)) => self.failed(collected, &error, tries),
        })
    }

    /// Says that the step begins, or begins again after a crash.
    async fn begin(&self, state: &RunState, step: u32) -> Result<Vec<Event>, store::Error> {
        let event = if state.open.is_some() {
            Event::StepReset(StepReset { step, reason: "the server was restarted".into() })
        } else {
            let model = self.model.as_ref().map_or_else(String::new, |choice| choice.name.clone());
            Event::StepStart(StepStart { step, model })
        };
        self.record(vec![event]).await
    }

    /// The model and what to ask it, or why there is nothing to ask.
    async fn request(
        &mut self,
        state: &RunState,
        offer: Offer,
        tries: &Tries,
    ) -> Result<Result<(Choice, Request), Failure>, store::Error> {
        let Some(choice) = self.model.clone() else {
            return Ok(Err(failure("model_not_configured", crate::models::NOT_CONFIGURED)));
        };
        let context = match self.context.take() {
            Some(context) => context,
            None => self.load_context(state).await?,
        };
        let mut budget =
            Budget::of_window(choice.window, context.settings.max_tokens, self.app.history.budget);
        if tries.shortened {
            budget.history = budget.history.min(context.history_tokens() / 2);
        }
        let request = compose(&context, state, budget, offer);
        self.context = Some(context);
        Ok(match request {
            Ok(request) => Ok((choice, request)),
            Err(error) => Err(failure("context_too_long", &error.to_string())),
        })
    }

    async fn load_context(&self, state: &RunState) -> Result<context::Context, store::Error> {
        let (Some(start), Some(loaded)) = (&state.start, &state.context) else {
            return Err(store::Error::NotFound("run:start"));
        };
        context::load(&*self.store, &self.app, self.tools.specs(), start, loaded).await
    }

    /// One try: streams until the provider says that it is done.
    async fn attempt(
        &self,
        choice: &Choice,
        request: &Request,
        into: &mut Collected,
    ) -> Result<Finish, Stopped> {
        let halted = self.halted();
        tokio::pin!(halted); // one for the whole stream: it is looked at for every piece
        let _turn = tokio::select! {
            biased;
            halt = &mut halted => return Err(Stopped::Halted(halt)),
            turn = self.turns.acquire() => turn,
        };
        let mut stream = tokio::select! {
            biased;
            halt = &mut halted => return Err(Stopped::Halted(halt)),
            stream = choice.chat.stream(request) => stream.map_err(Stopped::Failed)?,
        };
        loop {
            let piece = tokio::select! {
                biased;
                halt = &mut halted => return Err(Stopped::Halted(halt)),
                piece = stream.next() => piece,
            };
            match piece {
                Some(Ok(model::Piece::Finish(finish))) => return Ok(finish),
                Some(Ok(piece)) => {
                    if let Some(delta) = into.take(piece, &*self.ids) {
                        self.push(delta).await?;
                    }
                }
                Some(Err(error)) => return Err(Stopped::Failed(error)),
                None => return Err(Stopped::Failed(Error::Broken("it ended early".into()))),
            }
        }
    }

    /// Hands a delta to the log; waits only when the log is behind.
    async fn push(&self, mut delta: Delta) -> Result<(), Stopped> {
        while let Err(back) = self.log.push(delta) {
            delta = back;
            tokio::select! {
                biased;
                halt = self.halted() => return Err(Stopped::Halted(halt)),
                () = self.log.room() => {}
            }
        }
        Ok(())
    }

    /// Whether to try again, and what to tell readers either way.
    fn failed(&self, collected: Collected, error: &Error, tries: &mut Tries) -> Event {
        tracing::warn!(thread = %self.thread, run = %self.id, step = collected.step, %error, "a model call failed");
        let (step, reason) = (collected.step, error.to_string());
        if error.is_retryable() && collected.is_streamed() && tries.resets < MAX_RESETS {
            tries.resets += 1;
            return Event::StepReset(StepReset { step, reason });
        }
        if error.is_retryable() && !collected.is_streamed() && tries.retries < MAX_RETRIES {
            let after = wait_before(tries.retries, error.retry_after());
            tries.retries += 1;
            return Event::StepRetry(StepRetry { step, reason, after });
        }
        if *error == Error::ContextLength && !tries.shortened {
            tries.shortened = true;
            return Event::StepRetry(StepRetry { step, reason, after: 0 });
        }
        Event::StepEnd(collected.end(Finish::Failed, Some(failure(error.code(), &reason))))
    }
}

fn ended(request: &Request, mut collected: Collected, finish: Finish, offer: Offer) -> Event {
    collected.estimate(request);
    if offer == Offer::Words || finish == Finish::ContentFilter {
        collected.drop_calls(); // asked for words, or not to be trusted: calls do not count
    }
    Event::StepEnd(collected.end(finish, None))
}

fn halted(collected: Collected, halt: Halt) -> StepEnd {
    match halt {
        Halt::Cancelled | Halt::Interrupted => collected.end(Finish::Cancelled, None),
        Halt::TimedOut => {
            let error = failure("run_timeout", "the run took longer than the app allows");
            collected.end(Finish::Failed, Some(error))
        }
    }
}

/// How long to wait before the next try; none when there is none.
fn backoff(event: &Event) -> Option<Duration> {
    match event {
        Event::StepRetry(retry) => Some(Duration::from_millis(retry.after)),
        Event::StepReset(_) => Some(Duration::ZERO),
        Event::MessageUser(_)
        | Event::RunStart(_)
        | Event::ContextLoaded(_)
        | Event::StepStart(_)
        | Event::TextDelta(_)
        | Event::ReasoningDelta(_)
        | Event::ToolInput(_)
        | Event::StepEnd(_)
        | Event::ToolStart(_)
        | Event::ToolComplete(_)
        | Event::StreamComplete(_)
        | Event::RunEnd(_)
        | Event::ThreadNamed(_) => None,
    }
}

/// Milliseconds: what the provider asked for or twice as long each time, and up to a tenth more so that clients part.
fn wait_before(retry: u32, asked: Option<Duration>) -> u64 {
    let wait = asked.unwrap_or(FIRST_BACKOFF * 2u32.saturating_pow(retry)).min(MAX_BACKOFF);
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    millis.saturating_add(fastrand::u64(0..=millis / 10))
}
