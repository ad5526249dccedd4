//! How a server becomes one of the nodes that share a database, and how it leaves.
//!
//! Nodes commit one after the other. The row of `commits` with the number 0 is the turn: the node that has changed it
//! in a transaction has the turn until the transaction ends. So the commits of all nodes are in one order.

use std::sync::Arc;

use super::address::PostgresAddress;
use super::connect::{connect_node, open_to_others, take_lock};
use super::{session_of, vault};
use crate::sql::{DeltaLog, NodeLog, NodeSeat, SqlConnection, find_only, has_any, params};
use crate::{Error, SharedStore};

/// How long a node is taken for alive after its last sign, in milliseconds.
pub(super) const LEASE_MS: i64 = 8_000;

/// Nodes that joined later before the last commit of a node that is gone is forgotten.
const KEPT_NUMBERS: i64 = 1_000;

/// A node that stops in the midst of its turn loses it after this time.
pub(super) const LIMITS_OF_NODES: &str = "SET idle_in_transaction_session_timeout = '5s'";

/// The time of the database in milliseconds since 1970.
pub(super) const NOW: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";

/// Returns the name that the lock of a node is made of. Its connection has it, so the database knows when the node has
/// ended.
pub(super) fn lock_name(address: &PostgresAddress, node: i64) -> String {
    format!("{} node {node}", address.lock_name())
}

/// Opens the database as one of several nodes. `begin` does what the first of them has to do.
pub(super) fn open(
    address: &PostgresAddress,
    shared: &SharedStore,
    log: &mut DeltaLog,
    begin: impl FnOnce(&SqlConnection) -> Result<(), Error>,
) -> Result<(SqlConnection, Arc<NodeSeat>, NodeLog), Error> {
    let conn = connect_node(address)?;
    session_of(&conn)?.run_script(LIMITS_OF_NODES)?;
    shared.clock.set(find_only(&conn, &format!("SELECT {NOW}"), [], |row| row.get(0))?);
    conn.execute("INSERT INTO commits (writer, number) VALUES (0, 0) ON CONFLICT DO NOTHING", [])?;
    // A node that is refused has changed nothing.
    vault::require(&conn, &shared.vault)?;
    if !has_any(&conn, "SELECT 1 FROM nodes LIMIT 1", [])? {
        begin(&conn)?;
    }
    let seat = Arc::new(NodeSeat::new(shared.vault.clone()));
    let at = protocol::Clock::now(&*shared.clock).as_millisecond();
    let nodes = join_and(&conn, address, &seat, |conn| NodeLog::begin(conn, log, at))?;
    open_to_others(&conn, address)?;
    tracing::info!(
        node = seat.number(),
        "this server is a node of the database, which several servers can share"
    );
    Ok((conn, seat, nodes))
}

/// Becomes a new node, after the others took this one for dead.
pub(super) fn join(conn: &SqlConnection, address: &PostgresAddress, seat: &NodeSeat) -> Result<(), Error> {
    join_and(conn, address, seat, |_| Ok(()))
}

/// Becomes a node, and does something while no other node commits.
fn join_and<R>(
    conn: &SqlConnection,
    address: &PostgresAddress,
    seat: &NodeSeat,
    work: impl FnOnce(&SqlConnection) -> Result<R, Error>,
) -> Result<R, Error> {
    let (number, done) = conn.transaction(|conn| {
        let turn = "SELECT number FROM commits WHERE writer = 0 FOR UPDATE";
        find_only(conn, turn, [], |row| row.get::<i64>(0))?;
        vault::require_and_note(conn, seat.vault())?;
        let statement = "INSERT INTO commits (writer, number)
            SELECT max(coalesce(max(writer), 0), 1) + 1, 0 FROM commits RETURNING writer";
        let number: i64 = find_only(conn, statement, [], |row| row.get(0))?;
        take_lock(conn, address, &lock_name(address, number))?;
        let statement = format!(
            "INSERT INTO nodes (number, lease_until, joined_at, version, vault)
                VALUES (?1, {NOW} + ?2, {NOW}, ?3, ?4)"
        );
        conn.execute(&statement, params![number, LEASE_MS, env!("CARGO_PKG_VERSION"), seat.vault()])?;
        Ok((number, work(conn)?))
    })?;
    seat.set_number(number);
    Ok(done)
}

/// Gives up what the node has: the others continue it at once.
pub(super) fn leave(conn: &SqlConnection, seat: &NodeSeat) -> Result<(), Error> {
    if !conn.is_usable() {
        return Err(Error::Disconnected("the connection is lost".to_owned()));
    }
    session_of(conn)?.see_all_rows();
    conn.count_changed("DELETE FROM nodes WHERE number = ?1", [seat.number()])?;
    // A node that was only paused still asks whether its last commit has happened.
    let statement = "DELETE FROM commits WHERE writer > ?1 AND writer < ?2
        AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.number = commits.writer)";
    conn.count_changed(statement, [super::upkeep::ALONE, seat.number() - KEPT_NUMBERS])?;
    Ok(())
}
