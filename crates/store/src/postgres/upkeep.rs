//! The duties of the one writer on PostgreSQL: the numbers of commits, and a new connection after a lost one.
//!
//! Each transaction stores its number. If the connection is lost during a commit, the next connection takes the lock, so
//! that the old one has ended, and reads the number: the commit has happened, or it has not.

use std::time::Duration;

use super::address::PostgresAddress;
use super::connect::{connect, lock, lock_name};
use super::migrate::require_newest;
use super::session_of;
use crate::Error;
use crate::sql::{CommitKind, SqlConnection, Upkeep, find_first, find_only, params};

/// The row of `commits`. There is one writer.
const WRITER: i64 = 1;

/// Pauses between attempts to find out whether a commit has happened.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct PostgresUpkeep {
    address: PostgresAddress,
    /// The number of the last commit.
    number: i64,
    /// The process of the server that has our connection.
    backend: i64,
    /// Whether deltas alone are committed without waiting for the disk, if known.
    is_async: Option<bool>,
    /// How many connections there were before this one.
    connection: u64,
    /// Whether the connection was lost since the last commit: PostgreSQL may have crashed.
    may_have_lost: bool,
}

impl PostgresUpkeep {
    pub(super) fn begin_on(conn: &SqlConnection, address: PostgresAddress) -> Result<Self, Error> {
        conn.execute("INSERT INTO commits (writer, number) VALUES (?1, 0) ON CONFLICT DO NOTHING", [WRITER])?;
        let number = last_commit(conn)?;
        let backend = backend_of(conn)?;
        Ok(Self { address, number, backend, is_async: None, connection: 0, may_have_lost: false })
    }

    /// Connects until the outcome of a commit is known.
    fn find_out(&mut self, conn: &mut SqlConnection, number: i64) -> Result<(), Error> {
        while let Err(error) = self.reconnect(conn) {
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
        find_first(&fresh, statement, params![self.backend, lock_name(&self.address)], |_| Ok(()))?;
        lock(&fresh, &self.address).map_err(away)?;
        require_newest(&fresh)?;
        self.backend = backend_of(&fresh)?;
        self.number = last_commit(&fresh)?;
        self.is_async = None;
        self.connection += 1;
        self.may_have_lost = true;
        *conn = fresh;
        tracing::info!("the connection to PostgreSQL is back");
        Ok(())
    }
}

impl Upkeep for PostgresUpkeep {
    fn begin(&mut self, conn: &mut SqlConnection, kind: CommitKind) -> Result<(), Error> {
        if !conn.is_usable() {
            self.reconnect(conn)?;
        }
        session_of(conn)?.see_all_rows();
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
        let counted = conn.execute("UPDATE commits SET number = ?2 WHERE writer = ?1", [WRITER, number]);
        if let Err(error) = counted.and_then(|()| conn.settle()) {
            // It fails if the connection is lost, and then there is nothing to be undone.
            let _undone = roll_back(conn);
            return Err(error);
        }
        match conn.execute("COMMIT", []).and_then(|()| conn.settle()) {
            Ok(()) => {
                self.number = number;
                self.may_have_lost = false;
                Ok(())
            }
            Err(error @ Error::Disconnected(_)) => {
                tracing::warn!(%error, "the answer to a commit is lost; the next connection says whether it has happened");
                self.find_out(conn, number)
            }
            Err(error) => Err(error),
        }
    }
}

fn roll_back(conn: &SqlConnection) -> Result<(), Error> {
    conn.execute("ROLLBACK", []).and_then(|()| conn.settle())
}

/// Whoever has the lock may go away: a copy does when it is complete.
fn away(error: Error) -> Error {
    if let Error::Unusable(why) = error { Error::Disconnected(why) } else { error }
}

fn last_commit(conn: &SqlConnection) -> Result<i64, Error> {
    find_only(conn, "SELECT number FROM commits WHERE writer = ?1", [WRITER], |row| row.get(0))
}

fn backend_of(conn: &SqlConnection) -> Result<i64, Error> {
    find_only(conn, "SELECT CAST(pg_backend_pid() AS BIGINT)", [], |row| row.get(0))
}
