//! A database of the newest schema, full of rows that mean nothing.

use std::path::Path;
use std::sync::Arc;

use protocol::{Stored, SystemClock};
use rusqlite::Connection;
use store::{Publish, Store, StoreOptions};

/// Rows of each table.
const ROWS: usize = 10_000;

struct NoReaders;

impl Publish for NoReaders {
    fn publish(&self, _: &[Arc<Stored>]) {}
}

/// Makes one in a folder.
pub(crate) fn database(folder: &Path) -> Result<Connection, Box<dyn std::error::Error>> {
    drop(Store::open_sqlite(folder, Arc::new(SystemClock), Arc::new(NoReaders), StoreOptions::default())?);
    let conn = Connection::open(folder.join(store::sqlite::FILE))?;
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    let triggers = strings(&conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")?;
    let made = strings(&conn, "SELECT sql FROM sqlite_schema WHERE type = 'trigger'")?;
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF; BEGIN;",
    )?;
    for trigger in triggers {
        conn.execute_batch(&format!("DROP TRIGGER {trigger}"))?;
    }
    for table in tables(&conn, "table")? {
        fill(&conn, &table)?;
    }
    for trigger in made {
        conn.execute_batch(&trigger)?;
    }
    conn.execute_batch("COMMIT; PRAGMA foreign_keys = ON; PRAGMA ignore_check_constraints = OFF;")?;
    Ok(conn)
}

/// The tables of the schema of a kind (`table` or `virtual`), but not those that SQLite has for itself or behind others.
pub(crate) fn tables(conn: &Connection, kind: &str) -> rusqlite::Result<Vec<String>> {
    let named =
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%' AND type =";
    strings(conn, &format!("{named} '{kind}'"))
}

fn fill(conn: &Connection, table: &str) -> rusqlite::Result<()> {
    let columns = strings(conn, &format!("SELECT name FROM pragma_table_info('{table}')"))?;
    let types = strings(conn, &format!("SELECT type FROM pragma_table_info('{table}')"))?;
    let values: Vec<&str> = types
        .iter()
        .map(|of| match of.as_str() {
            "INTEGER" | "REAL" => "i",
            "BLOB" => "unhex(printf('%032x', i))",
            _ => "printf('%010d', i)",
        })
        .collect();
    conn.execute(
        &format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
                INSERT OR IGNORE INTO {table} ({}) SELECT {} FROM n",
            columns.join(", "),
            values.join(", ")
        ),
        [],
    )?;
    Ok(())
}

pub(crate) fn strings(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}
