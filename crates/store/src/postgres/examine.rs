//! The facts that `rondo doctor` wants to know of a PostgreSQL before a server starts on it.

use protocol::Clock;

use super::address::PostgresAddress;
use super::connect::{connect, require_version};
use super::node::{LEASE_MS, NOW};
use super::on_own_thread;
use super::vault::{self, VaultFit};
use crate::Error;
use crate::sql::{SqlConnection, find_all, find_first, find_only, has_any, params};

/// The first version of the tables that knows nodes.
const NODES_SINCE: i64 = 23;

/// Nodes that are listed at most.
const MAX_LISTED: i64 = 100;

/// A PostgreSQL as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExaminedPostgres {
    /// The version of the server, such as `16.14`.
    pub version: String,
    /// The version of the tables; none if there are no tables yet.
    pub schema_version: Option<i64>,
    /// Whether the role may make the schema, or has made it.
    pub may_create: bool,
    /// How far the clock of the database is ahead of ours, in milliseconds.
    pub clock_ahead: i64,
    /// The version of the extension for vectors, if the database has it.
    pub vector: Option<String>,
    /// Whether the role passes the policies that keep users apart.
    pub passes_policies: bool,
    /// Connections that all clients of the server have, and may have.
    pub connections: i64,
    pub max_connections: i64,
    /// The nodes that run now.
    pub nodes: Vec<ExaminedNode>,
    /// Whether a server, a command or a copy has the database for itself.
    pub is_taken: bool,
    /// The fit of the vault key to the database; none if the tables do not know keys yet.
    pub vault: Option<VaultFit>,
}

/// A node that runs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExaminedNode {
    pub number: i64,
    /// The version of its program.
    pub version: String,
    /// How long ago it has renewed its lease, in milliseconds.
    pub renewed_before: i64,
}

/// Looks at the server without changing anything. `vault` names the vault key; none stands for a key that is not made yet.
pub fn examine(
    address: &PostgresAddress,
    clock: &dyn Clock,
    vault: Option<&str>,
) -> Result<ExaminedPostgres, Error> {
    on_own_thread(|| {
        let conn = connect(address)?;
        require_version(&conn)?;
        let version = find_only(&conn, "SELECT current_setting('server_version')", [], |row| row.get(0))?;
        let statement = "SELECT 1 FROM pg_tables WHERE schemaname = ?1 AND tablename = 'schema_version'";
        let schema_version = match find_first(&conn, statement, params![address.schema], |_| Ok(()))? {
            Some(()) => find_first(&conn, "SELECT version FROM schema_version", [], |row| row.get(0))?,
            None => None,
        };
        let statement = "SELECT has_database_privilege(current_database(), 'CREATE') OR EXISTS
            (SELECT 1 FROM pg_namespace WHERE nspname = ?1 AND pg_has_role(nspowner, 'USAGE'))";
        let may_create = find_only(&conn, statement, params![address.schema], |row| row.get(0))?;
        let statement = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
        let there: i64 = find_only(&conn, statement, [], |row| row.get(0))?;
        let clock_ahead = there - clock.now().as_millisecond();
        let statement = "SELECT extversion FROM pg_extension WHERE extname = 'vector'";
        let vector = find_first(&conn, statement, [], |row| row.get(0))?;
        let statement = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user";
        let passes_policies = find_only(&conn, statement, [], |row| row.get(0))?;
        let statement =
            "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
            CAST(current_setting('max_connections') AS BIGINT)";
        let (connections, max_connections) =
            find_only(&conn, statement, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let knows_nodes = schema_version.is_some_and(|version| version >= NODES_SINCE);
        let nodes = if knows_nodes { find_nodes(&conn)? } else { vec![] };
        let vault = if knows_nodes { Some(vault::compare(&conn, vault.unwrap_or_default())?) } else { None };
        Ok(ExaminedPostgres {
            version,
            schema_version,
            may_create,
            clock_ahead,
            vector,
            passes_policies,
            connections,
            max_connections,
            nodes,
            is_taken: is_taken(&conn, address)?,
            vault,
        })
    })
}

fn find_nodes(conn: &SqlConnection) -> Result<Vec<ExaminedNode>, Error> {
    let statement = format!(
        "SELECT number, version, {NOW} - lease_until + ?1 FROM nodes
            WHERE lease_until > {NOW} ORDER BY number LIMIT ?2"
    );
    find_all(conn, &statement, [LEASE_MS, MAX_LISTED], |row| {
        Ok(ExaminedNode { number: row.get(0)?, version: row.get(1)?, renewed_before: row.get(2)? })
    })
}

/// Whether a process has the lock that nodes share.
fn is_taken(conn: &SqlConnection, address: &PostgresAddress) -> Result<bool, Error> {
    let statement = "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
            AND l.mode = 'ExclusiveLock'
            AND CAST(l.classid AS BIGINT) << 32 | CAST(l.objid AS BIGINT) = hashtextextended(?1, 0)";
    has_any(conn, statement, params![address.lock_name()])
}
