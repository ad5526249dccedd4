//! The thread log and everything derived from it, behind small traits.
//!
//! The log is insert-only and numbered per thread. Every other row about a conversation (runs, messages, calls,
//! results) is a projection written in the transaction that appends the event, and database constraints hold the
//! invariants, so that no caller can break them by mistake. This is the only crate that knows SQL.

mod error;
mod outbox;
mod rows;
pub mod sqlite;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{Delta, Event, MessageId, Principal, RunId, Scope, Seq, Stored, ThreadId};
use std::sync::Arc;

pub use error::Error;
pub use rows::{
    Ask, MessageRow, PageOf, RawEvent, RunRow, Submission, Submitted, Target, ThreadCursor, ThreadRow, Window,
};
pub use sqlite::Sqlite;

/// Events one read of the log returns at most.
pub const MAX_EVENTS_PER_READ: usize = 256;

/// Bytes of event bodies after which one read of the log stops.
pub const MAX_BYTES_PER_READ: usize = 64 * 1024;

/// Tells the rest of the process what has been committed. Called after the commit, in the order of the log.
pub trait Publish: Send + Sync + 'static {
    fn publish(&self, events: &[Arc<Stored>]);
}

/// Conversations and what was said in them.
#[async_trait]
pub trait Threads: Send + Sync {
    async fn create_thread(
        &self,
        scope: &Scope,
        id: ThreadId,
        title: Option<String>,
    ) -> Result<ThreadRow, Error>;
    /// The thread if it is this principal's and not deleted.
    async fn thread(&self, principal: &Principal, id: ThreadId) -> Result<ThreadRow, Error>;
    /// Newest first.
    async fn threads(&self, scope: &Scope, page: PageOf<ThreadCursor>) -> Result<Vec<ThreadRow>, Error>;
    /// Sets the title and records `thread:named`.
    async fn rename_thread(
        &self,
        principal: &Principal,
        id: ThreadId,
        title: String,
    ) -> Result<ThreadRow, Error>;
    /// Hides the thread at once; [`Maintenance::purge`] removes its rows later. Gives back the run to cancel.
    async fn delete_thread(&self, principal: &Principal, id: ThreadId) -> Result<Option<RunId>, Error>;
    /// The path that ends in `leaf`, oldest first. `window` keeps the newest or pages forward.
    async fn path(&self, thread: ThreadId, leaf: MessageId, window: Window)
    -> Result<Vec<MessageRow>, Error>;
}

/// Runs and the log they write.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Message, run and their first events, in one transaction.
    async fn submit(&self, submission: Submission) -> Result<Submitted, Error>;
    /// The run if it is this principal's and its thread is not deleted.
    async fn run(&self, principal: &Principal, id: RunId) -> Result<RunRow, Error>;
    /// Marks the run as to be cancelled; a run that has ended stays as it is. Either way, gives it back.
    async fn cancel(&self, principal: &Principal, id: RunId) -> Result<RunRow, Error>;
    /// The writing end of a run's log.
    fn log(&self, run: RunId, thread: ThreadId) -> Arc<dyn RunLog>;
}

/// The writing end of one run's log.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Queues a delta without waiting. Gives it back when the queue is full; then [`RunLog::room`] waits for space.
    fn push(&self, delta: Delta) -> Result<(), Delta>;
    /// Waits until the queue has room, or the log no longer takes deltas.
    async fn room(&self);
    /// Commits facts, after every delta pushed before them. A result for a call that already has one is dropped:
    /// the first wins. Returns which of the events were recorded.
    async fn record(&self, events: Vec<Event>) -> Result<Vec<bool>, Error>;
}

/// Reading the log.
#[async_trait]
pub trait Log: Send + Sync {
    /// Committed events after `after`, of one run or of the whole thread, oldest first and at most
    /// [`MAX_EVENTS_PER_READ`].
    async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error>;
    /// The facts of a run (no deltas), oldest first, for replaying it.
    async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error>;
    /// The newest sequence number of the thread.
    async fn head(&self, thread: ThreadId) -> Result<Seq, Error>;
}

/// What must cross scopes, and nothing else may.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Runs that have not ended, oldest first.
    async fn unfinished(&self) -> Result<Vec<RunRow>, Error>;
    /// Removes rows of deleted threads that have no run under way, a bounded number at a time. True when more is left.
    async fn purge(&self, deleted_before: Timestamp) -> Result<bool, Error>;
}

/// A whole store.
pub trait Store: Threads + Runs + Log + Maintenance + 'static {}

impl<T: Threads + Runs + Log + Maintenance + 'static> Store for T {}
