//! Memories, recall, and the removal of everything that is said about a deleted thing.
//!
//! Each change of a memory is a version. A memory that is not active is in no prompt, but can be read and restored.

use jiff::Timestamp;
use protocol::{ActionId, MemoryId, Principal, Scope, ThreadId};

use super::Store;
use crate::{
    Error, ExtractedMemories, HiddenWords, IdempotencyClaim, ItemRow, JobRow, MemoryEdit, MemoryExtraction,
    MemoryHistory, MemoryPurge, MemoryRow, MemoryStatus, MessageRow, NewMemoryRow, NewVector, PageOf,
    PageRows, SnapshotLine, TimeCursor, TombstoneRow,
};

// Durable facts about users. Each change is a version of its own; one that is not active is in no prompt, but can still
// be looked at and brought back. Under a key ([`IdempotencyClaim`]) a change happens once; a second time gives what there is now.
store_methods! {
    fn add_memory(scope: &Scope, memory: NewMemoryRow, once: Option<IdempotencyClaim>) -> MemoryRow;
    /// Marks the key of an import as used, so that nothing else is asked under it. An import that is sent again is no
    /// other: what it adds has keys of its own.
    fn begin_import(scope: &Scope, once: IdempotencyClaim) -> ();
    /// The memory if it is this principal's, in any status.
    fn memory(principal: &Principal, id: MemoryId) -> MemoryRow;
    fn memory_history(principal: &Principal, id: MemoryId) -> MemoryHistory;
    /// Newest first: those of a status, or all of them.
    fn memories(scope: &Scope, status: Option<MemoryStatus>, page: PageOf<TimeCursor<MemoryId>>) -> PageRows<MemoryRow>;
    /// The newest `limit` active ones, oldest first, so that a new one changes only the end of a prompt.
    fn active_memories(scope: &Scope, limit: usize) -> Vec<MemoryRow>;
    /// The active memories of the scope among these, in the given order.
    fn memories_by_id(scope: &Scope, ids: &[MemoryId]) -> Vec<MemoryRow>;
    /// Changes an active one by hand. [`Error::Changed`] for any other.
    fn edit_memory(principal: &Principal, id: MemoryId, edit: MemoryEdit, once: Option<IdempotencyClaim>) -> MemoryRow;
    /// Forgets the memory, its vectors and the words it rests on. Forgetting what is forgotten changes nothing.
    fn forget_memory(principal: &Principal, id: MemoryId, once: Option<IdempotencyClaim>) -> ();
    /// Makes it active again, and the words it rests on usable. Restoring an active one changes nothing.
    fn restore_memory(principal: &Principal, id: MemoryId, once: Option<IdempotencyClaim>) -> MemoryRow;
    /// Whether the user wants nothing to be remembered.
    fn memory_is_off(scope: &Scope) -> bool;
    fn set_memory_off(scope: &Scope, off: bool, once: Option<IdempotencyClaim>) -> ();
    /// Messages of the thread, on any branch, that no job has looked at for memories: oldest first.
    fn unextracted(thread: ThreadId, limit: usize) -> Vec<MessageRow>;
    /// Commits what a job has extracted, the job as done and what it spent, together. Nothing is changed where memory is
    /// off, the thread is deleted, or another job was faster with the same messages; [`Error::Changed`] if one was
    /// faster with some of them.
    fn extract(job: &JobRow, extraction: MemoryExtraction) -> ExtractedMemories;
    /// Keeps what a thread's prompt says of the user, at most [`crate::MAX_SNAPSHOT_LINES`], without lines whose source is gone.
    /// The first snapshot stays, and is given back.
    fn keep_snapshot(scope: &Scope, thread: ThreadId, lines: Vec<SnapshotLine>) -> Vec<SnapshotLine>;
    /// The snapshot of a thread, if there is one.
    fn snapshot(scope: &Scope, thread: ThreadId) -> Option<Vec<SnapshotLine>>;
    /// The memories among these that are forgotten, or not the scope's at all.
    fn forgotten_among(scope: &Scope, ids: &[MemoryId]) -> Vec<MemoryId>;
}

// Recall: the items of a scope, in the order in which they changed.
store_methods! {
    /// The newest change; 0 if there is none.
    fn recall_head(scope: &Scope) -> u64;
    /// Items that changed after `after`, each as it is now, with its vector of the model. At most `limit`,
    /// [`crate::MAX_ITEMS_PER_READ`] and about [`crate::MAX_ITEM_BYTES_PER_READ`]: only when none come has all been read.
    fn recall_changes(scope: &Scope, after: u64, model: Option<&str>, limit: usize) -> Vec<ItemRow>;
    /// Words that were forgotten, oldest first, at most [`crate::MAX_TOMBSTONES_PER_READ`].
    fn tombstones(scope: &Scope) -> Vec<TombstoneRow>;
    /// Keeps vectors of active memories, of messages and of pieces of documents that are not deleted; others are ignored.
    /// Each item counts as changed.
    fn put_vectors(scope: &Scope, model: &str, vectors: Vec<NewVector>) -> ();
}

store_methods! {
    /// The words that were forgotten with a memory.
    fn words_of_memory(principal: &Principal, id: MemoryId) -> Vec<TombstoneRow>;
    /// Removes a forgotten memory for good, with those that it took the place of, its versions, sources and words, and
    /// with what these actions said. Shadows take the place of the words. [`Error::Changed`] unless it is forgotten.
    fn purge_memory(principal: &Principal, id: MemoryId, purge: MemoryPurge, once: Option<IdempotencyClaim>) -> ();
    /// Erases what these actions of a scope said, at most [`crate::MAX_ACTIONS_PER_PURGE`].
    fn erase_actions(scope: &Scope, actions: Vec<ActionId>) -> ();
    /// Words of the scope that no model sees any more.
    fn hidden_words(scope: &Scope) -> HiddenWords;
    /// How often something of the scope was erased: what is made of its records is named by it.
    fn erasures(scope: &Scope) -> u64;
    /// Erases what is said of deleted things, a bounded number at a time: of those that users deleted, and of those that
    /// tools deleted at `undo_before` or earlier. True when more is left.
    fn erase(undo_before: Timestamp) -> bool;
    /// Gives some free pages back to the file system, and starts the write-ahead log anew if anything was removed since
    /// the last time. True when more is left.
    fn tidy() -> bool;
}

impl Store {
    /// Whether the write-ahead log could not be started anew the last time, because a reader stayed at an old moment.
    pub fn is_untidy(&self) -> bool {
        self.database.is_untidy()
    }
}
