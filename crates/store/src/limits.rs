//! Bounds of everything that is stored and read.

/// Events one read of the log returns at most.
pub const MAX_EVENTS_PER_READ: usize = 256;

/// Bytes of event bodies after which one read of the log stops. A reader who takes nothing holds as much and no more.
pub const MAX_BYTES_PER_READ: usize = 32 * 1024;

/// Bytes of stored text after which a page of a list ends. A page has at least one entry, however large that is.
pub const MAX_BYTES_PER_PAGE: usize = 4 * 1024 * 1024;

/// Revisions of one app whose files are kept.
pub const MAX_APP_REVISIONS: i64 = 50;

/// Characters of a message that the tree of its thread shows.
pub const MAX_TREE_TEXT_CHARS: usize = 200;

/// Titles of archived threads, and of the others, that one search looks at: those used last.
pub const MAX_TITLES_PER_READ: usize = 10_000;

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

/// Memories that expire with one extraction, so that no stream feels it. The next extraction expires the rest.
pub const MAX_EXPIRED_PER_EXTRACTION: usize = 200;

/// Lines of one snapshot, and bytes of each.
pub const MAX_SNAPSHOT_LINES: usize = 2_000;
pub const MAX_SNAPSHOT_LINE_BYTES: usize = 8 * 1024;

/// Words that one read of what was forgotten returns at most, the newest.
pub const MAX_TOMBSTONES_PER_READ: usize = 100_000;

/// Items after which one read of what changed stops, and bytes of their texts and vectors.
pub const MAX_ITEMS_PER_READ: usize = 4_096;
pub const MAX_ITEM_BYTES_PER_READ: usize = 8 * 1024 * 1024;

/// Numbers of one vector: as many as PostgreSQL's `vector` can have.
pub const MAX_VECTOR_NUMBERS: usize = 16_000;

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

/// Times that the delivery of a webhook is begun: with their pauses, three days.
pub const MAX_WEBHOOK_ATTEMPTS: u32 = 10;
