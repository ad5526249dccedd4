//! Memories with their versions and sources, and the items that recall reads.

use jiff::Timestamp;
use protocol::{ChunkId, DocumentId, MemoryId, MemoryVersionView, MessageId, Scope, Seq, ThreadId};

use crate::{ChunkRow, JobUsage, MemoryStatus, MessageRole, PackedVector, RawEvent};

/// Something to be remembered, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemoryRow {
    pub id: MemoryId,
    pub text: String,
    pub kind: String,
    /// The origin: `user` (by hand), `asked`, `extracted`, `tool` or `import`.
    pub source: &'static str,
    pub sources: Vec<MemoryOrigin>,
    pub valid_from: Option<Timestamp>,
    /// Of an import; now when absent.
    pub created_at: Option<Timestamp>,
}

/// The user's words that a memory rests on. Without any of the three it was said in a conversation that is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryOrigin {
    pub thread: Option<ThreadId>,
    pub message: Option<MessageId>,
    pub words: Option<String>,
    /// When it was said; now when absent.
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRow {
    pub id: MemoryId,
    pub scope: Scope,
    pub text: String,
    pub kind: String,
    pub status: MemoryStatus,
    /// Answers that referred to it.
    pub access_count: u64,
    pub last_accessed_at: Option<Timestamp>,
    pub source: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with each change.
    pub version: u64,
    pub valid_from: Option<Timestamp>,
    pub valid_until: Option<Timestamp>,
    /// The memory that says the same, and more.
    pub superseded_by: Option<MemoryId>,
    pub first_source: Option<MemoryOrigin>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHistory {
    pub memory: MemoryRow,
    /// Oldest first, at most the newest [`MemoryHistory::MAX_VERSIONS`].
    pub versions: Vec<MemoryVersionView>,
    /// Oldest first.
    pub sources: Vec<MemoryOrigin>,
}

impl MemoryHistory {
    pub const MAX_VERSIONS: usize = 1_000;
}

/// A change by hand. An absent field stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryEdit {
    pub text: Option<String>,
    pub kind: Option<String>,
}

/// One change of an extraction. It names the version it was made for: if that is not the memory's any more, or the memory
/// is not active, or it rests on words that were forgotten meanwhile, it is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChange {
    Create(NewMemoryRow),
    /// The memory was true until now and is replaced from now on.
    Update {
        id: MemoryId,
        version: u64,
        text: String,
        kind: String,
        source: MemoryOrigin,
    },
    /// `from` are superseded by `into`, which inherits their sources. All of them, or none.
    Merge {
        into: (MemoryId, u64),
        from: Vec<(MemoryId, u64)>,
        text: String,
        kind: String,
        source: Option<MemoryOrigin>,
    },
    /// The memory is true no more.
    Remove {
        id: MemoryId,
        version: u64,
        source: MemoryOrigin,
    },
}

/// The findings of a job in messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryExtraction {
    /// The place of the first message that was looked at, and of the last; 0 when it was none.
    pub from: Seq,
    pub through: Seq,
    pub changes: Vec<MemoryChange>,
    /// Active memories that may stay.
    pub limit: Option<usize>,
    /// Whether that many may stay of each subject, which is what a kind says before a slash.
    pub per_subject: bool,
    pub spent: Option<JobUsage>,
    /// The newest change of the scope before the job read it, as [`crate::Store::recall_head`] counts: a memory purged later is
    /// not said again.
    pub as_of: Option<u64>,
}

/// The memories that an extraction has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtractedMemories {
    pub created: Vec<MemoryId>,
    /// Memories that others were merged into are here, too.
    pub updated: Vec<MemoryId>,
    /// Memories that were superseded.
    pub merged: Vec<MemoryId>,
    pub removed: Vec<MemoryId>,
    pub expired: Vec<MemoryId>,
    /// Changes that came too late, or found no room.
    pub skipped: usize,
}

/// Words that were forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstoneRow {
    /// The memory they were forgotten with.
    pub memory: MemoryId,
    pub words: String,
    pub at: Timestamp,
}

/// A line of what a thread's prompt says of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLine {
    /// The wire id of what it comes from.
    pub source: String,
    /// When it was said.
    pub at: Timestamp,
    pub text: String,
}

/// A thing that can be recalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemRef {
    Memory(MemoryId),
    Message(MessageId),
    Chunk(ChunkId),
}

/// A thing that has changed, as it is now, and its place in the order of changes.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRow {
    pub rev: u64,
    pub what: RecallItem,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RecallItem {
    /// Of any status: only an active one is recalled.
    Memory(Box<MemoryRow>, Option<StoredVector>),
    Message(RecallMessage, Option<StoredVector>),
    /// A piece of a document.
    Chunk(ChunkRow, Option<StoredVector>),
    /// Nothing of it is found any more.
    DocumentGone(DocumentId),
    /// Nothing that was said in it is recalled any more.
    ThreadGone(ThreadId),
    /// Words were forgotten, or restored.
    Tombstones,
    Gone(ItemRef),
}

/// A message and the event that holds its text, uninterpreted.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallMessage {
    pub id: MessageId,
    pub thread: ThreadId,
    pub role: MessageRole,
    pub seq: Seq,
    pub at: Timestamp,
    pub said: Option<RawEvent>,
}

/// A vector and the hash of the text it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVector {
    pub hash: [u8; 16],
    pub vector: PackedVector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVector {
    pub item: ItemRef,
    pub hash: [u8; 16],
    pub vector: PackedVector,
}
