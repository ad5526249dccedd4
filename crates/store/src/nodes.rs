//! Several servers on one database: what one of them hears of the others, and the time that all of them go by.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, ThreadId};

/// What other nodes have changed, as far as somebody here has to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeNews {
    /// Threads whose run was told to stop, can go on, or was deleted.
    pub threads: Vec<ThreadId>,
    /// There is a new key, or keys or sessions ended.
    pub access: bool,
    /// Tools of MCP servers were approved, or lost their approval.
    pub mcp: bool,
    /// There are new jobs.
    pub work: bool,
    /// Runs, jobs or actions may have no node any more.
    pub orphans: bool,
}

impl NodeNews {
    /// After a gap nobody knows what was changed.
    pub(crate) fn of_gap() -> Self {
        Self { threads: Vec::new(), access: true, mcp: true, work: true, orphans: true }
    }

    /// Whether nobody has to look at anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what came later.
    pub fn add(&mut self, later: Self) {
        self.threads.extend(later.threads);
        self.access |= later.access;
        self.mcp |= later.mcp;
        self.work |= later.work;
        self.orphans |= later.orphans;
    }
}

/// A clock that goes by the time of the database, so that all nodes agree. The machine of a node may be an hour off.
pub struct SharedClock {
    machine: Arc<dyn Clock>,
    /// How far the database is ahead of the machine, in milliseconds.
    ahead: AtomicI64,
}

impl SharedClock {
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, ahead: AtomicI64::new(0) }
    }

    /// Sets the clock to what the database has just said, in milliseconds since 1970.
    pub(crate) fn set(&self, database: i64) {
        let ahead = database.saturating_sub(self.machine.now().as_millisecond());
        self.ahead.store(ahead, Ordering::Relaxed);
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        let now = self.machine.now();
        now.checked_add(SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed))).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(43_200).unwrap()
        }
    }

    #[test]
    fn a_machine_that_is_an_hour_off_goes_by_the_database() {
        let clock = SharedClock::new(Arc::new(Noon));
        assert_eq!(clock.now().as_second(), 43_200);
        clock.set(39_600_000);
        assert_eq!(clock.now().as_second(), 39_600);
        clock.set(46_800_500);
        assert_eq!(clock.now().as_millisecond(), 46_800_500);
    }
}
