//! A clock that stands and ids that count, so that the same run gives the same log.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
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

/// 1, 2, 3, and so on. After a restart it must go on from where the last one stopped.
#[derive(Debug, Default)]
pub struct CountingIds {
    last: AtomicU64,
}

impl Ids for CountingIds {
    fn fresh(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1))
    }
}
