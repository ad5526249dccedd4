//! A circuit breaker: a service that keeps failing gets no calls for a while.

use std::time::Duration;

use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct BreakerRules {
    /// Failures in a row after which the breaker opens.
    pub failures_to_open: u32,
    /// How long it stays open.
    pub rest: Duration,
    /// The wait after the first failure, which doubles with each one up to `longest_pause`. Zero for none.
    pub first_pause: Duration,
    pub longest_pause: Duration,
}

/// The failures of one provider or server.
#[derive(Debug, Default)]
pub struct CircuitBreaker {
    failures: u32,
    /// No call should be tried before.
    until: Option<Instant>,
}

impl CircuitBreaker {
    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The moment before which no call should be tried. None if it has come.
    pub fn wait(&self) -> Option<Instant> {
        self.until.filter(|until| Instant::now() < *until)
    }

    /// Whether the breaker is open: there were too many failures, and the rest after them is not over.
    pub fn is_open(&self, rules: &BreakerRules) -> bool {
        self.failures >= rules.failures_to_open && self.wait().is_some()
    }

    /// Whether this caller may try. Once the rest is over, one caller is let through and the others wait for what
    /// becomes of it.
    pub fn admits(&mut self, rules: &BreakerRules) -> bool {
        let is_over = self.wait().is_none();
        if is_over && self.until.is_some() {
            self.until = Some(Instant::now() + rules.rest);
        }
        is_over
    }

    pub fn note_success(&mut self) {
        *self = Self::default();
    }

    pub fn note_failure(&mut self, rules: &BreakerRules) {
        let doubled = rules.first_pause.saturating_mul(1 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        let opens = self.failures >= rules.failures_to_open;
        let pause = if opens { rules.rest } else { doubled.min(rules.longest_pause) };
        if !pause.is_zero() {
            self.until = Some(Instant::now() + pause);
        }
    }
}
