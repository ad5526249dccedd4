//! The writer's upkeep, which differs between the databases.

use std::sync::Arc;

use super::node_log::NodeSeat;
use super::{SqlConnection, WalRestart};
use crate::Error;

/// The contents of a transaction of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommitKind {
    /// Deltas alone.
    Deltas,
    /// A part of something that a later commit promises.
    Ahead,
    /// Something that a caller is promised: it survives a power failure.
    Promise,
}

/// The right of one node to commit, which it has from the begin of a transaction to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeTurn {
    /// The number of the node.
    pub(crate) node: i64,
    /// The number of the commit.
    pub(crate) number: i64,
}

/// The duties of the writer of one database.
pub(crate) trait Upkeep: Send {
    /// Begins a transaction, on a new connection if the last one is lost.
    fn begin(&mut self, conn: &mut SqlConnection, kind: CommitKind) -> Result<(), Error>;

    /// The number of the connection: another one means that another process may have written meanwhile.
    fn connection(&self) -> u64 {
        0
    }

    /// The turn of this node, if several share the database. Each transaction has one.
    fn turn(&self) -> Option<NodeTurn> {
        None
    }

    /// The others took this node for dead: it is to be a new one.
    fn is_removed(&mut self) {}

    /// The state that the threads of this node share, if several nodes share the database.
    fn seat(&self) -> Option<Arc<NodeSeat>> {
        None
    }

    /// The error as what it means on this database.
    fn explain(&self, _conn: &SqlConnection, error: Error) -> Error {
        error
    }

    /// Whether the database may have lost deltas that were committed. The next transaction then packs all of which this
    /// process has a copy.
    fn may_have_lost(&self) -> bool {
        false
    }

    /// Commits, or rolls back. Statements that were only sent may fail here; then nothing is committed.
    fn end(&mut self, conn: &mut SqlConnection, is_commit: bool) -> Result<(), Error>;

    /// Sees to it that no more is lost with the machine than the numbers that are left out afterwards.
    fn bound_loss(&mut self, _kind: CommitKind, _events: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Done after each commit. False if nothing more can be written.
    fn after_commit(&self, _conn: &SqlConnection) -> bool {
        true
    }

    /// The writer has ended.
    fn close(&self, _conn: &SqlConnection) {}

    /// Whether the write-ahead log is to be started anew, on a database that has one.
    fn wal_restart(&self) -> Arc<WalRestart> {
        Arc::default()
    }
}
