//! SQLite: one file in the data folder, one writer thread, a few readers beside it.

mod action_rows;
mod actions;
mod admin_audit;
mod append;
mod audit;
mod backup;
mod boot;
mod branches;
mod checkpoint;
mod client_calls;
mod credentials;
mod deltas;
mod documents;
mod earlier_runs;
mod erasures;
mod events;
mod files;
mod history;
mod idempotency;
mod images;
mod items;
mod jobs;
mod keys;
mod knowledge;
mod ledger;
mod maintain;
mod mcp;
mod memories;
mod message_paths;
mod migrate;
mod missing_apps;
mod notices;
mod open_databases;
mod personas;
mod pins;
mod private_files;
mod profiles;
mod project;
mod prompt_rows;
mod proposals;
mod purge;
mod queue;
mod rate_limits;
mod read;
mod recall;
mod records;
mod reserve;
mod run_end;
mod run_start;
mod runs;
mod sessions;
mod shown_messages;
mod statements;
mod statistics;
mod submit;
mod summaries;
mod sweep;
mod texts;
mod thread_lists;
mod threads;
mod tidy;
mod undo;
mod usage;
mod verify;
mod versions;
mod waiting_calls;
mod webhooks;
mod whole_log;
mod writer;
mod writes;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use protocol::{Clock, Stored};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::outbox::Outbox;
use crate::webhooks::WebhookWatch;
use crate::{Error, Publish, RunRow, WatchedApps};

pub use crate::outbox::Coalesce;
pub use audit::{Audited, audit};
pub use backup::backup;
use deltas::OpenDeltas;
pub use open_databases::wait_until_closed;
pub use private_files::{make_private_folder, mode_for_others};
use read::Readers;
use statements::Performer;
pub use tidy::compact;
pub use usage::day;
pub use verify::verify;
pub use whole_log::{LoggedRow, whole_log};
pub(crate) use writer::SqliteRunLog;
use writer::Writer;

/// The database's name in the data folder.
pub const FILE: &str = "rondo.db";

/// Held in the folder by whoever has the database open.
const LOCK: &str = "lock";

/// How often, and how far apart, a locked folder is tried before it counts as somebody else's.
const LOCK_TRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// How long a connection waits for another. Only checkpoints and outside tools ever make one wait.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long after a commit of deltas the next one is made, unless somebody says otherwise: what a reader does not notice.
pub const DELTA_PAUSE: Duration = Duration::from_millis(4);

/// Connections that read beside the writer.
const READERS: usize = 4;

/// Statements that a connection keeps compiled; more than it has.
const STATEMENTS: usize = 512;

/// A store in one folder. A second process on the same folder is refused.
pub(crate) struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    /// Deltas that are in the delta log only. Whoever reads events looks here first.
    open_deltas: Arc<OpenDeltas>,
    coalesce: Coalesce,
    webhooks: Arc<WebhookWatch>,
}

impl Sqlite {
    pub(crate) fn watch_webhooks(&self, watched: WatchedApps) {
        self.webhooks.set(watched);
    }

    /// Opens or creates the database, bringing its schema up to date.
    pub(crate) fn open_with(
        folder: &Path,
        clock: Arc<dyn Clock>,
        publish: Arc<dyn Publish>,
        options: SqliteOptions,
    ) -> Result<Self, Error> {
        make_private_folder(folder).map_err(Error::Folder)?;
        let lock = lock(folder)?;
        private_files::close_to_others(folder);
        let path = folder.join(FILE);
        // SQLite gives its other files the rights of this one.
        drop(private_files::open_private_file(&path).map_err(Error::Folder)?);
        let mut conn = connect(&path, OpenFlags::default())?;
        migrate::migrate(&mut conn)?;
        statements::note(&mut conn, Performer::Start)?;
        deltas::restore(&mut conn, clock.now().as_millisecond())?;
        // A process that was killed may have left what it had removed in the log.
        if !checkpoint::start_afresh(&conn)? {
            tidy::note_removed(&conn)?; // somebody reads an old moment; the sweep tries again
        }
        message_paths::fill_in(&mut conn)?;
        let SqliteOptions { coalesce, boot, delta_pause, boundary } = options;
        boot::begin(&mut conn, boot.or_else(boot::of_this_machine), clock.now())?;
        statements::note(&mut conn, Performer::Writer)?;
        let checkpoints = connect(&path, OpenFlags::default())?;
        let readers = Readers::open(READERS, Box::new(move || reader(&path, Performer::Reader)))?;
        let wal = folder.join(format!("{FILE}-wal"));
        let open_deltas = Arc::<OpenDeltas>::default();
        let (delta_pause, webhooks) = (delta_pause.unwrap_or(DELTA_PAUSE), Arc::<WebhookWatch>::default());
        let owned =
            Owned { conn, wal, checkpoints, lock, delta_pause, boundary, webhooks: Arc::clone(&webhooks) };
        let writer = Writer::start(owned, clock, publish, Arc::clone(&open_deltas))?;
        Ok(Self { writer, readers: Arc::new(readers), open_deltas, coalesce, webhooks })
    }

    pub(crate) fn run_log(&self, run: &RunRow) -> SqliteRunLog {
        SqliteRunLog::new(self.writer.clone(), Outbox::new(run, self.coalesce))
    }
}

/// How a store differs from the usual one.
#[derive(Default)]
pub struct SqliteOptions {
    pub coalesce: Coalesce,
    /// Which start of the machine this is. Asked of the system when absent.
    pub boot: Option<String>,
    /// How long after a commit of deltas the next one is made at the earliest; a few milliseconds when absent. Whatever
    /// comes meanwhile shares it. Anything that somebody waits for is committed at once.
    pub delta_pause: Option<Duration>,
    /// Who decides at each commit whether the store goes on; for tests that let it die there.
    pub boundary: Option<Arc<dyn Boundary>>,
}

/// Sees every commit come and go.
pub trait Boundary: Send + Sync {
    /// False if all ends here: nothing more is written, published or answered, as if the process had been killed.
    fn pass(&self, moment: Moment) -> bool;
    /// Whether there is no space for one that appends these events.
    fn is_full(&self, _appended: &[Arc<Stored>]) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing of it is in the database.
    BeforeCommit,
    /// All of it is, and nobody knows.
    AfterCommit,
}

/// Resources of the writer thread: when it ends, and not before, another process may have the folder.
struct Owned {
    conn: Connection,
    wal: PathBuf,
    checkpoints: Connection,
    lock: File,
    delta_pause: Duration,
    boundary: Option<Arc<dyn Boundary>>,
    webhooks: Arc<WebhookWatch>,
}

/// Locks the folder, giving an owner that is just ending a moment to do so.
fn lock(folder: &Path) -> Result<File, Error> {
    let file = private_files::open_private_file(&folder.join(LOCK)).map_err(Error::Folder)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            Err(TryLockError::Error(error)) => return Err(Error::Folder(error)),
        }
    }
    Err(Error::Locked(folder.display().to_string()))
}

/// A connection that can only read.
fn reader(path: &Path, performer: Performer) -> Result<Connection, Error> {
    let mut conn = connect(path, read_only())?;
    // The pages that a reader has cached are stale after the next commit, and a large cache takes long to empty.
    conn.execute_batch("PRAGMA cache_size = -2048;")?;
    statements::note(&mut conn, performer)?;
    Ok(conn)
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Plans do not depend on values. Else a statement whose plan looks at one is compiled anew each time it is bound.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF;",
    )?;
    Ok(conn)
}
