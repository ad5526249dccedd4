//! A clock that stands and ids that count, so that the same run gives the same log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, Ids};
use uuid::Uuid;

/// Always the same moment: 2026-03-01, a Sunday.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_772_366_400, 0)
    }
}

/// Stands at the same moment until a test moves it.
#[derive(Debug, Default)]
pub struct SettableClock {
    /// Milliseconds that it was moved.
    moved: AtomicI64,
}

impl SettableClock {
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a short time");
        self.moved.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        StandingClock.now() + SignedDuration::from_millis(self.moved.load(Ordering::Relaxed))
    }
}

/// 1, 2, 3, and so on. After a restart it must continue where the last one stopped.
#[derive(Debug, Default)]
pub struct CountingIds {
    last: AtomicU64,
}

impl Ids for CountingIds {
    fn fresh(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1))
    }
}
