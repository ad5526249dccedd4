//! The policy of runs, pure and total: what a run does next, which calls are made, what follows a failed model call, and
//! what may be spent. `run` asks here and performs what is decided.

mod calls;
mod failures;
pub(crate) mod spend;

use app::{AtLimit, FailureCause, LoopLimits};
use protocol::{Call, Failure, Finish, RunStatus};

use crate::state::RunState;

pub(crate) use calls::{CallVerdict, call_verdicts, unoffered_outcome};
pub(crate) use failures::{AfterFailure, Tries, after_failure, is_of_provider};
pub use spend::{DAY_SPENT, day_spent, has_day};

/// Identical calls after which the model is told that it repeats itself.
pub(crate) const REPEATS_WARNED: u32 = 3;

/// Identical calls after which it gets no more tools and must answer.
pub(crate) const REPEATS_STOPPED: u32 = 5;

/// Calls with unusable arguments in a row after which it must answer.
pub(crate) const MAX_INVALID_IN_A_ROW: usize = 3;

/// Tool calls a run may make.
pub(crate) const MAX_CALLS_PER_RUN: usize = 200;

/// Times a step is begun again after a crash before the run is given up.
pub(crate) const MAX_RESTARTS: u32 = 2;

/// The failure of a run that has spent what it may.
pub(crate) const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// The failure of a run that would spend more than a user may in a while.
pub(crate) const RATE_LIMITED: &str = "rate_limited";

/// The failure of a run whose model has no price, where money is bounded.
pub(crate) const MODEL_WITHOUT_PRICE: &str = "model_without_price";

/// The reply after a failure of models or money, if the app has something to say.
pub(crate) fn excuse<'a>(limits: &'a LoopLimits, code: &str) -> Option<&'a str> {
    cause(code).and_then(|cause| limits.failure_reply.of(cause))
}

/// Why a run must stop although it could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    Cancelled,
    /// A newer message takes its place.
    Interrupted,
    TimedOut,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NextStep {
    /// Read what the prompt needs.
    Load,
    /// Ask the model, with tools on offer.
    CallModel,
    /// Ask the model for words only: what the tools found goes into the instructions.
    Answer,
    RunTools(Vec<Call>),
    /// The run cannot continue until a proposal is decided or the client sends a result.
    Wait,
    Finish(RunEnding),
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunEnding {
    Completed { text: String },
    Other { status: RunStatus, error: Option<Failure> },
}

pub(crate) fn next_step(state: &RunState, limits: &LoopLimits, halt: Option<Halt>) -> NextStep {
    if let Some(ending) = ending(state, limits, halt) {
        return NextStep::Finish(ending);
    }
    if !state.pending.is_empty() {
        let ready = state.ready();
        return if ready.is_empty() { NextStep::Wait } else { NextStep::RunTools(ready) };
    }
    if state.context.is_none() {
        return NextStep::Load;
    }
    let must_answer =
        at_limit(state, limits) || state.trailing_silence() > 0 || state.called_nothing_on_offer();
    if must_answer { NextStep::Answer } else { NextStep::CallModel }
}

/// Whether the model has had its turns with tools.
pub(crate) fn at_limit(state: &RunState, limits: &LoopLimits) -> bool {
    state.steps.len() >= limits.max_steps as usize
        || state.most_repeated() >= REPEATS_STOPPED
        || state.invalid_in_a_row() >= MAX_INVALID_IN_A_ROW
        || state.calls() >= MAX_CALLS_PER_RUN
}

fn ending(state: &RunState, limits: &LoopLimits, halt: Option<Halt>) -> Option<RunEnding> {
    // A run that was told to stop ends as stopped, even if it was complete. Its text so far stays.
    match halt {
        Some(Halt::Cancelled) => return Some(RunEnding::Other { status: RunStatus::Cancelled, error: None }),
        Some(Halt::Interrupted) => {
            return Some(RunEnding::Other { status: RunStatus::Interrupted, error: None });
        }
        Some(Halt::TimedOut) | None => {}
    }
    if let Some((finish, error)) = state.cut_short() {
        if let Some(text) = error.as_ref().and_then(|error| excuse(limits, &error.code)) {
            return Some(RunEnding::Completed { text: text.to_owned() });
        }
        let status = if finish == Finish::Cancelled { RunStatus::Cancelled } else { RunStatus::Failed };
        return Some(RunEnding::Other { status, error });
    }
    if let Some(reply) = state.request_reply() {
        return Some(RunEnding::Completed { text: reply.to_owned() });
    }
    if let Some(answer) = answer(state, limits) {
        return Some(RunEnding::Completed { text: answer });
    }
    if state.restarts > MAX_RESTARTS {
        let error = failure("interrupted", "the server stopped several times during this answer; ask again");
        return Some(RunEnding::Other { status: RunStatus::Interrupted, error: Some(error) });
    }
    if halt == Some(Halt::TimedOut) {
        let error = failure("run_timeout", "the run took longer than the app allows; ask for a smaller part");
        return Some(RunEnding::Other { status: RunStatus::Failed, error: Some(error) });
    }
    None
}

/// Why a model failed, if the failure is one of models or money, which the app may have a reply for.
fn cause(code: &str) -> Option<FailureCause> {
    match code {
        "provider_model_not_found" => Some(FailureCause::UnknownModel),
        "provider_auth" => Some(FailureCause::Key),
        "provider_quota" | BUDGET_EXCEEDED | RATE_LIMITED | MODEL_WITHOUT_PRICE => Some(FailureCause::Quota),
        "provider_rate_limited" | "provider_unavailable" | "provider_timeout" | "provider_stream_broken" => {
            Some(FailureCause::Outage)
        }
        "context_too_long" => Some(FailureCause::Other),
        code if code.starts_with("provider_") => Some(FailureCause::Other),
        _ => None,
    }
}

/// The answer, once there is one: words without calls, or what the app says when there are none.
fn answer(state: &RunState, limits: &LoopLimits) -> Option<String> {
    if !state.pending.is_empty() || state.open.is_some() {
        return None;
    }
    let last = state.last()?;
    if !last.calls.is_empty() {
        let given_up = at_limit(state, limits) && limits.at_limit == AtLimit::Reply;
        return given_up.then(|| limits.limit_reply.clone());
    }
    if !last.text.trim().is_empty() || last.finish == Finish::ContentFilter {
        return Some(last.text.clone());
    }
    // Asked once more for words only, it was silent again.
    (state.trailing_silence() > 1).then(|| limits.limit_reply.clone())
}

pub(crate) fn failure(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned() }
}
