//! Decisions after a model call that failed: ask again, begin again, ask the next model, or give up.

use std::time::Duration;

use model::Error;

/// Tries after the first, before anything was streamed.
const MAX_RETRIES: u32 = 3;

/// Times a step is begun again after part of it was streamed.
const MAX_RESETS: u32 = 2;

/// The first wait between tries; each further one is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);

/// The longest wait a provider may ask of us.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The longest wait a provider may ask of us when another could answer.
const MAX_BACKOFF_WITH_FALLBACK: Duration = Duration::from_secs(5);

/// How often a step has been tried, and with which model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Which of the run's models is asked.
    pub(crate) model: usize,
    retries: u32,
    resets: u32,
    /// Tokens of the prompt that was last sent, without half of what can be left out.
    pub(crate) half: usize,
    /// Tokens that a shorter prompt may have, once the provider has found the prompt too long.
    pub(crate) shorter: Option<usize>,
    /// The provider refused tools together with a schema, or something else in that request. It gets them apart to find
    /// out.
    pub(crate) apart: bool,
}

impl Tries {
    /// No try yet of this model.
    pub(crate) fn of(model: usize) -> Self {
        Self { model, retries: 0, resets: 0, half: 0, shorter: None, apart: false }
    }

    /// One try only: the provider is being left alone, and there is no other.
    pub(crate) fn last_of(model: usize) -> Self {
        Self { retries: MAX_RETRIES, resets: MAX_RESETS, ..Self::of(model) }
    }

    /// Whether to ask again with tools and a schema in requests of their own: not every server that might take both
    /// does.
    pub(crate) fn should_part(&self, is_rejected: bool, has_both: bool) -> bool {
        is_rejected && has_both && !self.apart
    }
}

/// The decision after a failed model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// This model is asked again, and readers throw away what was streamed.
    Reset(Tries),
    /// This model is asked again, after the wait.
    Retry { wait: Duration, tries: Tries },
    /// The next model is asked, if one may be; else the step has failed.
    NextModel,
}

/// Decides what follows a failure of the model that `tries` names. `is_streamed`: a part of the step was streamed. `has_others`:
/// the run has further models.
pub(crate) fn after_failure(
    error: &Error,
    is_streamed: bool,
    has_others: bool,
    tries: &Tries,
) -> AfterFailure {
    if error.is_retryable() && is_streamed && tries.resets < MAX_RESETS {
        return AfterFailure::Reset(Tries { resets: tries.resets + 1, ..tries.clone() });
    }
    if error.is_retryable()
        && !is_streamed
        && tries.retries < MAX_RETRIES
        && is_worth_waiting(error, has_others)
    {
        let wait = wait_before(tries.retries, error.retry_after());
        return AfterFailure::Retry { wait, tries: Tries { retries: tries.retries + 1, ..tries.clone() } };
    }
    if *error == Error::ContextLength && tries.shorter.is_none() {
        let tries = Tries { shorter: Some(tries.half), ..tries.clone() };
        return AfterFailure::Retry { wait: Duration::ZERO, tries };
    }
    AfterFailure::NextModel
}

/// Whether a failure is one of the provider, which then counts against it.
pub(crate) fn is_of_provider(error: &Error) -> bool {
    error.is_retryable() || matches!(error, Error::Auth { .. } | Error::Quota)
}

/// A provider that asks for a long wait is not waited for when another model could answer.
fn is_worth_waiting(error: &Error, has_others: bool) -> bool {
    !has_others || error.retry_after().is_none_or(|wait| wait <= MAX_BACKOFF_WITH_FALLBACK)
}

/// The wait that the provider asked for, or twice as long each time.
fn wait_before(retry: u32, asked: Option<Duration>) -> Duration {
    asked.unwrap_or(FIRST_BACKOFF * 2u32.saturating_pow(retry)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(after: Option<Duration>) -> Error {
        Error::Unavailable { reason: "down".into(), after }
    }

    #[test]
    fn a_model_has_three_more_tries_with_growing_waits_and_then_the_next_one_is_asked() {
        let (error, mut tries) = (unavailable(None), Tries::of(0));
        for millis in [500, 1_000, 2_000] {
            let AfterFailure::Retry { wait, tries: next } = after_failure(&error, false, true, &tries) else {
                panic!("no retry after {millis} ms");
            };
            assert_eq!(wait, Duration::from_millis(millis));
            tries = next;
        }
        assert_eq!(after_failure(&error, false, true, &tries), AfterFailure::NextModel);
        assert_eq!(after_failure(&error, false, false, &Tries::last_of(0)), AfterFailure::NextModel);
    }

    #[test]
    fn a_long_wait_is_for_those_who_have_no_other_model() {
        let error = unavailable(Some(Duration::from_secs(30)));
        let tries = Tries::of(0);
        assert_eq!(after_failure(&error, false, true, &tries), AfterFailure::NextModel);
        let AfterFailure::Retry { wait, .. } = after_failure(&error, false, false, &tries) else {
            panic!("no other model could answer");
        };
        assert_eq!(wait, Duration::from_secs(30));
    }

    #[test]
    fn a_prompt_that_is_too_long_is_halved_once() {
        let tries = Tries { half: 70, ..Tries::of(1) };
        let AfterFailure::Retry { wait, tries } = after_failure(&Error::ContextLength, false, true, &tries)
        else {
            panic!("it was not halved");
        };
        assert_eq!((wait, tries.shorter), (Duration::ZERO, Some(70)));
        assert_eq!(after_failure(&Error::ContextLength, false, true, &tries), AfterFailure::NextModel);
    }
}
