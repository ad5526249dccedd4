//! Background tasks of this process. Each belongs to a tracker, and the remaining ones are abandoned at shutdown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;

/// The pause before another attempt after the store has failed.
pub(crate) const STORE_PAUSE: Duration = Duration::from_millis(500);

/// The number of store failures after which work is left for the next start. A lasting failure, such as a full disk,
/// does not count.
pub(crate) const MAX_STORE_FAILURES: u32 = 5;

/// The tasks that this process works on.
#[derive(Default)]
pub struct Tasks {
    background: TaskTracker,
    /// Work that continues even if the client that requested it is gone.
    requests: TaskTracker,
    /// Tasks that have no end.
    endless: AtomicUsize,
    /// Cancelled when all tasks are abandoned at shutdown.
    abandoned: CancellationToken,
}

impl Tasks {
    /// Spawns work that runs until it is done or abandoned at shutdown.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.clone();
        self.background.spawn(async move { abandoned.run_until_cancelled(work).await });
    }

    /// Spawns work that has no end.
    pub fn spawn_endless(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.endless.fetch_add(1, Ordering::AcqRel);
        self.spawn(work);
    }

    /// Spawns work that checks by itself, with [`Self::unless_abandoned`], whether it is abandoned at shutdown.
    pub(crate) fn spawn_tracked(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }

    /// The result of the work. None if it is abandoned at shutdown before it is done.
    pub(crate) async fn unless_abandoned<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.abandoned.run_until_cancelled(work).await
    }

    /// Finishes work even if the client that requested it goes away, because a committed run must be driven. The work
    /// is dropped only when it is abandoned at shutdown.
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

    /// Waits before another attempt after the store has failed. False if the tasks are abandoned at shutdown.
    pub(crate) async fn pause(&self) -> bool {
        self.unless_abandoned(tokio::time::sleep(STORE_PAUSE)).await.is_some()
    }

    /// Requests that are being finished.
    pub(crate) fn requests_left(&self) -> usize {
        self.requests.len()
    }

    /// Whether no task runs except those without an end.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.background.len() <= self.endless.load(Ordering::Acquire)
    }

    /// Drops all tasks at once, as a crash would.
    pub(crate) async fn abandon(&self) {
        self.abandoned.cancel();
        for tasks in [&self.requests, &self.background] {
            tasks.close();
            tasks.wait().await;
        }
    }
}
