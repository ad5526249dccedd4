//! The transactions of the store, in the part of SQL that SQLite and PostgreSQL share. One writer thread commits, a few
//! connections read beside it.

mod action_rows;
mod actions;
mod admin_audit;
mod app_revisions;
mod append;
mod audit;
mod boot;
mod branches;
mod client_calls;
mod commit_news;
mod credentials;
mod cross_scope_work;
mod deltas;
mod documents;
mod earlier_runs;
mod erase_traces;
mod erasures;
mod events;
mod files;
mod free_pages;
mod history;
mod idempotency;
mod images;
mod items;
mod jobs;
mod keys;
mod knowledge;
mod ledger;
mod mcp;
mod memories;
mod message_paths;
mod missing_apps;
mod node_log;
mod notices;
mod open_databases;
mod personas;
mod pins;
mod profiles;
mod project;
mod prompt_rows;
mod proposals;
mod purge_threads;
mod queue;
mod rate_limits;
mod read;
mod recall;
mod records;
mod reserve;
mod run_end;
mod run_start;
mod runs;
mod search_words;
mod sessions;
mod shown_messages;
mod statistics;
mod submit;
mod summaries;
mod texts;
mod thread_lists;
mod threads;
mod undo;
mod upkeep;
mod usage;
mod verify;
mod versions;
mod waiting_calls;
mod webhooks;
mod whole_log;
mod writer;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use protocol::Stored;

pub(crate) use crate::database::{
    RowsOf, SqlConnection, SqlParams, SqlRow, SqlStatement, SqlValue, ToSqlValue, params,
};
pub use crate::outbox::Coalesce;
pub use audit::Audited;
pub(crate) use audit::audit_of;
pub(crate) use boot::{COPIED, COPYING, POWER_LOSS_MARGIN, RESTORED, begin as begin_boot, set_boot};
pub(crate) use deltas::{DeltaLog, OpenDeltas, restore as restore_deltas};
pub(crate) use free_pages::{WalRestart, note_removed};
pub(crate) use message_paths::fill_in as place_messages;
pub(crate) use node_log::{NodeLog, NodeSeat, SilentNode};
pub use open_databases::wait_until_closed;
pub(crate) use read::{ReadThread, Readers, find_all, find_first, find_only, has_any};
pub(crate) use records::index_words;
pub(crate) use runs::ACTIVE_RUN;
pub(crate) use upkeep::{CommitKind, NodeTurn, Upkeep};
pub use usage::day;
pub use whole_log::LoggedRow;
pub(crate) use whole_log::whole_log_on;
pub(crate) use writer::{SqlRunLog, Writer, WriterParts};

use crate::outbox::Outbox;
use crate::webhooks::WebhookWatch;
use crate::{HeldByUsers, RunRow, SharedStore, WatchedApps};

/// The shortest time between two commits of deltas, unless an option says otherwise. A reader does not notice it, and
/// the streams of a busy server share its commits.
pub(crate) const DELTA_PAUSE: Duration = Duration::from_millis(10);

/// A store on one database, of which this process is the only writer.
pub(crate) struct SqlStore {
    writer: Writer,
    readers: Arc<Readers>,
    /// Deltas that are in the delta log only. Readers of events look here first.
    open_deltas: Arc<OpenDeltas>,
    coalesce: Coalesce,
    webhooks: Arc<WebhookWatch>,
    /// The keeper that keeps this process one of the nodes that share the database, if several do.
    node: Option<NodeKeeper>,
}

/// Keeps a node among the others, until it is dropped.
pub(crate) struct NodeKeeper {
    seat: Arc<NodeSeat>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl NodeKeeper {
    pub(crate) fn new(seat: Arc<NodeSeat>, stop: tokio::sync::oneshot::Sender<()>) -> Self {
        Self { seat, _stop: stop }
    }
}

impl SqlStore {
    pub(crate) fn new(
        writer: Writer,
        readers: Readers,
        open_deltas: Arc<OpenDeltas>,
        coalesce: Coalesce,
        webhooks: Arc<WebhookWatch>,
    ) -> Self {
        Self { writer, readers: Arc::new(readers), open_deltas, coalesce, webhooks, node: None }
    }

    /// One of several that share the database.
    pub(crate) fn among_nodes(self, node: NodeKeeper) -> Self {
        Self { node: Some(node), ..self }
    }

    /// The counts of things that users hold open on all nodes, if several share the database.
    pub(crate) fn held_by_users(&self) -> Option<Arc<HeldByUsers>> {
        self.node.as_ref().map(|node| Arc::clone(&node.seat.held))
    }

    /// The number of this node, if several share the database.
    pub(crate) fn node_number(&self) -> Option<i64> {
        self.node.as_ref().map(|node| node.seat.number())
    }

    pub(crate) fn watch_webhooks(&self, watched: WatchedApps) {
        self.webhooks.set(watched);
    }

    pub(crate) fn run_log(&self, run: &RunRow) -> SqlRunLog {
        SqlRunLog::new(self.writer.clone(), Outbox::new(run, self.coalesce))
    }
}

/// How a store differs from the usual one.
#[derive(Default)]
pub struct StoreOptions {
    pub coalesce: Coalesce,
    /// Which start of the machine this is. Asked of the system when absent.
    pub boot: Option<String>,
    /// How long after a commit of deltas the next one is made at the earliest; [`DELTA_PAUSE`] when absent. Deltas that
    /// come meanwhile share it. Works with a caller who waits are committed at once, or 2 ms later if there are many.
    pub delta_pause: Option<Duration>,
    /// The test's hook that decides at each commit whether the store continues, or dies there.
    pub boundary: Option<Arc<dyn Boundary>>,
    /// Lets other servers share the database.
    pub shared: Option<SharedStore>,
    /// Names the key of the vault of a server that does not share its database. Later servers on PostgreSQL must have
    /// the same key.
    pub vault: Option<String>,
}

/// Sees every commit come and go.
pub trait Boundary: Send + Sync {
    /// False if all ends here, as if the process had been killed: nothing more is written, and nothing of this commit is
    /// published or answered. Earlier commits may still be delivered.
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
    /// The commit is in the database. No caller has an answer yet.
    AfterCommit,
}
