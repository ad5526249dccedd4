//! The moments at which a server may die: before and after each commit, and around each call that reaches the outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::{Kind, Stored};
use store::{Boundary, Moment};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Blows at one of the moments that come by, counted from when it is armed. From then on nothing passes: the store
/// writes, publishes and answers nothing more, and what acts outside arrives nowhere.
#[derive(Debug, Clone)]
pub struct Fuse(Arc<State>);

#[derive(Debug)]
struct State {
    /// The moment at which it blows, from 0.
    last: u64,
    armed: AtomicBool,
    passed: AtomicU64,
    place: Mutex<Option<&'static str>>,
    blown: CancellationToken,
    full: AtomicBool,
    /// The kind of event for which there is no space.
    refuses: Mutex<Option<Kind>>,
    /// Commits for which there was no space.
    refused: watch::Sender<u64>,
}

impl Fuse {
    /// Blows at the moment of this number, from 0.
    pub fn blowing_at(last: u64) -> Self {
        Self(Arc::new(State {
            last,
            armed: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            place: Mutex::default(),
            blown: CancellationToken::new(),
            full: AtomicBool::new(false),
            refuses: Mutex::default(),
            refused: watch::Sender::new(0),
        }))
    }

    /// Counts, and never blows.
    pub fn never_blowing() -> Self {
        Self::blowing_at(u64::MAX)
    }

    /// From here on there is no space for any commit, or there is again.
    pub fn fill(&self, full: bool) {
        self.0.full.store(full, Ordering::SeqCst);
    }

    /// From here on there is no space for a commit that appends an event of this kind, and for others there is. None
    /// makes space again.
    pub fn refuse_kind(&self, kind: Option<Kind>) {
        *self.0.refuses.lock().unwrap_or_else(PoisonError::into_inner) = kind;
    }

    /// Returns once `count` commits have found no space.
    pub async fn wait_for_refusals(&self, count: u64) {
        let mut refused = self.0.refused.subscribe();
        refused.wait_for(|refused| *refused >= count).await.expect("the sender lives as long as the fuse");
    }

    /// From here on moments count.
    pub fn arm(&self) {
        self.0.armed.store(true, Ordering::SeqCst);
    }

    /// From here on they do not.
    pub fn disarm(&self) {
        self.0.armed.store(false, Ordering::SeqCst);
    }

    /// How many moments have come by, the last one included.
    pub fn count_passed(&self) -> u64 {
        self.0.passed.load(Ordering::SeqCst)
    }

    pub fn is_blown(&self) -> bool {
        self.0.blown.is_cancelled()
    }

    /// Returns once it has blown.
    pub async fn wait_until_blown(&self) {
        self.0.blown.cancelled().await;
    }

    /// Returns the place at which it has blown.
    pub fn place(&self) -> Option<&'static str> {
        *self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One moment comes by. False if all ends here, or has ended before.
    pub fn pass(&self, place: &'static str) -> bool {
        if self.is_blown() {
            return false;
        }
        if !self.0.armed.load(Ordering::SeqCst) {
            return true;
        }
        let moment = self.0.passed.fetch_add(1, Ordering::SeqCst);
        if moment < self.0.last {
            return true;
        }
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(place);
        self.0.blown.cancel();
        false
    }
}

impl Boundary for Fuse {
    fn pass(&self, moment: Moment) -> bool {
        Fuse::pass(
            self,
            match moment {
                Moment::BeforeCommit => "before a commit",
                Moment::AfterCommit => "after a commit",
            },
        )
    }

    fn is_full(&self, appended: &[Arc<Stored>]) -> bool {
        let refuses = *self.0.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = refuses.is_some_and(|kind| appended.iter().any(|event| event.kind == kind.name()));
        let full = refused || self.0.full.load(Ordering::SeqCst);
        if full {
            self.0.refused.send_modify(|refused| *refused += 1);
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuse_blows_at_its_moment_and_stays_blown() {
        let fuse = Fuse::blowing_at(1);
        assert!(fuse.pass("unarmed"));
        fuse.arm();
        assert!(fuse.pass("first"));
        assert!(!fuse.is_blown());
        assert!(!fuse.pass("second"));
        assert!(!fuse.pass("third"));
        assert_eq!((fuse.place(), fuse.count_passed(), fuse.is_blown()), (Some("second"), 2, true));
    }
}
