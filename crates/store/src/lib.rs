//! The thread log and everything derived from it, behind small traits.
//!
//! The log is insert-only and numbered per thread. Every other row about a conversation (runs, messages, calls,
//! results) is a projection written in the transaction that appends the event, and database constraints hold the
//! invariants, so that no caller can break them by mistake. This is the only crate that knows SQL.

mod context;
mod deeds;
mod erasure;
mod error;
mod memory;
mod newest;
mod outbox;
mod outside;
mod rows;
pub mod source;
pub mod sqlite;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    ActionId, AppId, Decision, Delta, Event, KeyId, MemoryId, MessageId, PlannedCall, Principal, ProposalId,
    RunId, Scope, Seq, SpendBounds, SpendGrant, Stored, ThreadId, Usage, Used, UserLimits,
};
use std::sync::Arc;

pub use context::{
    ChunkRow, DocumentRow, Documents, MAX_CHUNK_BYTES, MAX_CHUNKS_PER_DOCUMENT, MAX_CHUNKS_PER_READ,
    MAX_DOCUMENTS_PER_SCOPE, MAX_PERSONA_BYTES, MAX_PERSONAS_PER_SCOPE, MAX_PIN_BYTES, MAX_PINS_PER_SCOPE,
    MAX_PROFILE_BYTES, MAX_SUMMARIES_PER_READ, MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, NewChunk, NewDocument,
    NewPersona, NewPin, NewText, PersonaRow, Personas, PinRow, Pins, ProfileRow, Profiles, Summaries,
    SummaryRow, Texts,
};
pub use deeds::{
    ActionEnd, ActionFilter, ActionRow, Change, FileRow, FileSize, Files, NewAction, NewProposal,
    ProposalRow, RecordQuery, RecordRow, Records, TimeCursor, Verified, Write,
};
pub use erasure::{Erasure, MAX_ACTIONS_PER_PURGE, MemoryPurge, PurgedWords};
pub use error::Error;
pub use memory::{
    Extracted, Extraction, Item, ItemRef, ItemRow, MemoryChange, MemoryCursor, MemoryEdit, MemoryHistory,
    MemoryRow, MemoryVersion, NewMemory, NewVector, Said, SnapshotLine, Source, StoredVector, Tombstone,
};
pub use newest::{newest_actions, newest_records};
pub use outside::{
    Approved, CredentialRow, Credentials, MAX_CREDENTIAL_BYTES, MAX_CREDENTIAL_NAME_BYTES,
    MAX_CREDENTIALS_PER_SCOPE, MAX_MCP_DEFINITION_BYTES, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS_PER_APP,
    MAX_MCP_TOOLS_PER_SERVER, McpOffer, McpToolRow, McpTools,
};
pub use rows::{
    Admitted, Ask, ForcedEnd, JobCursor, JobRow, KeyRow, MessageRow, NewJob, NewThread, Once, PageOf,
    PageRows, RawEvent, Request, Retry, RunJob, RunRow, Spent, Stop, Submission, Submitted, Target,
    ThreadCursor, ThreadEdit, ThreadRow, UsageRow,
};
pub use sqlite::{Sqlite, day};

/// Events one read of the log returns at most.
pub const MAX_EVENTS_PER_READ: usize = 256;

/// Bytes of event bodies after which one read of the log stops. A reader who takes nothing holds as much and no more.
pub const MAX_BYTES_PER_READ: usize = 32 * 1024;

/// Bytes of stored text after which a page of a list ends. A page has at least one entry, however large that is.
pub const MAX_BYTES_PER_PAGE: usize = 4 * 1024 * 1024;

/// Messages that may wait for one thread.
pub const MAX_QUEUED_PER_THREAD: usize = 20;

/// Bytes of one memory.
pub const MAX_MEMORY_BYTES: usize = 4 * 1024;

/// Active memories of one user in one app.
pub const MAX_MEMORIES_PER_SCOPE: usize = 200_000;

/// Sources of one memory. It inherits those of others up to here.
pub const MAX_SOURCES_PER_MEMORY: usize = 256;

/// Changes of one extraction.
pub const MAX_CHANGES_PER_EXTRACTION: usize = 256;

/// Memories that expire with one extraction, so that no stream feels it. If more are too many, the next one goes on.
pub const MAX_EXPIRED_PER_EXTRACTION: usize = 200;

/// Lines of one snapshot, and bytes of each.
pub const MAX_SNAPSHOT_LINES: usize = 2_000;
pub const MAX_SNAPSHOT_LINE_BYTES: usize = 8 * 1024;

/// Words that one read of what was forgotten returns at most, the newest.
pub const MAX_TOMBSTONES_PER_READ: usize = 100_000;

/// Items after which one read of what changed stops, and bytes of their texts and vectors.
pub const MAX_ITEMS_PER_READ: usize = 4_096;
pub const MAX_ITEM_BYTES_PER_READ: usize = 8 * 1024 * 1024;

/// Bytes of one vector.
pub const MAX_VECTOR_BYTES: usize = 64 * 1024;

/// Bytes of one record's data as JSON.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Records of one type that one user has in one app.
pub const MAX_RECORDS_PER_TYPE: usize = 10_000;

/// Bytes of one file.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// Bytes of a file's path.
pub const MAX_PATH_BYTES: usize = 256;

/// Files that one user has in one app.
pub const MAX_FILES_PER_SCOPE: usize = 1_000;

/// Bytes that they have together, so that all of them can be looked at in one go.
pub const MAX_FILE_BYTES_PER_SCOPE: usize = 16 * 1024 * 1024;

/// Things that one call can change.
pub const MAX_WRITES_PER_CALL: usize = 256;

/// Open proposals of one user in one app that outlive their runs.
pub const MAX_OPEN_PROPOSALS: usize = 100;

/// Rows of usage that one read returns at most, the newest days first.
pub const MAX_USAGE_ROWS: usize = 10_000;

/// Attempts after which a job is dead.
pub const MAX_JOB_ATTEMPTS: u32 = 5;

/// Tells the rest of the process what has been committed. Called after the commit, in the order of the log.
pub trait Publish: Send + Sync + 'static {
    fn publish(&self, events: &[Arc<Stored>]);
}

/// Conversations and what was said in them. Under a key ([`Once`]) a change happens once; a second time gives what
/// there is now.
#[async_trait]
pub trait Threads: Send + Sync {
    /// One that is there already is given back. [`Error::Changed`] while one of that id is being deleted.
    async fn create_thread(
        &self,
        scope: &Scope,
        thread: NewThread,
        once: Option<Once>,
    ) -> Result<ThreadRow, Error>;
    /// The thread if it is this principal's and not deleted.
    async fn thread(&self, principal: &Principal, id: ThreadId) -> Result<ThreadRow, Error>;
    /// Newest first.
    async fn threads(&self, scope: &Scope, page: PageOf<ThreadCursor>) -> Result<PageRows<ThreadRow>, Error>;
    /// Changes what is named, all of it or nothing; a title is recorded as `thread:named`.
    async fn change_thread(
        &self,
        principal: &Principal,
        id: ThreadId,
        change: ThreadEdit,
        once: Option<Once>,
    ) -> Result<ThreadRow, Error>;
    /// Hides the thread at once and ends what waits for it; [`Maintenance::purge`] removes its rows later. Gives back
    /// the run to stop.
    async fn delete_thread(
        &self,
        principal: &Principal,
        id: ThreadId,
        once: Option<Once>,
    ) -> Result<Option<RunId>, Error>;
    /// The newest messages of the path that ends in `leaf`, oldest of them first.
    async fn path(&self, thread: ThreadId, leaf: MessageId, newest: usize) -> Result<Vec<MessageRow>, Error>;
    /// A page of that path from its beginning, oldest first. The cursor is the place in the log of the last one seen.
    /// What it costs depends on the page, not on the length of the path.
    async fn messages(
        &self,
        thread: ThreadId,
        leaf: MessageId,
        page: PageOf<Seq>,
    ) -> Result<PageRows<MessageRow>, Error>;
}

/// Runs and the log they write.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Message, run and their first events, in one transaction; or what the thread's state, the key and the limits
    /// ([`Error::Limited`]) make of it.
    async fn submit(&self, submission: Submission) -> Result<Submitted, Error>;
    /// The run if it is this principal's and its thread is not deleted.
    async fn run(&self, principal: &Principal, id: RunId) -> Result<RunRow, Error>;
    /// Marks the run as to be cancelled, or ends it if it is only queued; a run that has ended stays as it is. Either
    /// way, gives it back.
    async fn cancel(&self, principal: &Principal, id: RunId, once: Option<Once>) -> Result<RunRow, Error>;
    /// Ends a run from its rows alone, whatever its log contains: each call without a result gets one. A run that was
    /// told to stop ends so. Nothing changes if it has ended; [`Error::Fenced`] for an earlier owner.
    async fn force_end(&self, run: &RunRow, end: ForcedEnd) -> Result<(), Error>;
    /// Whether the number was left out of the thread's sequence: whoever has seen an event of that number has seen one
    /// that is lost. The last number that is left out belongs to nobody, and counts as one of the log.
    async fn is_skipped(&self, thread: ThreadId, seq: Seq) -> Result<bool, Error>;
    /// The writing end of a run's log, for the owner of this epoch.
    fn log(&self, run: &RunRow) -> Arc<dyn RunLog>;
}

/// The writing end of one run's log.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Holds what the run's next model call may spend, if that fits what its user has spent and what other calls hold.
    /// It is given back by the event that ends or repeats the step, by the run's end, and by [`Maintenance::adopt`].
    async fn reserve(&self, call: PlannedCall, bounds: SpendBounds) -> Result<SpendGrant, Error>;
    /// Queues a delta without waiting. Gives it back when the queue is full; then [`RunLog::room`] waits for space.
    fn push(&self, delta: Delta) -> Result<(), Delta>;
    /// Waits until the queue has room, or the log no longer takes deltas.
    async fn room(&self);
    /// Commits facts, after every delta pushed before them, with the jobs they cause and the writes of the one call
    /// whose result is among them, or with what is remembered, pinned and kept with `context:loaded`. A text is not kept
    /// when what it comes from is gone by then. A result for a call that already has one is dropped, with its writes:
    /// the first wins. So is `proposal:closed` for one that was decided. `run:end` begins the thread's next queued run.
    /// Returns which of the events were recorded. [`Error::Changed`] when a write came too late: then nothing is
    /// committed.
    async fn record(
        &self,
        events: Vec<Event>,
        jobs: Vec<NewJob>,
        writes: Vec<Write>,
    ) -> Result<Vec<bool>, Error>;
}

/// Reading the log.
#[async_trait]
pub trait Log: Send + Sync {
    /// Committed events after `after`, of one run or of the whole thread, oldest first and at most
    /// [`MAX_EVENTS_PER_READ`]. [`Error::Pruned`] if there are some of the run and its deltas were pruned, which is
    /// decided in the same moment in which they are read. A thread's are without the deltas that were pruned.
    async fn events(
        &self,
        thread: ThreadId,
        run: Option<RunId>,
        after: Seq,
    ) -> Result<Vec<Arc<Stored>>, Error>;
    /// The facts of a run (no deltas), oldest first, for replaying it.
    async fn facts(&self, run: RunId) -> Result<Vec<RawEvent>, Error>;
    /// What was said first in the thread.
    async fn first_message(&self, thread: ThreadId) -> Result<Option<MessageId>, Error>;
    /// Whether the thread has a title, or is gone: either way nobody looks for one.
    async fn is_named(&self, thread: ThreadId) -> Result<bool, Error>;
    /// The newest sequence number of the thread.
    async fn head(&self, thread: ThreadId) -> Result<Seq, Error>;
}

/// Work in the background: at least once in execution, once in effect.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds a job that no run causes, unless one of its kind and key was there before.
    async fn schedule(&self, job: NewJob) -> Result<(), Error>;
    /// Adds a job for a scope, whose own its key is, unless one of its kind and key is ready or under way. Where an
    /// earlier one is done or dead, this takes its place.
    async fn schedule_for(&self, scope: &Scope, job: NewJob) -> Result<(), Error>;
    /// Takes the next job that is due, for the owner of the epoch it comes with.
    async fn claim(&self) -> Result<Option<JobRow>, Error>;
    /// When the next job is due, if any is ready.
    async fn next_due(&self) -> Result<Option<Timestamp>, Error>;
    /// Commits a job's effect, if it has one, the job as done, and what it spent on a model, together.
    async fn complete(&self, job: &JobRow, effect: Option<Event>, spent: Option<Spent>) -> Result<(), Error>;
    /// Notes why an attempt failed, when there is another, and what this one spent on a model.
    async fn fail(
        &self,
        job: &JobRow,
        error: String,
        retry: Retry,
        spent: Option<Spent>,
    ) -> Result<(), Error>;
    /// Holds what a model call of the job may spend, as [`RunLog::reserve`] does, until the job is done or has failed.
    async fn reserve_for_job(
        &self,
        job: &JobRow,
        call: PlannedCall,
        bounds: SpendBounds,
    ) -> Result<SpendGrant, Error>;
    /// Newest first, of all scopes: for whoever runs the server.
    async fn jobs(&self, page: PageOf<JobCursor>) -> Result<PageRows<JobRow>, Error>;
    /// The same, of one app.
    async fn jobs_of_app(&self, app: &AppId, page: PageOf<JobCursor>) -> Result<PageRows<JobRow>, Error>;
}

/// Keys of users. What proves a key is known here by its hash alone.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Adds a key. Under the key of a request that the scope made before, gives the one made then.
    async fn add_key(
        &self,
        key: KeyRow,
        hash: [u8; 32],
        once: Option<(Scope, Once)>,
    ) -> Result<Option<KeyId>, Error>;
    /// The keys that were not revoked, by their hash.
    async fn good_keys(&self) -> Result<Vec<([u8; 32], KeyRow)>, Error>;
    /// All keys, oldest first, revoked ones too.
    async fn keys(&self) -> Result<Vec<KeyRow>, Error>;
    /// False when there is no such key, or it is not for `only_app`, where that is given.
    async fn revoke_key(&self, id: KeyId, only_app: Option<AppId>, by: String) -> Result<bool, Error>;
}

/// Durable facts about users. Each change is a version of its own; one that is not active is in no prompt, but can still
/// be looked at and brought back. Under a key ([`Once`]) a change happens once; a second time gives what there is now.
#[async_trait]
pub trait Memories: Send + Sync {
    async fn add_memory(
        &self,
        scope: &Scope,
        memory: NewMemory,
        once: Option<Once>,
    ) -> Result<MemoryRow, Error>;
    /// Marks the key of an import as used, so that nothing else is asked under it. The same import again is no other: what
    /// it adds has keys of its own.
    async fn begin_import(&self, scope: &Scope, once: Once) -> Result<(), Error>;
    /// The memory if it is this principal's, whatever its status.
    async fn memory(&self, principal: &Principal, id: MemoryId) -> Result<MemoryRow, Error>;
    async fn memory_history(&self, principal: &Principal, id: MemoryId) -> Result<MemoryHistory, Error>;
    /// Newest first: the active ones, or those of a status, or `all`.
    async fn memories(
        &self,
        scope: &Scope,
        status: Option<&str>,
        page: PageOf<MemoryCursor>,
    ) -> Result<PageRows<MemoryRow>, Error>;
    /// The newest `limit` active ones, oldest first, so that a new one changes only the end of a prompt.
    async fn active_memories(&self, scope: &Scope, limit: usize) -> Result<Vec<MemoryRow>, Error>;
    /// Those of these that are the scope's and active, in the given order.
    async fn memories_by_id(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<MemoryRow>, Error>;
    /// Changes an active one by hand. [`Error::Changed`] for any other.
    async fn edit_memory(
        &self,
        principal: &Principal,
        id: MemoryId,
        edit: MemoryEdit,
        once: Option<Once>,
    ) -> Result<MemoryRow, Error>;
    /// Forgets the memory, its vectors and the words it rests on. Forgetting what is forgotten changes nothing.
    async fn forget_memory(
        &self,
        principal: &Principal,
        id: MemoryId,
        once: Option<Once>,
    ) -> Result<(), Error>;
    /// Makes it active again, and the words it rests on usable. Restoring an active one changes nothing.
    async fn restore_memory(
        &self,
        principal: &Principal,
        id: MemoryId,
        once: Option<Once>,
    ) -> Result<MemoryRow, Error>;
    /// Whether the user wants nothing to be remembered.
    async fn memory_is_off(&self, scope: &Scope) -> Result<bool, Error>;
    async fn set_memory_off(&self, scope: &Scope, off: bool, once: Option<Once>) -> Result<(), Error>;
    /// What was said in the thread, on any branch, and not yet looked at for memories: oldest first.
    async fn unextracted(&self, thread: ThreadId, limit: usize) -> Result<Vec<MessageRow>, Error>;
    /// Commits what a job has extracted, the job as done and what it spent, together. Nothing is changed where memory is
    /// off, the thread is deleted, or another job was faster with the same messages; [`Error::Changed`] if one was
    /// faster with some of them.
    async fn extract(&self, job: &JobRow, extraction: Extraction) -> Result<Extracted, Error>;
    /// Keeps what a thread's prompt says of the user, at most [`MAX_SNAPSHOT_LINES`], without lines whose source is gone.
    /// The first snapshot stays, and is given back.
    async fn keep_snapshot(
        &self,
        scope: &Scope,
        thread: ThreadId,
        lines: Vec<SnapshotLine>,
    ) -> Result<Vec<SnapshotLine>, Error>;
    /// What is kept for a thread, if anything is.
    async fn snapshot(&self, scope: &Scope, thread: ThreadId) -> Result<Option<Vec<SnapshotLine>>, Error>;
    /// Those of these that are forgotten, or not the scope's at all.
    async fn forgotten_among(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<MemoryId>, Error>;
}

/// What can be recalled of a scope, in the order in which it changed.
#[async_trait]
pub trait Recall: Send + Sync {
    /// The newest change; 0 if there is none.
    async fn recall_head(&self, scope: &Scope) -> Result<u64, Error>;
    /// What changed after `after`, each as it is now, with its vector of the model. At most `limit`,
    /// [`MAX_ITEMS_PER_READ`] and about [`MAX_ITEM_BYTES_PER_READ`]: only when none come has all been read.
    async fn recall_changes(
        &self,
        scope: &Scope,
        after: u64,
        model: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ItemRow>, Error>;
    /// What was forgotten, oldest first, at most [`MAX_TOMBSTONES_PER_READ`].
    async fn tombstones(&self, scope: &Scope) -> Result<Vec<Tombstone>, Error>;
    /// Keeps vectors of active memories, of messages and of pieces of documents that are not deleted; others are ignored.
    /// Each item counts as changed.
    async fn put_vectors(&self, scope: &Scope, model: &str, vectors: Vec<NewVector>) -> Result<(), Error>;
}

/// What was used. It is written with the events and jobs that used it; here it is read. Days are as [`day`] says them.
#[async_trait]
pub trait Usages: Send + Sync {
    /// What a user has used from one day to another, both included: newest day first, then by app and model, at most
    /// [`MAX_USAGE_ROWS`].
    async fn usage(&self, user: &Principal, from_day: String, to_day: String)
    -> Result<Vec<UsageRow>, Error>;
    /// What the scope has used on a day, over all models.
    async fn usage_of_day(&self, scope: &Scope, day: String) -> Result<Usage, Error>;
    /// What the scope has done in the minute and the day of a moment, and how many of its runs work now,
    /// as far as these limits are about it.
    async fn used(&self, scope: &Scope, limits: UserLimits, at: Timestamp) -> Result<Used, Error>;
}

/// The ledger of what tools did. Actions of runs are written with the events that tell of them.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Newest first. The cursor is the position of the last one seen.
    async fn actions(
        &self,
        scope: &Scope,
        filter: ActionFilter,
        page: PageOf<u64>,
    ) -> Result<PageRows<ActionRow>, Error>;
    /// The action if it is this principal's.
    async fn action(&self, principal: &Principal, id: ActionId) -> Result<ActionRow, Error>;
    /// The action if it is this scope's.
    async fn action_of(&self, scope: &Scope, id: ActionId) -> Result<ActionRow, Error>;
    /// Takes back what an action changed, as the new action `by`, in one transaction. [`Error::Changed`] says why it
    /// cannot be. Under the key of an earlier request, gives what that one made.
    async fn undo(
        &self,
        principal: &Principal,
        id: ActionId,
        by: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error>;
    /// Begins to take back an action that acted outside: commits the intent of `by`, which is to be ended with
    /// [`Actions::end_action`]. Complete, it has taken the action back; failed, another may try; unknown, none may.
    /// [`Error::Changed`] says why the action cannot be taken back. Under the key of an earlier request, gives what that
    /// one began, as it is now.
    async fn begin_undo(
        &self,
        principal: &Principal,
        id: ActionId,
        by: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error>;
    /// Confirms an open proposal that outlives its run, and commits the intent of the action it becomes. Under the key
    /// of an earlier request, gives the action that one made. [`Error::Decided`] if it is decided already or too late.
    async fn begin_action(
        &self,
        scope: &Scope,
        proposal: ProposalId,
        action: NewAction,
        once: Option<Once>,
    ) -> Result<ActionRow, Error>;
    /// Commits its outcome with its writes.
    async fn end_action(&self, scope: &Scope, id: ActionId, end: ActionEnd) -> Result<ActionRow, Error>;
}

/// Calls that wait for a yes.
#[async_trait]
pub trait Proposals: Send + Sync {
    /// Newest first; only the open ones if so asked.
    async fn proposals(
        &self,
        scope: &Scope,
        open: bool,
        page: PageOf<TimeCursor<ProposalId>>,
    ) -> Result<PageRows<ProposalRow>, Error>;
    async fn proposal(&self, principal: &Principal, id: ProposalId) -> Result<ProposalRow, Error>;
    /// The proposal if it is this scope's.
    async fn proposal_of(&self, scope: &Scope, id: ProposalId) -> Result<ProposalRow, Error>;
    /// The open ones of a run.
    async fn proposals_of(&self, run: RunId) -> Result<Vec<ProposalRow>, Error>;
    /// Decides an open proposal. For one of a run, `proposal:closed` is recorded, and the call's denied result unless it
    /// is confirmed. [`Error::Decided`] if it is decided already or too late; one of a run whose time is over is closed by
    /// [`Maintenance::expire_proposals`], which says which threads go on. Under the key of an earlier request, gives it
    /// as it is now.
    async fn decide(
        &self,
        principal: &Principal,
        id: ProposalId,
        decision: Decision,
        once: Option<Once>,
    ) -> Result<ProposalRow, Error>;
}

/// What must cross scopes, and nothing else may.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Makes this process the owner of every run under way and of every job begun, whoever owned them before, and gives
    /// back what their model calls held. Returns the runs, oldest first.
    async fn adopt(&self) -> Result<Vec<RunRow>, Error>;
    /// The run under way in a thread.
    async fn active_run(&self, thread: ThreadId) -> Result<Option<RunRow>, Error>;
    /// Whether the thread is deleted and has rows that [`Maintenance::purge`] will remove.
    async fn is_deleted(&self, thread: ThreadId) -> Result<bool, Error>;
    /// Removes rows of deleted threads that have no run under way, of deleted documents and of those that were not whole
    /// within an hour, and keys of requests and jobs from before `forget_before`, a bounded number at a time. A job that
    /// is dead is kept thirty days longer than one that is done. Goes on where adding a document was cut after it was
    /// whole. True when more is left.
    async fn purge(&self, deleted_before: Timestamp, forget_before: Timestamp) -> Result<bool, Error>;
    /// Removes the deltas of one run that ended at `ended_before` or earlier, all of them together; its facts stay. True
    /// when there may be another.
    async fn prune(&self, ended_before: Timestamp) -> Result<bool, Error>;
    /// Closes proposals whose time is over, a bounded number at a time. Gives the threads whose runs can go on.
    async fn expire_proposals(&self) -> Result<Vec<ThreadId>, Error>;
    /// When the next open proposal expires.
    async fn next_expiry(&self) -> Result<Option<Timestamp>, Error>;
    /// Actions without a run that were begun and not ended, oldest first: their process has died. Those with `undo_of`
    /// set out to take back another.
    async fn begun_actions(&self) -> Result<Vec<ActionRow>, Error>;
    /// Goes through every chain of the ledger.
    async fn verify_ledger(&self) -> Result<Verified, Error>;
    /// Scopes after another one, in order, with something to recall that has no vector of this model. It looks at every
    /// item on the way.
    async fn scopes_to_embed(
        &self,
        model: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<Scope>, Error>;
    /// Apps that are missing, and since when. As many as there are apps.
    async fn missing_apps(&self) -> Result<Vec<(AppId, Timestamp)>, Error>;
    /// Notes that an app is missing. Gives since when it is.
    async fn note_missing(&self, app: &AppId) -> Result<Timestamp, Error>;
    /// Notes that it is there again.
    async fn note_found(&self, app: &AppId) -> Result<(), Error>;
    /// False once nothing more can be written, because the disk or the writer itself has failed: only a restart knows what
    /// is on the disk.
    fn is_open(&self) -> bool;
    /// Returns when that is so.
    async fn writing_ended(&self);
    /// Random bytes that were drawn when the store was made: nobody outside knows them.
    async fn secret(&self) -> Result<[u8; 32], Error>;
}

/// A whole store.
pub trait Store:
    Threads
    + Runs
    + Log
    + Jobs
    + Keys
    + Memories
    + Recall
    + Usages
    + Actions
    + Proposals
    + Records
    + Files
    + Texts
    + Personas
    + Pins
    + Summaries
    + Documents
    + Profiles
    + McpTools
    + Credentials
    + Maintenance
    + Erasure
    + 'static
{
}

impl<T> Store for T where
    T: Threads
        + Runs
        + Log
        + Jobs
        + Keys
        + Memories
        + Recall
        + Usages
        + Actions
        + Proposals
        + Records
        + Files
        + Texts
        + Personas
        + Pins
        + Summaries
        + Documents
        + Profiles
        + McpTools
        + Credentials
        + Maintenance
        + Erasure
        + 'static
{
}
