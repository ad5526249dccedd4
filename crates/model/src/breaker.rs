//! What is learned of a provider while it is used: that it keeps failing and is best left alone for a while, and what it
//! does not take although it might be expected to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::learned::Learned;

/// Calls in a row that must fail, each after all its tries, before a provider is left alone.
const FAILURES_TO_OPEN: u32 = 3;

/// How long it is left alone before one call may see whether it has recovered.
const COOL_DOWN: Duration = Duration::from_secs(30);

/// Models of one provider of which is remembered what they do not take; users may name models, so there is a bound.
const MAX_LEARNED_MODELS: usize = 256;

/// One provider's health, shared by all of its models.
#[derive(Debug, Default)]
pub struct Breaker {
    /// Locked for a look, never over an await.
    state: Mutex<State>,
    /// It refused tools and a schema in one request.
    apart: AtomicBool,
    /// What its models do not take, by the provider's names for them. Locked for a look, never over an await.
    learned: Mutex<HashMap<String, Learned>>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Left alone until then.
    until: Option<Instant>,
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the provider may be asked.
    pub fn is_closed(&self) -> bool {
        self.state().until.is_none_or(|until| Instant::now() >= until)
    }

    /// Whether the provider may be asked by this caller. Once the time is over, one caller is let through and the rest
    /// wait for what becomes of it.
    pub fn admits(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        match state.until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                state.until = Some(now + COOL_DOWN);
                true
            }
        }
    }

    /// Sends tools and a schema one after the other from here on, or together again.
    pub fn keep_apart(&self, apart: bool) {
        self.apart.store(apart, Ordering::Relaxed);
    }

    pub(crate) fn is_kept_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// What a model turned out not to take.
    pub(crate) fn learned(&self, model: &str) -> Option<Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).get(model).cloned()
    }

    pub(crate) fn learn(&self, model: &str, learned: &Learned) {
        let mut all = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_LEARNED_MODELS || all.contains_key(model) {
            all.entry(model.to_owned()).or_default().join(learned);
        }
    }

    pub fn succeeded(&self) {
        *self.state() = State::default();
    }

    pub fn failed(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES_TO_OPEN {
            state.until = Some(Instant::now() + COOL_DOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_keeps_failing_is_left_alone_for_a_while() {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN {
            assert!(breaker.admits());
            breaker.failed();
        }
        assert!(!breaker.admits() && !breaker.is_closed());
        tokio::time::advance(COOL_DOWN).await;
        assert!(breaker.admits(), "one looks whether it has recovered");
        assert!(!breaker.admits(), "and only one");
        breaker.succeeded();
        assert!(breaker.admits() && breaker.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_must_come_in_a_row() {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN * 2 {
            breaker.failed();
            breaker.succeeded();
        }
        assert!(breaker.admits());
        for _ in 0..FAILURES_TO_OPEN {
            breaker.failed();
        }
        tokio::time::advance(COOL_DOWN).await;
        assert!(breaker.admits());
        breaker.failed();
        assert!(!breaker.admits(), "what has not recovered is left alone again");
    }
}
