//! Threads, messages, runs, the log and jobs. Under an idempotency key ([`IdempotencyClaim`]) a change happens once; a second request
//! with the same key gets the present state.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::{
    AppId, Event, JobId, MessageId, PlannedCall, Principal, RunId, Scope, Seq, SpendBounds, SpendGrant,
    Stored, ThreadId, UserId,
};

use super::Store;
use crate::{
    BegunRun, Error, ForcedEnd, IdempotencyClaim, JobRow, JobUsage, MessageRow, NewJob, NewThreadRow,
    NoticesRead, PageOf, PageRows, QueuedRun, RawEvent, Retry, RunLog, RunRow, ShownMessage, Submission,
    SubmittedRun, ThreadEdit, ThreadFilter, ThreadImport, ThreadRow, ThreadTitle, TimeCursor, TreeRow,
    WatchedApps, WebhookMessageRow,
};

// Conversations and what was said in them. Under a key ([`IdempotencyClaim`]) a change happens once; a second time gives what
// there is now.
store_methods! {
    /// One that is there already is given back. [`Error::Changed`] while one of that id is being deleted.
    fn create_thread(scope: &Scope, thread: NewThreadRow, once: Option<IdempotencyClaim>) -> ThreadRow;
    /// Writes a conversation that was held elsewhere, all of it or nothing. False if its thread was there already: then
    /// nothing changes. [`Error::Changed`] while one of that id is being deleted.
    fn import_thread(scope: &Scope, import: ThreadImport) -> bool;
    /// The thread if it is this principal's and not deleted.
    fn thread(principal: &Principal, id: ThreadId) -> ThreadRow;
    /// Newest first.
    fn threads(scope: &Scope, filter: ThreadFilter, page: PageOf<TimeCursor<ThreadId>>) -> PageRows<ThreadRow>;
    /// The principal's threads of several apps, newest first.
    fn threads_of_apps(principal: &Principal, apps: Vec<AppId>, filter: ThreadFilter, page: PageOf<TimeCursor<ThreadId>>) -> PageRows<ThreadRow>;
    /// The scope's threads of these ids, in this order; those that are deleted are left out.
    fn threads_by_id(scope: &Scope, ids: &[ThreadId]) -> Vec<ThreadRow>;
    /// The titles of the threads that were used last, newest first, archived ones after the others: at most
    /// [`crate::MAX_TITLES_PER_READ`] of each.
    fn titles(scope: &Scope) -> Vec<ThreadTitle>;
    /// Changes what is named, all of it or nothing; a title is recorded as `thread:named`, the rest as `thread:changed`.
    fn change_thread(principal: &Principal, id: ThreadId, change: ThreadEdit, once: Option<IdempotencyClaim>) -> ThreadRow;
    /// Hides the thread at once and ends what waits for it; [`Store::purge`] removes its rows later. Gives back
    /// the run to stop.
    fn delete_thread(principal: &Principal, id: ThreadId, once: Option<IdempotencyClaim>) -> Option<RunId>;
    /// The newest messages of the path that ends in `leaf`, oldest of them first.
    fn path(thread: ThreadId, leaf: MessageId, newest: usize) -> Vec<MessageRow>;
    /// A page of that path from its beginning, oldest first. The cursor is the place in the log of the last one seen.
    /// Its cost depends on the page, not on the length of the path.
    fn messages(thread: ThreadId, leaf: MessageId, page: PageOf<Seq>) -> PageRows<ShownMessage>;
    /// A page of all messages up to a place in the log, on all branches, oldest first; without siblings.
    fn all_messages(thread: ThreadId, until: Seq, page: PageOf<Seq>) -> PageRows<ShownMessage>;
    /// A page of all messages with the beginnings of their texts, oldest first.
    fn tree(thread: ThreadId, page: PageOf<Seq>) -> PageRows<TreeRow>;
    /// Shows the branch through a message up to its newest message, and records it as `thread:head`. [`Error::Busy`]
    /// while a run is under way in the thread.
    fn choose_head(principal: &Principal, thread: ThreadId, message: MessageId, once: Option<IdempotencyClaim>) -> ThreadRow;
}

// Runs and the log they write.
store_methods! {
    /// Message, run and their first events, in one transaction; or what the thread's state, the key and the limits
    /// ([`Error::Limited`]) make of it.
    fn submit(submission: Submission) -> (SubmittedRun, Option<BegunRun>);
    /// Whether a request was accepted before under this key. [`Error::KeyReused`] if that was another one.
    fn is_made(scope: &Scope, once: IdempotencyClaim) -> bool;
    /// The run if it is this principal's and its thread is not deleted.
    fn run(principal: &Principal, id: RunId) -> RunRow;
    /// The runs that wait for a thread, the next one first. A thread has few of them.
    fn queued_runs(thread: ThreadId) -> Vec<QueuedRun>;
    /// Marks the run as to be cancelled, or ends it if it is only queued; a run that has ended stays as it is. Either
    /// way, gives it back.
    fn cancel(principal: &Principal, id: RunId, once: Option<IdempotencyClaim>) -> RunRow;
    /// Ends a run from its rows alone, also if its log cannot be read: each call without a result gets one. A run that
    /// was told to stop ends so. Nothing changes if it has ended; [`Error::Fenced`] for an earlier owner.
    fn force_end(run: &RunRow, end: ForcedEnd) -> ();
    /// Whether the number was left out of the thread's sequence: a client that has seen an event of that number has
    /// seen one that is lost. The last number that is left out belongs to no event, and counts as one of the log.
    fn is_skipped(thread: ThreadId, seq: Seq) -> bool;
}

// Reading the log.
store_methods! {
    /// Committed events after `after`, of one run or of the whole thread, oldest first and at most
    /// [`crate::MAX_EVENTS_PER_READ`]. [`Error::Pruned`] if there are some of the run and its deltas were pruned, which is
    /// decided in the same moment in which they are read. A thread's are without the deltas that were pruned.
    fn events(thread: ThreadId, run: Option<RunId>, after: Seq) -> Vec<Arc<Stored>>;
    /// The facts of a run (no deltas), oldest first, for replaying it.
    fn facts(run: RunId) -> Vec<RawEvent>;
    /// The first message of the user in the thread that says something.
    fn first_message(thread: ThreadId) -> Option<MessageId>;
    /// Whether the thread has a title, or is gone. In both cases it needs no title.
    fn is_named(thread: ThreadId) -> bool;
    /// The newest sequence number of the thread.
    fn head(thread: ThreadId) -> Seq;
}

// The channel of a user.
store_methods! {
    /// Notices after a place, oldest first and at most [`crate::MAX_NOTICES_PER_READ`] rows of them; without a place, only
    /// where the channel stands. [`Store::purge`] sweeps old ones.
    fn notices(user: &UserId, after: Option<u64>) -> NoticesRead;
}

// Work in the background: at least once in execution, once in effect.
store_methods! {
    /// Adds a job that no run causes, unless one of its kind and key was there before.
    fn schedule(job: NewJob) -> ();
    /// Adds a job for a scope, whose own its key is, unless one of its kind and key is ready or under way. A job
    /// that is done or dead is replaced by this one.
    fn schedule_for(scope: &Scope, job: NewJob) -> ();
    /// Takes the next job that is due, for the owner of the epoch it comes with.
    fn claim() -> Option<JobRow>;
    /// When the next job is due, if any is ready.
    fn next_due() -> Option<Timestamp>;
    /// Commits a job's effect, if it has one, the job as done, and what it spent on a model, together.
    fn complete(job: &JobRow, effect: Option<Event>, spent: Option<JobUsage>) -> ();
    /// Notes why an attempt failed, when there is another, and what this one spent on a model.
    fn fail(job: &JobRow, error: String, retry: Retry, spent: Option<JobUsage>) -> ();
    /// Holds what a model call of the job may spend, as [`RunLog::reserve`] does, until the job is done or has failed.
    fn reserve_for_job(job: &JobRow, call: PlannedCall, bounds: SpendBounds) -> SpendGrant;
    /// Jobs of all scopes, newest first: for the admin.
    fn jobs(page: PageOf<TimeCursor<JobId>>) -> PageRows<JobRow>;
    /// Jobs of one app, newest first.
    fn jobs_of_app(app: &AppId, page: PageOf<TimeCursor<JobId>>) -> PageRows<JobRow>;
    /// The message that a job of the kind webhook delivers.
    fn webhook_message(job: JobId) -> Option<WebhookMessageRow>;
}

impl Store {
    /// Says which apps have webhooks from now on. Their messages are stored with the events that they tell of.
    pub fn watch_webhooks(&self, watched: WatchedApps) {
        self.database.watch_webhooks(watched)
    }

    /// The writing end of a run's log, for the owner of this epoch.
    pub fn log(&self, run: &RunRow) -> RunLog {
        RunLog::new(self.database.run_log(run))
    }
}
