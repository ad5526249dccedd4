//! Brings a database to the newest schema: each step in a transaction with its number, so a kill repeats or skips it.

use rusqlite::{Connection, TransactionBehavior};

use crate::Error;

/// One file a step, never changed once released.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_log.sql"),
    include_str!("migrations/0002_memories.sql"),
    include_str!("migrations/0003_ledger.sql"),
    include_str!("migrations/0004_memory.sql"),
    include_str!("migrations/0005_context.sql"),
    include_str!("migrations/0006_outside.sql"),
    include_str!("migrations/0007_limits.sql"),
    include_str!("migrations/0008_proof.sql"),
    include_str!("migrations/0009_bounds.sql"),
    include_str!("migrations/0010_shares_and_erasure.sql"),
    include_str!("migrations/0011_same_memory.sql"),
    include_str!("migrations/0012_deltas.sql"),
    include_str!("migrations/0013_access.sql"),
    include_str!("migrations/0014_client_calls.sql"),
    include_str!("migrations/0015_knowledge.sql"),
    include_str!("migrations/0016_notices.sql"),
    include_str!("migrations/0017_listed_threads.sql"),
    include_str!("migrations/0018_versions.sql"),
    include_str!("migrations/0019_images.sql"),
    include_str!("migrations/0020_webhooks.sql"),
    include_str!("migrations/0021_imported_runs.sql"),
    include_str!("migrations/0022_vectors_of_postgresql.sql"),
    include_str!("migrations/0023_nodes.sql"),
    include_str!("migrations/0024_app_revisions.sql"),
];

/// The schema after all of them, which a new database gets at once: to make it step by step takes ten times as long.
const SCHEMA: &str = include_str!("schema.sql");

pub(super) fn migrate(conn: &mut Connection) -> Result<(), Error> {
    // Of a new database only; an older one becomes so when it is written anew.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    let (found, known) = versions(conn)?;
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    let changes: i64 = conn.pragma_query_value(None, "schema_version", |row| row.get(0))?;
    if found == 0 && changes == 0 {
        return apply(conn, SCHEMA, known);
    }
    apply_after(conn, found)
}

/// Applies the migrations after the one of this number.
fn apply_after(conn: &mut Connection, found: i64) -> Result<(), Error> {
    let mut missing = (1i64..).zip(MIGRATIONS).filter(|(number, _)| *number > found);
    missing.try_for_each(|(number, sql)| apply(conn, sql, number))
}

fn apply(conn: &mut Connection, sql: &str, version: i64) -> Result<(), Error> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(sql)?;
    tx.pragma_update(None, "user_version", version)?;
    tx.commit()?;
    Ok(())
}

/// Fails unless the schema is the one that this version makes; for those who only look.
pub(super) fn require_newest(conn: &Connection) -> Result<(), Error> {
    match versions(conn)? {
        (found, known) if found > known => Err(Error::TooNew { found, known }),
        (found, known) if found < known => Err(Error::TooOld { found, known }),
        (_, _) => Ok(()),
    }
}

/// The version of the schema that is there, and the newest.
fn versions(conn: &Connection) -> Result<(i64, i64), Error> {
    let found = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((found, MIGRATIONS.len() as i64))
}

#[cfg(test)]
mod tests;
