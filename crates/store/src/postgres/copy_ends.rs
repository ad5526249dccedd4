//! A database on PostgreSQL as one end of a copy: read as it is, or filled row by row.

use super::address::PostgresAddress;
use super::connect::{connect, lock, require_version, started_at, try_lock};
use super::migrate::{migrate, require_newest};
use super::session_of;
use crate::Error;
use crate::database::{PostgresSession, SqlConnection};
use crate::sql::find_all;

/// A copy may take long: references of a whole table are checked in one statement.
const NO_LIMITS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// Keeps the references of tables while a copy is made.
const LAID_ASIDE: &str = "CREATE TABLE IF NOT EXISTS copy_constraints
    (of_table text NOT NULL, name text NOT NULL, definition text NOT NULL, PRIMARY KEY (of_table, name))";

/// A connection that reads, and whether it has the right to write, which keeps servers away.
pub(crate) fn connect_to_copy(address: &PostgresAddress) -> Result<(SqlConnection, bool), Error> {
    let conn = connect_patiently(address)?;
    require_newest(&conn)?;
    let has_lock = try_lock(&conn, address)?;
    Ok((conn, has_lock))
}

/// Returns the only connection that writes, and which start of the server this is. The tables are made if need be.
pub(crate) fn connect_to_fill(address: &PostgresAddress) -> Result<(SqlConnection, Option<String>), Error> {
    let conn = connect_patiently(address)?;
    require_version(&conn)?;
    lock(&conn, address)?;
    migrate(&conn, address)?;
    let boot = started_at(&conn).ok();
    Ok((conn, boot))
}

fn connect_patiently(address: &PostgresAddress) -> Result<SqlConnection, Error> {
    let conn = connect(address)?;
    let session = session_of(&conn)?;
    session.wait_long();
    session.run_script(NO_LIMITS)?;
    Ok(conn)
}

/// Drops references and stops triggers. [`put_rules_back`] undoes it, also after a copy that was cut.
pub(crate) fn lay_rules_aside(conn: &SqlConnection, session: &PostgresSession) -> Result<(), Error> {
    let references = "SELECT 'INSERT INTO copy_constraints VALUES ('
            || quote_literal(quote_ident(t.relname)) || ', ' || quote_literal(quote_ident(c.conname)) || ', '
            || quote_literal(pg_get_constraintdef(c.oid)) || ') ON CONFLICT DO NOTHING; ALTER TABLE '
            || quote_ident(t.relname) || ' DROP CONSTRAINT ' || quote_ident(c.conname)
        FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
        WHERE c.contype = 'f' AND c.connamespace = CAST(CAST(current_schema() AS TEXT) AS regnamespace)";
    let mut script = vec!["BEGIN".to_owned(), LAID_ASIDE.to_owned()];
    script.extend(find_all(conn, references, [], |row| row.get::<String>(0))?);
    script.extend(of_all_tables(conn, "DISABLE TRIGGER USER")?);
    script.push("COMMIT".to_owned());
    session.run_script(&script.join("; "))
}

/// Puts triggers and references back. A row without the row that it names is found here.
pub(crate) fn put_rules_back(conn: &SqlConnection, session: &PostgresSession) -> Result<(), Error> {
    let references = "SELECT 'ALTER TABLE ' || of_table || ' ADD CONSTRAINT ' || name || ' ' || definition
        FROM copy_constraints ORDER BY of_table, name";
    let mut script = vec!["BEGIN".to_owned()];
    script.extend(find_all(conn, references, [], |row| row.get::<String>(0))?);
    script.extend(of_all_tables(conn, "ENABLE TRIGGER USER")?);
    script.extend(["DROP TABLE copy_constraints", "COMMIT", "ANALYZE"].map(str::to_owned));
    let done = session.run_script(&script.join("; "));
    if done.is_err() {
        session.run_script("ROLLBACK")?;
    }
    done
}

fn of_all_tables(conn: &SqlConnection, what: &str) -> Result<Vec<String>, Error> {
    let statement = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()
        AND tablename <> 'copy_constraints' ORDER BY tablename";
    let tables = find_all(conn, statement, [], |row| row.get::<String>(0))?;
    Ok(tables.into_iter().map(|table| format!("ALTER TABLE {table} {what}")).collect())
}
