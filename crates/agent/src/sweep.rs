//! Sweeping: purging what was deleted, forgetting what is too old to matter, pruning old runs, erasing what is said of
//! deleted things and giving their space back, one sweep at a time.
//!
//! A sweep is requested at a start, once an hour, and by each deletion that leaves rows to purge. Requests that come
//! while a sweep is running are served by one more sweep after it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use protocol::{Clock, ThreadId};
use store::Store;

use crate::tasks::{MAX_STORE_FAILURES, Tasks};

/// How long what was asked under a key is remembered, and that a job was done.
const KEYS_REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

/// The pause between two sweeps, so that a client that deletes all the time does not keep the writer busy.
const PAUSE_BETWEEN_SWEEPS: Duration = Duration::from_millis(100);

/// The state of sweeping: [`IDLE`], [`UNDER_WAY`] or [`ONCE_MORE`].
#[derive(Default)]
struct Sweeps(AtomicU8);

const IDLE: u8 = 0;
const UNDER_WAY: u8 = 1;
/// Under way, and something was left since it began.
const ONCE_MORE: u8 = 2;

impl Sweeps {
    /// Requests a sweep. True if the caller has to begin it.
    fn ask(&self) -> bool {
        let next = |now| Some(if now == IDLE { UNDER_WAY } else { ONCE_MORE });
        // The update never refuses, so both arms hold what was there before.
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before.unwrap_or_else(|before| before) == IDLE
    }

    /// Whether no sweep is under way or asked for.
    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) == IDLE
    }

    /// One sweep is over. True if there has to be another.
    fn end_sweep(&self) -> bool {
        let next = |now| Some(if now == ONCE_MORE { UNDER_WAY } else { IDLE });
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before.unwrap_or_else(|before| before) == ONCE_MORE
    }
}

/// Sweeps in the background. A clone is cheap.
#[derive(Clone)]
pub struct Sweeper(Arc<Sweeping>);

struct Sweeping {
    store: Store,
    clock: Arc<dyn Clock>,
    tasks: Arc<Tasks>,
    retention: Duration,
    undo_retention: Duration,
    sweeps: Sweeps,
}

impl Sweeper {
    /// `retention` is the time from the end of a run to the pruning of its deltas. `undo_retention` is the time from a
    /// deletion by a tool to the erasure of the data.
    pub(crate) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        tasks: Arc<Tasks>,
        retention: Duration,
        undo_retention: Duration,
    ) -> Self {
        let sweeps = Sweeps::default();
        Self(Arc::new(Sweeping { store, clock, tasks, retention, undo_retention, sweeps }))
    }

    /// Whether no sweep is under way or asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.sweeps.is_idle()
    }

    /// Sweeps in the background, now or after the sweep that is under way.
    pub fn sweep(&self) {
        if !self.0.sweeps.ask() {
            return;
        }
        let sweeper = self.clone();
        self.0.tasks.spawn(async move {
            loop {
                if AssertUnwindSafe(sweeper.purge_all()).catch_unwind().await.is_err() {
                    tracing::error!("a sweep panicked; the next one tries again");
                }
                if !sweeper.0.sweeps.end_sweep() {
                    return;
                }
                tokio::time::sleep(PAUSE_BETWEEN_SWEEPS).await;
            }
        });
    }

    /// One sweep. While the store fails for a moment, such as on a full disk, it waits.
    async fn purge_all(&self) {
        let mut failures = 0;
        loop {
            match self.purge().await {
                Ok(()) => return,
                Err(error)
                    if error.may_pass() && failures < MAX_STORE_FAILURES && self.0.tasks.pause().await =>
                {
                    failures += u32::from(!error.lasts());
                }
                Err(error) => {
                    tracing::warn!(%error, "purging deleted or old data failed; the next sweep tries again");
                    return;
                }
            }
        }
    }

    /// Sweeps if the thread waits for it: it was deleted while something of it was under way. A sweep also begins if
    /// the last one could not leave the files tidy.
    pub(crate) async fn sweep_if_deleted(&self, thread: ThreadId) {
        if self.0.store.is_untidy() {
            return self.sweep();
        }
        match self.0.store.is_deleted(thread).await {
            Ok(true) => self.sweep(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%thread, %error, "it is not known whether a thread must be purged; the next sweep checks it");
            }
        }
    }

    /// Purges what was deleted, forgets old keys and jobs, prunes old runs, erases what is said of deleted things and leaves
    /// no file with what is gone, a little at a time.
    async fn purge(&self) -> Result<(), store::Error> {
        let now = self.0.clock.now();
        let forget_before = now.checked_sub(KEYS_REMEMBERED).unwrap_or(Timestamp::MIN);
        let ended_before = now.checked_sub(self.0.retention).unwrap_or(Timestamp::MIN);
        let undo_before = now.checked_sub(self.0.undo_retention).unwrap_or(Timestamp::MIN);
        // If some rows cannot be purged, the rest is pruned and erased all the same.
        let purged = until_done(|| self.0.store.purge(now, forget_before)).await;
        let pruned = until_done(|| self.0.store.prune(ended_before)).await;
        let erased = until_done(|| self.0.store.erase(undo_before)).await;
        let tidied = until_done(|| self.0.store.tidy()).await;
        purged.and(pruned).and(erased).and(tidied)
    }
}

/// Takes one step after the other until one says that nothing is left.
async fn until_done<S: Future<Output = Result<bool, store::Error>>>(
    step: impl Fn() -> S,
) -> Result<(), store::Error> {
    while step().await? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sweep_runs_at_a_time_and_those_who_ask_meanwhile_get_one_more() {
        let sweeps = Sweeps::default();
        assert!(sweeps.ask(), "the first begins it");
        assert!(!sweeps.ask() && !sweeps.ask() && !sweeps.ask(), "no other request does");
        assert!(sweeps.end_sweep(), "one more, for all who asked");
        assert!(!sweeps.end_sweep(), "and no other");
        assert!(sweeps.ask(), "then all begins anew");
        assert!(!sweeps.end_sweep());
    }
}
