//! Makes connections to PostgreSQL, brings the schema up to date, and takes the right to write.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{Connection, NoTls, Socket};

use super::address::PostgresAddress;
use super::migrate::migrate;
use super::upkeep::PostgresUpkeep;
use crate::Error;
use crate::database::PostgresSession;
use crate::sql::{SqlConnection, find_only, params};

/// The oldest version of the server that is supported, as PostgreSQL numbers it.
const OLDEST_VERSION: i64 = 160_000;

/// After this time the server gives up on a statement, on a lock, and on a transaction in which nothing happens.
const LIMITS: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s';
    SET idle_in_transaction_session_timeout = '60s'";

/// How long another writer is given to go away, and how often that is looked at.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How long another node is given to bring the tables up to date.
const OPENING_PATIENCE: Duration = Duration::from_secs(120);

/// A connection whose statements find the tables.
pub(crate) fn connect(address: &PostgresAddress) -> Result<SqlConnection, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Disconnected(error.to_string()))?;
    #[expect(clippy::disallowed_methods, reason = "the task ends with the connection that it drives")]
    let connected = runtime.block_on(async {
        match &address.tls {
            None => address.config.connect(NoTls).await.map(|(client, connection)| {
                tokio::spawn(drive_connection(connection));
                client
            }),
            Some(tls) => address.config.connect(tls.clone()).await.map(|(client, connection)| {
                tokio::spawn(drive_connection(connection));
                client
            }),
        }
    });
    let session = PostgresSession::new(runtime, connected.map_err(Error::of_postgres)?);
    session.run_script(&format!("SET search_path = {}; {LIMITS}", address.schema))?;
    Ok(SqlConnection::Postgres(session))
}

async fn drive_connection<T>(connection: Connection<Socket, T>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to PostgreSQL has ended");
    }
}

/// Returns the only connection that writes, once it has the lock and the newest schema.
pub(super) fn connect_writer(address: &PostgresAddress) -> Result<(SqlConnection, PostgresUpkeep), Error> {
    let conn = connect(address)?;
    require_version(&conn)?;
    lock(&conn, address)?;
    migrate(&conn, address)?;
    let upkeep = PostgresUpkeep::of_single_server(&conn, address.clone())?;
    Ok((conn, upkeep))
}

/// The connection that writes for a node, once it may share the database and the schema is the newest.
pub(super) fn connect_node(address: &PostgresAddress) -> Result<SqlConnection, Error> {
    let conn = connect(address)?;
    require_version(&conn)?;
    share(&conn, address)?;
    // One node after the other makes the tables. The lock ends with `open_to_others`.
    let begin = Instant::now();
    let statement = "SELECT pg_try_advisory_lock(hashtextextended(?1, 0))";
    while !find_only(&conn, statement, params![opening_name(address)], |row| row.get::<bool>(0))? {
        if begin.elapsed() > OPENING_PATIENCE {
            return Err(Error::Unusable(
                "another node still brings the tables up to date; start this one again when it is ready"
                    .to_owned(),
            ));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    migrate(&conn, address)?;
    Ok(conn)
}

/// The tables are as this node needs them: another one may look.
pub(super) fn open_to_others(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    let statement = "SELECT pg_advisory_unlock(hashtextextended(?1, 0))";
    find_only(conn, statement, params![opening_name(address)], |row| row.get::<bool>(0)).map(drop)
}

fn opening_name(address: &PostgresAddress) -> String {
    format!("{} opening", address.lock_name())
}

pub(super) fn require_version(conn: &SqlConnection) -> Result<(), Error> {
    let statement = "SELECT CAST(current_setting('server_version_num') AS BIGINT)";
    let version: i64 = find_only(conn, statement, [], |row| row.get(0))?;
    if version < OLDEST_VERSION {
        let (found, oldest) = (version / 10_000, OLDEST_VERSION / 10_000);
        return Err(Error::Unusable(format!(
            "the server is PostgreSQL {found}, and Rondo needs {oldest} or newer"
        )));
    }
    Ok(())
}

/// Takes the right to write, if no other process has it. The right ends with the connection.
pub(super) fn try_lock(conn: &SqlConnection, address: &PostgresAddress) -> Result<bool, Error> {
    let statement = "SELECT pg_try_advisory_lock(hashtextextended(?1, 0))";
    find_only(conn, statement, params![address.lock_name()], |row| row.get(0))
}

/// Takes the right to write alone, and gives another writer a moment to go away.
pub(super) fn lock(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    take_lock(conn, address, &address.lock_name())
}

/// Takes a lock. A process that has the lock gets a moment to release it.
pub(super) fn take_lock(conn: &SqlConnection, address: &PostgresAddress, name: &str) -> Result<(), Error> {
    take("SELECT pg_try_advisory_lock(hashtextextended(?1, 0))", conn, (address, name))
}

/// Takes the right to write in turn with others.
pub(super) fn share(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    let name = address.lock_name();
    take("SELECT pg_try_advisory_lock_shared(hashtextextended(?1, 0))", conn, (address, &name))
}

fn take(
    statement: &str,
    conn: &SqlConnection,
    (address, name): (&PostgresAddress, &str),
) -> Result<(), Error> {
    let begin = Instant::now();
    loop {
        if find_only(conn, statement, params![name], |row| row.get(0))? {
            return Ok(());
        }
        if begin.elapsed() > LOCK_PATIENCE {
            return Err(Error::InUse(format!(
                "another server uses the schema {}; stop it, or choose another with ?schema=NAME in RONDO_STORE; \
                 several servers share a schema if each of them has the same RONDO_VAULT_KEY",
                address.schema
            )));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Which start of the server this is: a commit that was not synced can be lost when it ends. After a crash of one of its
/// processes the server recovers without a new start, and its statistics begin anew.
pub(super) fn started_at(conn: &SqlConnection) -> Result<String, Error> {
    let statement =
        "SELECT CAST(pg_postmaster_start_time() AS TEXT) || ' ' || coalesce(CAST(stats_reset AS TEXT), '')
        FROM pg_stat_bgwriter";
    find_only(conn, statement, [], |row| row.get(0))
}
