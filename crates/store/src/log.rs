//! The two ends at which live streams meet the log: commits are published, and followers read.

use std::sync::Arc;

use async_trait::async_trait;
use protocol::{RunId, Seq, Stored, ThreadId};

use crate::{Error, NewestNotice, NodeNews, RawEvent};

/// Tells the rest of the process what has been committed. Called after the commit, in the order of the log.
pub trait Publish: Send + Sync + 'static {
    fn publish(&self, events: &[Arc<Stored>]);

    /// The newest notices of users. They can be read by now.
    fn publish_notices(&self, _newest: &[NewestNotice]) {}

    /// There is a new job, or something new that expires.
    fn publish_work(&self) {}

    /// The newest numbers of threads to which another node has written. The events can be read by now.
    fn publish_newest(&self, _newest: &[(ThreadId, Seq)]) {}

    /// Tells of other changes by other nodes.
    fn publish_news(&self, _news: NodeNews) {}

    /// Whether a reader on this node follows the thread, so that the events of another node are wanted.
    fn is_followed(&self, _thread: ThreadId) -> bool {
        true
    }

    /// The threads that readers on this node follow.
    fn followed_threads(&self) -> Vec<ThreadId> {
        Vec::new()
    }

    /// Users may have notices that no reader on this node was told of.
    fn publish_notice_gap(&self) {}
}

/// Reading the log, for followers of a thread.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Committed events after `after`, of one run or of the whole thread, oldest first and at most
    /// [`crate::MAX_EVENTS_PER_READ`]. [`Error::Pruned`] if there are some of the run and its deltas were pruned, which is
    /// decided in the same moment in which they are read. A thread's are without the deltas that were pruned.
    async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error>;
    /// The facts of a run (no deltas), oldest first, for replaying it.
    async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error>;
}
