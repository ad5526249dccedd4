//! Numbers that a database never gives out twice, also if the row of the highest one was removed.

use crate::Error;
use crate::database::SqlConnection;
use crate::sql::{find_first, find_only, params};

/// Tables whose numbers both databases remember, with the column of the number.
const REMEMBERED: &[(&str, &str)] = &[("admin_audit", "number"), ("items", "rev"), ("queue", "position")];

/// Tables whose next number is the one after the highest on SQLite, and of a sequence on PostgreSQL.
const COUNTED: &[(&str, &str)] =
    &[("memory_sources", "number"), ("records", "number"), ("shadows", "number"), ("tombstones", "number")];

/// Makes the target continue with the numbers that the source would give next.
pub(super) fn copy(source: &SqlConnection, target: &SqlConnection) -> Result<(), Error> {
    target.transaction(|target| {
        for (table, column) in REMEMBERED {
            let mark = of_source(source, table, column)?.max(highest(source, table, column)?);
            set(target, table, column, mark)?;
        }
        match target {
            SqlConnection::Sqlite(_) => Ok(()),
            SqlConnection::Postgres(_) => COUNTED
                .iter()
                .try_for_each(|(table, column)| set(target, table, column, highest(target, table, column)?)),
        }
    })
}

fn highest(conn: &SqlConnection, table: &str, column: &str) -> Result<i64, Error> {
    find_only(conn, &format!("SELECT coalesce(max({column}), 0) FROM {table}"), [], |row| row.get(0))
}

fn of_source(conn: &SqlConnection, table: &str, column: &str) -> Result<i64, Error> {
    let mark = match conn {
        SqlConnection::Postgres(_) if table != "admin_audit" => {
            let statement = "SELECT pg_sequence_last_value(CAST(CAST(?1 AS TEXT) AS regclass))";
            find_first(conn, statement, [sequence(conn, table, column)?], |row| row.get::<Option<i64>>(0))?
                .flatten()
        }
        SqlConnection::Sqlite(_) | SqlConnection::Postgres(_) => {
            find_first(conn, "SELECT seq FROM sqlite_sequence WHERE name = ?1", [table], |row| row.get(0))?
        }
    };
    Ok(mark.unwrap_or(0))
}

fn set(conn: &SqlConnection, table: &str, column: &str, mark: i64) -> Result<(), Error> {
    match conn {
        SqlConnection::Postgres(_) if table != "admin_audit" => {
            // A sequence cannot stand at 0; then the next number is 1.
            let statement = "SELECT setval(CAST(CAST(?1 AS TEXT) AS regclass), ?2, ?2 > 1 OR ?3 = 1)";
            let name = sequence(conn, table, column)?;
            let is_used = i64::from(mark > 0);
            find_only(conn, statement, params![name, mark.max(1), is_used], |_| Ok(()))
        }
        SqlConnection::Sqlite(_) | SqlConnection::Postgres(_) => {
            conn.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
            conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", params![table, mark])
        }
    }
}

/// The sequence of a column on PostgreSQL.
fn sequence(conn: &SqlConnection, table: &str, column: &str) -> Result<String, Error> {
    if table == "items" {
        return Ok("items_rev".to_owned());
    }
    find_only(conn, "SELECT pg_get_serial_sequence(?1, ?2)", [table, column], |row| row.get(0))
}
