//! The thread log and everything derived from it, behind one handle, [`Store`].
//!
//! The log is insert-only and numbered per thread. Every other row about a conversation (runs, messages, calls,
//! results) is a projection written in the transaction that appends the event, and database constraints hold the
//! invariants, so that no caller can break them by mistake. This is the only crate that knows SQL.

mod access;
mod actions;
mod context;
pub mod copy;
mod database;
mod erasure;
mod error;
pub mod inspection;
mod limits;
mod log;
mod mcp;
mod memory;
mod newest;
mod nodes;
mod notice;
mod outbox;
mod packed_vector;
pub mod postgres;
mod prompt;
mod rows;
pub mod rules;
mod run_list;
mod run_log;
pub mod source;
mod sql;
pub mod sqlite;
mod status;
mod store;
mod webhooks;

pub use access::{MAX_SESSIONS_PER_USER, NewKeyRotation, ReplacedKey, RevokedKey, RotatedKey, SessionRow};
pub use actions::{
    ActionEnd, ActionFilter, ActionRow, AppliedChange, CallAnswer, ClientCallRow, FileRow, NewAction,
    NewProposal, PlannedChange, ProposalRow, RecordQuery, ThingVersion, TimeCursor, UndoPlace, UndoPlan,
    Verified, Write,
};
pub use context::{
    ChunkRow, DocumentRow, ImageRow, KnowledgeRow, MAX_CHUNK_BYTES, MAX_CHUNKS_PER_DOCUMENT,
    MAX_CHUNKS_PER_READ, MAX_DOCUMENTS_PER_SCOPE, MAX_IMAGE_BYTES_PER_SCOPE, MAX_IMAGES_PER_READ,
    MAX_IMAGES_PER_SCOPE, MAX_PERSONA_BYTES, MAX_PERSONAS_PER_SCOPE, MAX_PIN_BYTES, MAX_PINS_PER_SCOPE,
    MAX_PROFILE_BYTES, MAX_SUMMARIES_PER_READ, MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, NewChunk, NewDocument,
    NewImage, NewPersonaRow, NewPinRow, NewText, PersonaRow, ProfileRow, SummaryRow,
};
pub use erasure::{MAX_ACTIONS_PER_PURGE, MemoryPurge, PurgedWords};
pub use error::Error;
pub use limits::{
    MAX_APP_REVISIONS, MAX_BYTES_PER_PAGE, MAX_BYTES_PER_READ, MAX_CHANGES_PER_EXTRACTION,
    MAX_EVENTS_PER_READ, MAX_EXPIRED_PER_EXTRACTION, MAX_FILE_BYTES, MAX_FILE_BYTES_PER_SCOPE,
    MAX_FILES_PER_SCOPE, MAX_ITEM_BYTES_PER_READ, MAX_ITEMS_PER_READ, MAX_JOB_ATTEMPTS,
    MAX_MEMORIES_PER_SCOPE, MAX_MEMORY_BYTES, MAX_OPEN_PROPOSALS, MAX_PATH_BYTES, MAX_QUEUED_PER_THREAD,
    MAX_RECORD_BYTES, MAX_RECORDS_PER_TYPE, MAX_SNAPSHOT_LINE_BYTES, MAX_SNAPSHOT_LINES,
    MAX_SOURCES_PER_MEMORY, MAX_TITLES_PER_READ, MAX_TOMBSTONES_PER_READ, MAX_TREE_TEXT_CHARS,
    MAX_USAGE_ROWS, MAX_VECTOR_NUMBERS, MAX_WEBHOOK_ATTEMPTS, MAX_WRITES_PER_CALL,
};
pub use log::{EventLog, Publish};
pub use mcp::{
    Approved, MAX_CREDENTIAL_BYTES, MAX_CREDENTIAL_NAME_BYTES, MAX_CREDENTIALS_PER_SCOPE,
    MAX_MCP_DEFINITION_BYTES, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS_PER_APP, MAX_MCP_TOOLS_PER_SERVER,
    McpOffer, McpToolRow,
};
pub use memory::{
    ExtractedMemories, ItemRef, ItemRow, MemoryChange, MemoryEdit, MemoryExtraction, MemoryHistory,
    MemoryOrigin, MemoryRow, NewMemoryRow, NewVector, RecallItem, RecallMessage, SnapshotLine, StoredVector,
    TombstoneRow,
};
pub use newest::{newest_actions, newest_records};
pub use nodes::{HeldByUsers, NodeNews, SharedClock, SharedStore};
pub use notice::{MAX_NOTICES_PER_READ, NewestNotice, NoticesRead, NumberedNotice};
pub use packed_vector::PackedVector;
pub use prompt::{HiddenWords, PromptRows};
pub use rows::{
    AnswerRun, BegunRun, EarlierAnswer, EarlierRun, ForcedEnd, IdempotencyClaim, JobRow, JobUsage,
    MessageRow, NewJob, NewThreadRow, PageOf, PageRows, QueuedRun, RawEvent, Retry, RunAcceptance, RunInput,
    RunJob, RunRequest, RunRow, ShownMessage, Submission, SubmittedRun, Target, ThreadEdit, ThreadFilter,
    ThreadImport, ThreadRow, ThreadTitle, TreeRow,
};
pub use run_list::{RunFilter, ScannedRuns};
pub use run_log::RunLog;
pub use sql::{Boundary, Coalesce, Moment, StoreOptions, day};
pub use status::{
    ActionStatus, JobStatus, LedgerKind, MemoryStatus, MemoryVersionReason, MessageRole, NoticeKind,
    RecallKind, Stop,
};
pub use store::Store;
pub use webhooks::{WEBHOOK_JOB, WatchedApps, WatchedWebhook, WebhookMessageRow};
