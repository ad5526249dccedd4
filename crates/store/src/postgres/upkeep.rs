//! The duties of the writer on PostgreSQL: the numbers of commits, the turn among nodes, and a new connection after a lost
//! one.
//!
//! Each transaction stores its number. If the connection is lost during a commit, the next connection takes the lock, so
//! that the old one has ended, and reads the number: the commit has happened, or it has not.

use std::sync::Arc;
use std::time::Duration;

use super::address::PostgresAddress;
use super::connect::{connect, share, started_at, take_lock};
use super::migrate::{require_newest, require_not_older};
use super::node::{self, LIMITS_OF_NODES};
use super::session_of;
use crate::Error;
use crate::sql::{
    CommitKind, NodeSeat, NodeTurn, SqlConnection, Upkeep, find_first, find_only, params, set_boot,
};

/// The row of `commits` of a server that is alone.
pub(super) const ALONE: i64 = 1;

/// Pauses between attempts to find out whether a commit has happened.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct PostgresUpkeep {
    address: PostgresAddress,
    /// The number of the last commit of this writer.
    number: i64,
    /// The number of the last commit for which the disk was waited for.
    synced: i64,
    /// The process of the server that has our connection.
    backend: i64,
    /// Whether deltas alone are committed without waiting for the disk, if known.
    is_async: Option<bool>,
    /// How many connections there were before this one.
    connection: u64,
    /// Whether the connection was lost since the last commit: PostgreSQL may have crashed.
    may_have_lost: bool,
    /// Whether the database has a note of the start of PostgreSQL under which this process works.
    notes_start: bool,
    /// With other nodes: the place of this one.
    node: Option<JoinedNode>,
}

/// The writer's part of a node.
struct JoinedNode {
    seat: Arc<NodeSeat>,
    /// The number of the commit under way.
    turn: i64,
    must_join: bool,
}

impl PostgresUpkeep {
    /// The writer of a server that is alone. Nodes of earlier times are gone.
    pub(super) fn of_single_server(conn: &SqlConnection, address: PostgresAddress) -> Result<Self, Error> {
        conn.execute("INSERT INTO commits (writer, number) VALUES (?1, 0) ON CONFLICT DO NOTHING", [ALONE])?;
        conn.execute("DELETE FROM nodes", [])?;
        Self::begin_on(conn, address, None)
    }

    /// The writer of a node that has joined.
    pub(super) fn of_node(
        conn: &SqlConnection,
        address: PostgresAddress,
        seat: Arc<NodeSeat>,
    ) -> Result<Self, Error> {
        Self::begin_on(conn, address, Some(JoinedNode { seat, turn: 0, must_join: false }))
    }

    fn begin_on(
        conn: &SqlConnection,
        address: PostgresAddress,
        node: Option<JoinedNode>,
    ) -> Result<Self, Error> {
        let backend = backend_of(conn)?;
        let mut begun = Self {
            address,
            number: 0,
            synced: 0,
            backend,
            is_async: None,
            connection: 0,
            may_have_lost: false,
            notes_start: false,
            node,
        };
        begun.number = begun.last_commit(conn)?;
        Ok(begun)
    }

    /// After a crash of PostgreSQL, notes its new start: once all deltas are written again, nothing is lost.
    pub(super) fn note_start(self, notes_start: bool) -> Self {
        Self { notes_start, ..self }
    }

    /// The row of `commits` that is this writer's.
    fn writer(&self) -> i64 {
        self.node.as_ref().map_or(ALONE, |node| node.seat.number())
    }

    fn last_commit(&self, conn: &SqlConnection) -> Result<i64, Error> {
        let statement = "SELECT number FROM commits WHERE writer = ?1";
        find_first(conn, statement, [self.writer()], |row| row.get(0))?.ok_or(Error::Rewound)
    }

    /// Returns the name that the lock of this writer's connection is made of.
    fn lock_name(&self) -> String {
        match &self.node {
            None => self.address.lock_name(),
            Some(node) => node::lock_name(&self.address, node.seat.number()),
        }
    }

    /// Connects until the outcome of a commit is known.
    fn resolve_lost_commit(&mut self, conn: &mut SqlConnection, number: i64) -> Result<(), Error> {
        while let Err(error) = self.reconnect(conn) {
            if matches!(error, Error::Rewound) {
                return Err(error);
            }
            if !matches!(error, Error::Disconnected(_)) {
                tracing::warn!(%error, "PostgreSQL refuses the connection that would say whether a commit has happened");
            }
            std::thread::sleep(PAUSE);
        }
        if self.number == number {
            return Ok(());
        }
        Err(Error::Disconnected("the connection was lost before a commit, which has not happened".to_owned()))
    }

    fn reconnect(&mut self, conn: &mut SqlConnection) -> Result<(), Error> {
        let fresh = connect(&self.address)?;
        // The old process of the server may not have noticed yet. It is ours if it has the lock.
        let statement = "SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE pid = ?1 AND locktype = 'advisory' AND granted
                AND CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT) = hashtextextended(?2, 0)";
        find_first(&fresh, statement, params![self.backend, self.lock_name()], |_| Ok(()))?;
        if self.node.is_some() {
            share(&fresh, &self.address).map_err(retryable_if_in_use)?;
            session_of(&fresh)?.run_script(LIMITS_OF_NODES)?;
            require_not_older(&fresh)?;
        }
        take_lock(&fresh, &self.address, &self.lock_name()).map_err(retryable_if_in_use)?;
        if self.node.is_none() {
            require_newest(&fresh)?;
        }
        let number = self.last_commit(&fresh)?;
        if number < self.synced {
            return Err(Error::Rewound);
        }
        self.backend = backend_of(&fresh)?;
        self.number = number;
        self.is_async = None;
        self.connection += 1;
        self.may_have_lost = self.node.is_none();
        *conn = fresh;
        tracing::info!("the connection to PostgreSQL is back");
        Ok(())
    }

    /// Waits for the turn of this node, as a new one if the others took it for dead.
    fn take_turn(&mut self, conn: &SqlConnection) -> Result<(), Error> {
        let Some(node) = &mut self.node else { return Ok(()) };
        if node.must_join {
            node::join(conn, &self.address, &node.seat)?;
            node.must_join = false;
            self.number = 0;
            self.synced = 0;
        }
        conn.execute("BEGIN", [])?;
        let statement = "UPDATE commits SET number = number + 1 WHERE writer = 0 RETURNING number";
        match find_only(conn, statement, [], |row| row.get(0)) {
            Ok(number) => {
                node.turn = number;
                Ok(())
            }
            Err(error) => {
                // It fails if the connection is lost, and then there is nothing to be undone.
                let _undone = roll_back(conn);
                // The node that has the turn is slow, and loses it soon.
                Err(if matches!(error, Error::Aborted) { Error::Overloaded } else { error })
            }
        }
    }
}

impl Upkeep for PostgresUpkeep {
    fn begin(&mut self, conn: &mut SqlConnection, kind: CommitKind) -> Result<(), Error> {
        if !conn.is_usable() {
            self.reconnect(conn)?;
        }
        session_of(conn)?.see_all_rows();
        if self.node.is_some() {
            return self.take_turn(conn);
        }
        let is_async = kind == CommitKind::Deltas && !self.may_have_lost;
        if self.is_async != Some(is_async) {
            let level = if is_async { "SET synchronous_commit = off" } else { "SET synchronous_commit = on" };
            conn.execute(level, [])?;
            self.is_async = Some(is_async);
        }
        conn.execute("BEGIN", [])
    }

    fn connection(&self) -> u64 {
        self.connection
    }

    fn turn(&self) -> Option<NodeTurn> {
        self.node.as_ref().map(|node| NodeTurn { node: node.seat.number(), number: node.turn })
    }

    fn is_removed(&mut self) {
        if let Some(node) = &mut self.node {
            tracing::warn!(
                node = node.seat.number(),
                "the lease of this node ended; other nodes continue its runs, and this server joins as a new node"
            );
            node.must_join = true;
        }
    }

    fn seat(&self) -> Option<Arc<NodeSeat>> {
        self.node.as_ref().map(|node| Arc::clone(&node.seat))
    }

    fn may_have_lost(&self) -> bool {
        self.may_have_lost
    }

    /// If the answer to a commit is lost, finds out whether it has happened. Everything before the commit is answered
    /// first, so that a connection that was lost earlier means that nothing has happened.
    fn end(&mut self, conn: &mut SqlConnection, is_commit: bool) -> Result<(), Error> {
        if !is_commit {
            return roll_back(conn);
        }
        let number = self.number + 1;
        let statement = "UPDATE commits SET number = ?2 WHERE writer = ?1";
        let noted = if self.may_have_lost && self.notes_start {
            started_at(conn).and_then(|start| set_boot(conn, Some(&start)))
        } else {
            Ok(())
        };
        let counted = noted.and_then(|()| conn.execute(statement, [self.writer(), number]));
        if let Err(error) = counted.and_then(|()| conn.settle()) {
            // It fails if the connection is lost, and then there is nothing to be undone.
            let _undone = roll_back(conn);
            return Err(error);
        }
        match conn.execute("COMMIT", []).and_then(|()| conn.settle()) {
            Ok(()) => {
                self.number = number;
                self.may_have_lost = false;
                if self.is_async != Some(true) {
                    self.synced = number;
                }
                if let Some(node) = &self.node {
                    node.seat.tell();
                }
                Ok(())
            }
            Err(error @ Error::Disconnected(_)) => {
                tracing::warn!(%error, "the answer to a commit is lost; the next connection says whether it has happened");
                self.resolve_lost_commit(conn, number)
            }
            Err(error) => Err(error),
        }
    }

    fn close(&self, conn: &SqlConnection) {
        if let Some(node) = &self.node
            && let Err(error) = node::leave(conn, &node.seat)
        {
            tracing::warn!(%error, "this node could not give up its lease; other nodes take over when the lease ends");
        }
    }
}

fn roll_back(conn: &SqlConnection) -> Result<(), Error> {
    conn.execute("ROLLBACK", []).and_then(|()| conn.settle())
}

/// The holder of the lock may go away: a copy does when it is complete.
fn retryable_if_in_use(error: Error) -> Error {
    if let Error::InUse(why) = error { Error::Disconnected(why) } else { error }
}

fn backend_of(conn: &SqlConnection) -> Result<i64, Error> {
    find_only(conn, "SELECT CAST(pg_backend_pid() AS BIGINT)", [], |row| row.get(0))
}
