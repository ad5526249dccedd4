//! How SQLite performs a statement, and what is wrong with that.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::exceptions;
use crate::filled_database;
use crate::performed_statement::Performed;

pub(crate) struct Planner {
    conn: Connection,
    tables: BTreeSet<String>,
    /// The meaning of names in triggers, which a plan shows without their text.
    in_triggers: BTreeMap<String, BTreeSet<String>>,
    _folder: tempfile::TempDir,
}

impl Planner {
    pub(crate) fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let conn = filled_database::database(folder.path())?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRIGGER_EQP, true)?;
        let virtual_tables = filled_database::tables(&conn, "virtual")?;
        let tables: BTreeSet<String> =
            filled_database::tables(&conn, "table")?.into_iter().chain(virtual_tables).collect();
        let triggers =
            filled_database::strings(&conn, "SELECT sql FROM sqlite_schema WHERE type = 'trigger'")?;
        let in_triggers = names(&triggers.join(" "), &tables);
        Ok(Self { conn, tables, in_triggers, _folder: folder })
    }

    /// Returns the fault in the plan of a statement, if there is any.
    pub(crate) fn find_fault(
        &self,
        statement: &Performed,
    ) -> Result<Option<String>, Box<dyn std::error::Error>> {
        if statement.performer == exceptions::AUDIT {
            return Ok(None);
        }
        let plan = self.plan(&statement.sql).map_err(|error| format!("{statement}: {error}"))?;
        let names = names(&statement.sql, &self.tables);
        let wrong = plan.iter().any(|step| {
            whole_table(step).is_some_and(|name| {
                // A plan says neither of a trigger's step that it is one, nor what its names mean.
                let is_foreign = !names.contains_key(name) && !words(&statement.sql).contains(&name);
                let means = if is_foreign { self.in_triggers.get(name) } else { names.get(name) };
                means.is_some_and(|tables| tables.iter().any(|table| !exceptions::is_small(table)))
            })
        });
        if !wrong || exceptions::is_listed(statement) {
            return Ok(None);
        }
        Ok(Some(format!(
            "{statement}\n  goes through a whole table that grows; give it an index, or list it in exceptions.rs with a \
             reason:\n    {}",
            plan.join("\n    ")
        )))
    }

    fn plan(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        let mut explain = self.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let mut rows = explain.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next()? {
            plan.push(row.get(3)?);
        }
        Ok(plan)
    }
}

/// The name of what a step of a plan goes through as a whole.
fn whole_table(step: &str) -> Option<&str> {
    let mut words = step.split(' ');
    match (words.next()?, words.next()?) {
        ("SCAN", name) => {
            if let Some((_, how)) = step.split_once(" VIRTUAL TABLE INDEX ") {
                // Nothing after the number says that nothing narrows it.
                return how.ends_with(':').then_some(name);
            }
            let index = step.split_once(" INDEX ").map(|(_, index)| index);
            (!index.is_some_and(exceptions::is_of_what_is_under_way)).then_some(name)
        }
        ("SEARCH", name) if step.contains(" AUTOMATIC ") => Some(name),
        (_, _) => None,
    }
}

/// Returns what each name in the statement may mean: the tables that it is written after, or itself.
fn names(sql: &str, tables: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let words = words(sql);
    // A foreign key is looked at in tables that the statement does not name.
    let mut found: Vec<(&str, &str)> = tables.iter().map(|table| (table.as_str(), table.as_str())).collect();
    for (place, word) in words.iter().copied().enumerate() {
        let mut after = words.iter().copied().skip(place + 1);
        let alias = after.next().and_then(|next| if next == "AS" { after.next() } else { Some(next) });
        let alias = alias.filter(|alias| alias.chars().any(char::is_lowercase));
        if let (true, Some(alias)) = (tables.contains(word), alias) {
            found.push((alias, word));
        }
    }
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, table) in found {
        names.entry(name.to_owned()).or_default().insert(table.to_owned());
    }
    names
}

fn words(sql: &str) -> Vec<&str> {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_a_whole_table_is_told_from_what_does_not() {
        for (step, whole) in [
            ("SCAN jobs", Some("jobs")),
            ("SCAN t USING INDEX threads_listed", Some("t")),
            ("SCAN jobs USING INDEX jobs_in_line", None),
            ("SCAN want VIRTUAL TABLE INDEX 1:", Some("want")),
            ("SCAN records_text VIRTUAL TABLE INDEX 0:=", None),
            ("SEARCH jobs USING PRIMARY KEY (id=?)", None),
            ("SEARCH a USING AUTOMATIC COVERING INDEX (thread=?)", Some("a")),
            ("USE TEMP B-TREE FOR ORDER BY", None),
        ] {
            assert_eq!(whole_table(step), whole, "{step}");
        }
    }

    #[test]
    fn names_mean_the_tables_they_are_written_after() {
        let tables = BTreeSet::from(["jobs", "runs"].map(str::to_owned));
        let names = names("SELECT 1 FROM jobs j JOIN runs AS r ON r.id = j.run, json_each(?1) x", &tables);
        let of =
            |name: &str| names.get(name).map(|tables| tables.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            (of("j"), of("r"), of("jobs")),
            (Some(vec!["jobs"]), Some(vec!["runs"]), Some(vec!["jobs"]))
        );
        assert_eq!((of("x"), of("run")), (None, None));
    }

    #[test]
    fn a_scan_is_found_on_a_filled_database() {
        let planner = Planner::new().unwrap();
        let look = |performer: &str, sql: &str| {
            planner
                .find_fault(&Performed { performer: performer.to_owned(), sql: sql.to_owned() })
                .unwrap()
                .is_some()
        };
        assert!(look("writer", "SELECT id FROM jobs WHERE status = 'done' AND thread IS NULL LIMIT ?1"));
        assert!(look("reader", "SELECT count(*) FROM events e WHERE e.body = ?1"));
        assert!(look("writer", "DELETE FROM tool_results WHERE status = ?1"));
        assert!(!look("writer", "SELECT id FROM jobs WHERE id = ?1"));
        assert!(!look("writer", "SELECT value FROM json_each(?1)"));
        assert!(!look(exceptions::AUDIT, "SELECT count(*) FROM events e WHERE e.body = ?1"));
    }
}
