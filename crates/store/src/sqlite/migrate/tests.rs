//! The two ways to the newest schema lead to the same one.

use super::*;

/// Tables, indexes, views and triggers by name, with the statement that makes each.
fn objects(conn: &Connection) -> Vec<(String, String, Option<String>)> {
    let mut find = conn.prepare("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").unwrap();
    let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// How many rows each table has.
fn row_counts(conn: &Connection) -> Vec<(String, i64)> {
    let tables = objects(conn).into_iter().filter(|(kind, _, _)| kind == "table");
    let count = |name: String| {
        let sql = format!("SELECT count(*) FROM \"{name}\"");
        let rows = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
        (name, rows)
    };
    tables.map(|(_, name, _)| count(name)).collect()
}

#[test]
fn a_new_database_is_as_one_that_was_brought_up_step_by_step() {
    let mut at_once = Connection::open_in_memory().unwrap();
    migrate(&mut at_once).unwrap();
    let mut by_steps = Connection::open_in_memory().unwrap();
    by_steps.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
    apply_after(&mut by_steps, 0).unwrap();
    let wanted = objects(&by_steps);
    for (one, other) in objects(&at_once).iter().zip(&wanted) {
        assert_eq!(one, other, "bring schema.sql up to date");
    }
    assert_eq!(objects(&at_once).len(), wanted.len(), "bring schema.sql up to date");
    assert_eq!(row_counts(&at_once), row_counts(&by_steps));
    assert_eq!(versions(&at_once).unwrap(), versions(&by_steps).unwrap());
}
