//! The tables that are copied, their columns and their keys. Both databases have the same ones.

use rusqlite::Connection;

use crate::Error;
use crate::database::SqlConnection;
use crate::sql::find_only;
use crate::sqlite;

/// Tables that belong to one database alone: marks of its own starts, its nodes, and what SQLite keeps for itself.
const LEFT_OUT: &str = "name NOT IN ('nodes', 'state') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT LIKE 'records\\_text%' ESCAPE '\\'";

/// The table whose rows are also found by their words.
pub(super) const SEARCHED: &str = "records";

/// A table with its key columns in front of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopiedTable {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) key_columns: usize,
    /// The column whose type PostgreSQL has from an extension.
    pub(super) vector_column: Option<usize>,
    /// Whether a new database has rows in it.
    pub(super) is_filled: bool,
}

/// All tables of the newest schema.
pub(super) fn of_schema() -> Result<Vec<CopiedTable>, Error> {
    let conn = sqlite::empty_database()?;
    let mut find = conn.prepare(&format!(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND {LEFT_OUT} ORDER BY name"
    ))?;
    let names = find.query_map([], |row| row.get::<_, String>(0))?;
    names.map(|name| CopiedTable::of_schema(&conn, name?)).collect()
}

impl CopiedTable {
    fn of_schema(conn: &Connection, name: String) -> Result<Self, Error> {
        // The number says which column of the key it is, and is 0 for others.
        let mut find = conn.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY pk = 0, pk, cid")?;
        let columns = find.query_map([&name], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let columns: Vec<(String, i64)> = columns.collect::<Result<_, _>>()?;
        let key_columns = columns.iter().filter(|(_, place)| *place > 0).count();
        let columns: Vec<String> = columns.into_iter().map(|(column, _)| column).collect();
        let vector_column = columns.iter().position(|column| name == "vectors" && column == "vector");
        let is_filled = conn.prepare(&format!("SELECT 1 FROM \"{name}\""))?.exists([])?;
        Ok(Self { name, columns, key_columns, vector_column, is_filled })
    }

    /// The place of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    fn key(&self) -> String {
        quoted(self.columns.iter().take(self.key_columns))
    }

    /// Some rows in the order of the key, after the row of a key or from the first one on.
    pub(super) fn select_after(&self, is_after: bool) -> String {
        let (columns, key) = (quoted(self.columns.iter()), self.key());
        let after = if is_after {
            format!("WHERE ({key}) > ({})", places(1, self.key_columns))
        } else {
            String::new()
        };
        let limit = if is_after { self.key_columns + 1 } else { 1 };
        format!("SELECT {columns} FROM \"{}\" {after} ORDER BY {key} LIMIT ?{limit}", self.name)
    }

    /// Writes a row, whether or not one of its key is there.
    pub(super) fn put(&self) -> String {
        let others: Vec<String> = self
            .columns
            .iter()
            .skip(self.key_columns)
            .map(|column| format!("\"{column}\" = excluded.\"{column}\""))
            .collect();
        let update = match others.as_slice() {
            [] => "NOTHING".to_owned(),
            others => format!("UPDATE SET {}", others.join(", ")),
        };
        format!(
            "INSERT INTO \"{}\" ({}) VALUES ({}) ON CONFLICT ({}) DO {update}",
            self.name,
            quoted(self.columns.iter()),
            places(1, self.columns.len()),
            self.key()
        )
    }

    /// Removes the row of a key.
    pub(super) fn remove(&self) -> String {
        format!("DELETE FROM \"{}\" WHERE ({}) = ({})", self.name, self.key(), places(1, self.key_columns))
    }

    pub(super) fn count_rows(&self, conn: &SqlConnection) -> Result<u64, Error> {
        let count: i64 =
            find_only(conn, &format!("SELECT count(*) FROM \"{}\"", self.name), [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

fn places(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_key() {
        let tables = of_schema().unwrap();
        assert!(tables.len() > 55, "{}", tables.len());
        for table in &tables {
            assert!(table.key_columns > 0, "{}", table.name);
        }
        assert!(tables.iter().any(|table| table.vector_column.is_some()));
    }

    #[test]
    fn statements_name_the_key_first() {
        let tables = of_schema().unwrap();
        let off = tables.iter().find(|table| table.name == "memory_off").unwrap();
        assert_eq!(
            off.select_after(true),
            "SELECT \"app\", \"user\" FROM \"memory_off\" WHERE (\"app\", \"user\") > (?1, ?2) ORDER BY \"app\", \"user\" LIMIT ?3"
        );
        assert_eq!(
            off.put(),
            "INSERT INTO \"memory_off\" (\"app\", \"user\") VALUES (?1, ?2) ON CONFLICT (\"app\", \"user\") DO NOTHING"
        );
    }
}
