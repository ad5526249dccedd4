//! Several servers on one database: what one of them hears of the others, and the time that all of them go by.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, ThreadId};

/// The changes by other nodes that this node must look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeNews {
    /// Threads whose run was told to stop or can continue, and threads that were deleted.
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
    /// After a gap, anything may have changed.
    pub(crate) fn of_gap() -> Self {
        Self { threads: Vec::new(), access: true, mcp: true, work: true, orphans: true }
    }

    /// Whether this node has nothing to look at.
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

/// The state that servers that share a database have in common.
pub struct SharedStore {
    /// All of them go by this clock.
    pub clock: Arc<SharedClock>,
    /// Names the key of their vaults without telling it. A server with another one could not open what they seal.
    pub vault: String,
}

/// Fewer than this of one user are not told to other nodes: nearly all users have one or two.
const TOLD_FROM: u32 = 4;

/// Users of which the others are told.
const MAX_TOLD: usize = 1_000;

/// The counts of things, such as streams, that users hold open on each node. The limit of a user counts for all nodes
/// together, and the nodes tell one another every second.
#[derive(Debug, Default)]
pub struct HeldByUsers {
    /// Locked for a look.
    here: Mutex<HashMap<String, u32>>,
    /// On all other nodes together. Locked for a look.
    elsewhere: Mutex<HashMap<String, u32>>,
}

fn lock(held: &Mutex<HashMap<String, u32>>) -> MutexGuard<'_, HashMap<String, u32>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldByUsers {
    /// A user holds one more on this node.
    pub fn add(&self, what: &str) {
        *lock(&self.here).entry(what.to_owned()).or_default() += 1;
    }

    /// A user holds one less on this node.
    pub fn remove(&self, what: &str) {
        let mut here = lock(&self.here);
        if let Some(count) = here.get_mut(what) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                here.remove(what);
            }
        }
    }

    /// How many are held on other nodes.
    pub fn on_other_nodes(&self, what: &str) -> usize {
        lock(&self.elsewhere).get(what).copied().unwrap_or(0) as usize
    }

    /// Returns the text that the others are told.
    pub(crate) fn heavy_users(&self) -> String {
        let here = lock(&self.here);
        let many = here.iter().filter(|(_, count)| **count >= TOLD_FROM).take(MAX_TOLD);
        let many: HashMap<&String, &u32> = many.collect();
        serde_json::to_string(&many).unwrap_or_default()
    }

    /// Takes in the texts that all others tell.
    pub(crate) fn take_in(&self, told: impl Iterator<Item = String>) {
        let mut all: HashMap<String, u32> = HashMap::new();
        for told in told {
            let held: HashMap<String, u32> = serde_json::from_str(&told).unwrap_or_default();
            for (what, count) in held {
                let known = all.entry(what).or_default();
                *known = known.saturating_add(count);
            }
        }
        *lock(&self.elsewhere) = all;
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
    fn what_users_hold_on_all_nodes_is_added_up() {
        let (here, there) = (HeldByUsers::default(), HeldByUsers::default());
        for _ in 0..TOLD_FROM {
            there.add("streams of ann");
        }
        there.add("streams of bob");
        here.take_in([there.heavy_users(), there.heavy_users(), String::new()].into_iter());
        assert_eq!(here.on_other_nodes("streams of ann"), 2 * TOLD_FROM as usize);
        assert_eq!(here.on_other_nodes("streams of bob"), 0, "a few are not told");
        there.remove("streams of ann");
        here.take_in([there.heavy_users()].into_iter());
        assert_eq!(here.on_other_nodes("streams of ann"), 0);
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
