//! Brings a database on PostgreSQL to the newest schema: each step is in a transaction with its number.

use super::address::PostgresAddress;
use super::session_of;
use crate::Error;
use crate::sql::{SqlConnection, find_first, find_only, has_any, params};

/// The schema that a new database gets, with its version.
const SCHEMA: &str = include_str!("schema.sql");

/// Which rows a user sees.
const POLICIES: &str = include_str!("policies.sql");

/// The steps from the first version that PostgreSQL had. Their numbers are those of SQLite's migrations.
const MIGRATIONS: &[(i64, &[&str])] = &[
    (22, &[include_str!("migrations/0022_vectors.sql"), POLICIES]),
    (23, &[include_str!("migrations/0023_nodes.sql")]),
    (24, &[include_str!("migrations/0024_app_revisions.sql")]),
];

/// The version of the schema that this program knows.
pub const VERSION: i64 = 24;

/// The extension that has the type of vectors.
const EXTENSION: &str = "vector";

pub(super) fn migrate(conn: &SqlConnection, address: &PostgresAddress) -> Result<(), Error> {
    let session = session_of(conn)?;
    let schema = &address.schema;
    // A role that was given the schema need not have the right to make one.
    if !has_any(conn, "SELECT 1 FROM pg_namespace WHERE nspname = ?1", params![schema])? {
        session.run_script(&format!("CREATE SCHEMA {schema}"))?;
    }
    let is_new = !has_tables(conn)?;
    if !is_new && found_version(conn)? >= VERSION {
        return require_newest(conn);
    }
    let extension = schema_of_extension(conn)?;
    session.run_script(&format!("SET search_path = {schema}, {extension}"))?;
    if is_new {
        session.run_script(&format!("BEGIN; {SCHEMA}; {POLICIES}; COMMIT"))?;
    } else {
        let found = found_version(conn)?;
        for (number, scripts) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
            let script = scripts.join("; ");
            let step = format!("BEGIN; {script}; UPDATE schema_version SET version = {number}; COMMIT");
            session.run_script(&step)?;
            tracing::info!(version = number, "the tables in PostgreSQL have a new version");
        }
    }
    session.run_script(&format!("SET search_path = {schema}"))?;
    require_newest(conn)
}

/// Returns the schema of the type of vectors, quoted. Makes it if it is not there.
fn schema_of_extension(conn: &SqlConnection) -> Result<String, Error> {
    let find =
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = ?1";
    if let Some(found) = find_first(conn, find, [EXTENSION], |row| row.get(0))? {
        return Ok(found);
    }
    // Two servers may find it missing at the same time.
    let make = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('rondo extension', 0));
            CREATE EXTENSION IF NOT EXISTS {EXTENSION} SCHEMA public; COMMIT"
    );
    if let Err(error) = session_of(conn)?.run_script(&make) {
        session_of(conn)?.run_script("ROLLBACK")?;
        return Err(Error::Unusable(format!(
            "the extension {EXTENSION} cannot be made ({error}); install pgvector where PostgreSQL runs, and let a \
             superuser execute CREATE EXTENSION {EXTENSION} in this database"
        )));
    }
    find_only(conn, find, [EXTENSION], |row| row.get(0))
}

/// Whether the schema of the session has our tables.
fn has_tables(conn: &SqlConnection) -> Result<bool, Error> {
    let statement =
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version'";
    has_any(conn, statement, [])
}

fn found_version(conn: &SqlConnection) -> Result<i64, Error> {
    find_only(conn, "SELECT version FROM schema_version", [], |row| row.get(0))
}

/// Fails unless the schema is the one that this version makes.
pub(super) fn require_newest(conn: &SqlConnection) -> Result<(), Error> {
    if !has_tables(conn)? {
        let what = "there are no tables of Rondo in this schema; a server makes them when it starts";
        return Err(Error::Unusable(what.to_owned()));
    }
    let found = found_version(conn)?;
    match found.cmp(&VERSION) {
        std::cmp::Ordering::Greater => Err(Error::TooNew { found, known: VERSION }),
        std::cmp::Ordering::Less => Err(Error::TooOld { found, known: VERSION }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

/// Fails if the schema is older than this version needs. One that another node has brought further has all of it: what a
/// version adds does not disturb the one before.
pub(super) fn require_not_older(conn: &SqlConnection) -> Result<(), Error> {
    let found = found_version(conn)?;
    if found < VERSION { Err(Error::TooOld { found, known: VERSION }) } else { Ok(()) }
}
