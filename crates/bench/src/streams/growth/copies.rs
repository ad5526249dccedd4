//! Copies of rows under other ids, users and times, and the size of each table.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// Tables with rows of runs. Other tables have rows of users, which are few.
const TABLES: [&str; 10] = [
    "threads",
    "runs",
    "events",
    "messages",
    "tool_calls",
    "tool_results",
    "jobs",
    "items",
    "text_uses",
    "packed_deltas",
];
const ID_BYTES: usize = 16;
/// The bytes of an id that hold the moment at which it was made.
const ID_TIME: std::ops::Range<usize> = 2..6;
/// The user of the rows that are copied, and how many users the copies have.
const TEMPLATE_USER: &str = "local";
const USERS: usize = 1000;
/// Copies are so much older: more than the seven days for which deltas are kept.
const AGE_MS: i64 = 8 * 24 * 60 * 60 * 1000;
const COPIES_PER_COMMIT: usize = 100;

/// The growth of a table or an index.
pub(super) struct TableGrowth {
    pub(super) name: String,
    pub(super) bytes_per_run: f64,
}

/// The rows of a table, and how each of its columns changes from copy to copy.
struct TableRows {
    insert: String,
    columns: Vec<ColumnChange>,
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnChange {
    /// Ids change; other values stay.
    Ids,
    User,
    Time,
    /// A text that must be unique.
    Key,
    /// A number that the database gives.
    Number,
}

/// The bytes of each table and index.
pub(super) fn table_sizes(database: &Path) -> rusqlite::Result<BTreeMap<String, i64>> {
    let database = Connection::open(database)?;
    let mut find = database.prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name")?;
    let sizes = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    sizes.collect()
}

/// The growth between two moments, for each of `runs` runs, the largest first.
pub(super) fn table_growth(
    before: &BTreeMap<String, i64>,
    after: &BTreeMap<String, i64>,
    runs: usize,
) -> Vec<TableGrowth> {
    let growth = after.iter().map(|(name, bytes)| {
        let grown = bytes - before.get(name).copied().unwrap_or_default();
        TableGrowth { name: name.clone(), bytes_per_run: grown as f64 / runs as f64 }
    });
    let mut growth: Vec<TableGrowth> = growth.filter(|table| table.bytes_per_run > 0.0).collect();
    growth.sort_by(|one, other| other.bytes_per_run.total_cmp(&one.bytes_per_run));
    growth
}

/// Copies all rows of runs `copies` times.
pub(super) fn copy_rows(database: &Path, copies: usize) -> rusqlite::Result<()> {
    let database = Connection::open(database)?;
    database
        .execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")?;
    let triggers = take_triggers(&database)?;
    let tables = TABLES.iter().map(|table| TableRows::read(&database, table));
    let tables = tables.collect::<rusqlite::Result<Vec<_>>>()?;
    for first in (0..copies).step_by(COPIES_PER_COMMIT) {
        database.execute_batch("BEGIN")?;
        for number in first..copies.min(first + COPIES_PER_COMMIT) {
            // The rows that are there are number 0.
            tables.iter().try_for_each(|table| table.write_copy(&database, number + 1))?;
        }
        database.execute_batch("COMMIT")?;
    }
    triggers.iter().try_for_each(|trigger| database.execute_batch(trigger))
}

/// Removes all triggers: copies are as they shall be already. Gives how each is made.
fn take_triggers(database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut find = database.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?;
    let triggers = find.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let triggers = triggers.collect::<rusqlite::Result<Vec<_>>>()?;
    for (name, _) in &triggers {
        database.execute_batch(&format!("DROP TRIGGER \"{name}\""))?;
    }
    Ok(triggers.into_iter().map(|(_, sql)| sql).collect())
}

impl TableRows {
    fn read(database: &Connection, table: &str) -> rusqlite::Result<Self> {
        let mut find = database.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns: Vec<ColumnChange> = find.column_names().map(|name| change_of(table, name)).collect();
        let width = columns.len();
        let rows = find.query_map([], |row| (0..width).map(|column| row.get(column)).collect())?;
        let rows = rows.collect::<rusqlite::Result<Vec<Vec<Value>>>>()?;
        let places = vec!["?"; width].join(", ");
        Ok(Self { insert: format!("INSERT INTO \"{table}\" VALUES ({places})"), columns, rows })
    }

    fn write_copy(&self, database: &Connection, number: usize) -> rusqlite::Result<()> {
        let mut insert = database.prepare_cached(&self.insert)?;
        for row in &self.rows {
            let values = row.iter().zip(&self.columns).map(|(value, change)| change.apply(value, number));
            insert.execute(params_from_iter(values))?;
        }
        Ok(())
    }
}

fn change_of(table: &str, column: &str) -> ColumnChange {
    match (table, column) {
        (_, "user") => ColumnChange::User,
        ("jobs", "key") => ColumnChange::Key,
        ("items", "rev") => ColumnChange::Number,
        (_, name) if name == "at" || name.ends_with("_at") => ColumnChange::Time,
        _ => ColumnChange::Ids,
    }
}

impl ColumnChange {
    fn apply(self, value: &Value, number: usize) -> Value {
        match (self, value) {
            (Self::Number, _) => Value::Null,
            (Self::User, Value::Text(user)) if user == TEMPLATE_USER => {
                Value::Text(format!("user-{}", number % USERS))
            }
            (Self::Key, Value::Text(key)) => Value::Text(format!("{key}-{number}")),
            (Self::Time, Value::Integer(at)) => Value::Integer(at - AGE_MS),
            (Self::Ids, Value::Blob(id)) if id.len() == ID_BYTES => Value::Blob(other_id(id, number)),
            _ => value.clone(),
        }
    }
}

/// An id that no other copy has.
fn other_id(id: &[u8], number: usize) -> Vec<u8> {
    let mut id = id.to_vec();
    let number = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    for (byte, other) in id.iter_mut().skip(ID_TIME.start).take(ID_TIME.len()).zip(number) {
        *byte ^= other;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_other_ids_users_and_times() {
        let id = Value::Blob(vec![1; ID_BYTES]);
        let copy = |change: ColumnChange, value: &Value| change.apply(value, 0x0203);
        let mut other = vec![1; ID_BYTES];
        other.splice(4..6, [1 ^ 2, 1 ^ 3]);
        assert_eq!(copy(ColumnChange::Ids, &id), Value::Blob(other));
        assert_eq!(copy(ColumnChange::Ids, &Value::Blob(vec![1; 3])), Value::Blob(vec![1; 3]));
        assert_eq!(copy(ColumnChange::User, &Value::Text("local".into())), Value::Text("user-515".into()));
        assert_eq!(copy(ColumnChange::Time, &Value::Integer(AGE_MS)), Value::Integer(0));
        assert_eq!(copy(ColumnChange::Time, &Value::Null), Value::Null);
        assert_eq!(copy(ColumnChange::Number, &Value::Integer(7)), Value::Null);
    }

    #[test]
    fn growth_is_of_one_run_and_the_largest_comes_first() {
        let sizes =
            |sizes: &[(&str, i64)]| sizes.iter().map(|(name, size)| ((*name).into(), *size)).collect();
        let growth =
            table_growth(&sizes(&[("a", 100), ("b", 7)]), &sizes(&[("a", 300), ("b", 7), ("c", 900)]), 10);
        let growth: Vec<(&str, f64)> =
            growth.iter().map(|table| (table.name.as_str(), table.bytes_per_run)).collect();
        assert_eq!(growth, [("c", 90.0), ("a", 20.0)]);
    }

    #[test]
    fn rows_are_copied_without_their_triggers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        let database = Connection::open(&file).unwrap();
        for table in TABLES {
            database
                .execute_batch(&format!("CREATE TABLE {table} (id BLOB PRIMARY KEY, user TEXT)"))
                .unwrap();
        }
        let trigger = "CREATE TRIGGER never BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END";
        database.execute("INSERT INTO runs VALUES (?1, 'local')", [vec![9_u8; ID_BYTES]]).unwrap();
        database.execute_batch(trigger).unwrap();
        copy_rows(&file, 250).unwrap();
        let count = "SELECT count(*), count(DISTINCT id), count(DISTINCT user) FROM runs";
        let counts =
            database.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(counts, (251, 251, 251));
        assert!(database.execute("INSERT INTO runs VALUES (x'01', 'a')", []).is_err(), "the trigger is back");
    }
}
