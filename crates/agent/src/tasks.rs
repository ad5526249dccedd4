//! Background tasks of this process. Each belongs to a tracker, and all end when the process lets go of what it does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;

/// How long whoever could not write waits before trying again.
pub(crate) const STORE_PAUSE: Duration = Duration::from_millis(500);

/// Times work goes on after the store failed it; beyond, it is left for the next start. A lasting failure, such as a
/// full disk, does not count.
pub(crate) const MAX_STORE_FAILURES: u32 = 5;

/// The tasks that this process works on.
#[derive(Default)]
pub struct Tasks {
    background: TaskTracker,
    /// Work that goes on though the client who asked for it may be gone.
    requests: TaskTracker,
    /// Tasks that have no end.
    endless: AtomicUsize,
    /// Cancelled when this process lets go of all its tasks.
    abandoned: CancellationToken,
}

impl Tasks {
    /// Works until it is done, or until this process lets go of its tasks.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.clone();
        self.background.spawn(async move { abandoned.run_until_cancelled(work).await });
    }

    /// Spawns work that has no end.
    pub fn spawn_endless(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.endless.fetch_add(1, Ordering::AcqRel);
        self.spawn(work);
    }

    /// Spawns work that looks by itself, with [`Self::unless_abandoned`], whether the process lets go of it.
    pub(crate) fn spawn_tracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }

    /// The result of the work; none if this process lets go of its tasks first.
    pub(crate) async fn unless_abandoned<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.abandoned.run_until_cancelled(work).await
    }

    /// Finishes what has begun even if the client who asked for it goes away: a committed run must be driven. The work
    /// is dropped where it stands only when this process lets go of its tasks.
    pub async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let abandoned = self.abandoned.clone();
        let task = self.requests.spawn(async move { abandoned.run_until_cancelled(work).await });
        match task.await {
            Ok(Some(done)) => done,
            Ok(None) => Err(Error::Unavailable {
                message:
                    "the server is stopping, and it is not known whether the request took effect; check it \
                     after the restart"
                        .into(),
                retry_after: 2,
            }),
            Err(_) => Err(Error::Internal),
        }
    }

    /// Waits for a store that fails. False when this process lets go of its tasks.
    pub(crate) async fn pause(&self) -> bool {
        self.unless_abandoned(tokio::time::sleep(STORE_PAUSE)).await.is_some()
    }

    /// Requests that are being finished.
    pub(crate) fn requests_left(&self) -> usize {
        self.requests.len()
    }

    /// Whether nothing is under way but tasks without an end.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.background.len() <= self.endless.load(Ordering::Acquire)
    }

    /// Drops all tasks where they stand, as a crash would.
    pub(crate) async fn abandon(&self) {
        self.abandoned.cancel();
        for tasks in [&self.requests, &self.background] {
            tasks.close();
            tasks.wait().await;
        }
    }
}
