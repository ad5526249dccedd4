//! The health of a provider, learned while it is used: that it keeps failing and is best left alone for a while, and what it
//! does not take although it might be expected to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::circuit_breaker::{BreakerRules, CircuitBreaker};
use crate::refused_settings::RefusedSettings;

/// A provider gets no calls after some calls in a row that fail, each after all its tries, until one call may see
/// whether it has recovered.
const RULES: BreakerRules = BreakerRules {
    failures_to_open: 3,
    rest: Duration::from_secs(30),
    first_pause: Duration::ZERO,
    longest_pause: Duration::ZERO,
};

/// Models of one provider of which is remembered what they do not take; users may name models, so there is a bound.
const MAX_LEARNED_MODELS: usize = 256;

/// One provider's health, shared by all of its models.
#[derive(Debug, Default)]
pub struct ProviderHealth {
    /// Locked for a look, never over an await.
    breaker: Mutex<CircuitBreaker>,
    /// The provider refused tools and a schema in one request.
    apart: AtomicBool,
    /// The settings that its models do not take, by the provider's names for them. Locked for a look, never over an await.
    refused_settings: Mutex<HashMap<String, RefusedSettings>>,
}

impl ProviderHealth {
    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the provider may be asked.
    pub fn is_closed(&self) -> bool {
        self.breaker().wait().is_none()
    }

    /// Whether the provider may be asked by this caller. Once the time is over, one caller is let through and the rest
    /// wait for what becomes of it.
    pub fn admits(&self) -> bool {
        self.breaker().admits(&RULES)
    }

    /// Sends tools and a schema one after the other from here on, or together again.
    pub fn keep_apart(&self, apart: bool) {
        self.apart.store(apart, Ordering::Relaxed);
    }

    pub(crate) fn is_kept_apart(&self) -> bool {
        self.apart.load(Ordering::Relaxed)
    }

    /// The settings that a model turned out not to take.
    pub(crate) fn refused_settings(&self, model: &str) -> Option<RefusedSettings> {
        self.refused_settings.lock().unwrap_or_else(PoisonError::into_inner).get(model).cloned()
    }

    pub(crate) fn note_refused_settings(&self, model: &str, learned: &RefusedSettings) {
        let mut all = self.refused_settings.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_LEARNED_MODELS || all.contains_key(model) {
            all.entry(model.to_owned()).or_default().join(learned);
        }
    }

    pub fn note_success(&self) {
        self.breaker().note_success();
    }

    pub fn note_failure(&self) {
        self.breaker().note_failure(&RULES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_keeps_failing_is_left_alone_for_a_while() {
        let breaker = ProviderHealth::default();
        for _ in 0..RULES.failures_to_open {
            assert!(breaker.admits());
            breaker.note_failure();
        }
        assert!(!breaker.admits() && !breaker.is_closed());
        tokio::time::advance(RULES.rest).await;
        assert!(breaker.admits(), "one looks whether it has recovered");
        assert!(!breaker.admits(), "and only one");
        breaker.note_success();
        assert!(breaker.admits() && breaker.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_must_come_in_a_row() {
        let breaker = ProviderHealth::default();
        for _ in 0..RULES.failures_to_open * 2 {
            breaker.note_failure();
            breaker.note_success();
        }
        assert!(breaker.admits());
        for _ in 0..RULES.failures_to_open {
            breaker.note_failure();
        }
        tokio::time::advance(RULES.rest).await;
        assert!(breaker.admits());
        breaker.note_failure();
        assert!(!breaker.admits(), "what has not recovered is left alone again");
    }
}
