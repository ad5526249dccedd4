//! Makes connections to PostgreSQL, brings the schema up to date, and takes the right to write.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{Connection, NoTls, Socket};

use super::address::PostgresAddress;
use super::session_of;
use super::upkeep::PostgresUpkeep;
use crate::Error;
use crate::database::PostgresSession;
use crate::sql::{SqlConnection, find_only, has_any, params};

/// The oldest version of the server that is supported, as PostgreSQL numbers it.
const OLDEST_VERSION: i64 = 160_000;

/// The schema that a new database gets, with its version.
const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema that this program knows.
pub const VERSION: i64 = 21;

/// After this time the server gives up on a statement, on a lock, and on a transaction in which nothing happens.
const LIMITS: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s';
    SET idle_in_transaction_session_timeout = '60s'";

/// How long another writer is given to go away, and how often that is looked at.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A connection whose statements find the tables.
pub(super) fn connect(address: &PostgresAddress) -> Result<SqlConnection, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Disconnected(error.to_string()))?;
    #[expect(clippy::disallowed_methods, reason = "the task ends with the connection that it drives")]
    let connected = runtime.block_on(async {
        match &address.tls {
            None => address.config.connect(NoTls).await.map(|(client, connection)| {
                tokio::spawn(driven(connection));
                client
            }),
            Some(tls) => address.config.connect(tls.clone()).await.map(|(client, connection)| {
                tokio::spawn(driven(connection));
                client
            }),
        }
    });
    let session = PostgresSession::new(runtime, connected.map_err(Error::of_postgres)?);
    session.run_script(&format!("SET search_path = {}; {LIMITS}", address.schema))?;
    Ok(SqlConnection::Postgres(session))
}

async fn driven<T>(connection: Connection<Socket, T>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to PostgreSQL has ended");
    }
}

/// The one connection that writes, once it has the lock and the newest schema.
pub(super) fn connect_writer(address: &PostgresAddress) -> Result<(SqlConnection, PostgresUpkeep), Error> {
    let conn = connect(address)?;
    require_version(&conn)?;
    lock(&conn, address)?;
    migrate(&conn, address)?;
    let upkeep = PostgresUpkeep::begin_on(&conn, address.clone())?;
    Ok((conn, upkeep))
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

/// What the lock of a schema is made of.
pub(super) fn lock_name(address: &PostgresAddress) -> String {
    format!("rondo {}", address.schema)
}

/// Takes the right to write, which ends with the connection.
pub(super) fn lock(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    let statement = "SELECT pg_try_advisory_lock(hashtextextended(?1, 0))";
    let name = lock_name(address);
    let begin = Instant::now();
    loop {
        if find_only(conn, statement, params![name], |row| row.get::<bool>(0))? {
            return Ok(());
        }
        if begin.elapsed() > LOCK_PATIENCE {
            return Err(Error::Unusable(format!(
                "another server uses the schema {}; stop it, or choose another with ?schema=NAME in RONDO_STORE",
                address.schema
            )));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

fn migrate(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    let session = session_of(conn)?;
    // A role that was given the schema need not have the right to make one.
    if !has_any(conn, "SELECT 1 FROM pg_namespace WHERE nspname = ?1", params![address.schema])? {
        session.run_script(&format!("CREATE SCHEMA {}", address.schema))?;
    }
    let statement = "SELECT 1 FROM pg_tables WHERE schemaname = ?1 AND tablename = 'schema_version'";
    if !has_any(conn, statement, params![address.schema])? {
        return session.run_script(&format!("BEGIN; {SCHEMA}; COMMIT"));
    }
    require_newest(conn)
}

/// Fails unless the schema is the one that this version makes.
pub(super) fn require_newest(conn: &SqlConnection) -> Result<(), Error> {
    let found = find_only(conn, "SELECT version FROM schema_version", [], |row| row.get::<i64>(0))?;
    match found.cmp(&VERSION) {
        std::cmp::Ordering::Greater => Err(Error::TooNew { found, known: VERSION }),
        std::cmp::Ordering::Less => Err(Error::TooOld { found, known: VERSION }),
        std::cmp::Ordering::Equal => Ok(()),
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
