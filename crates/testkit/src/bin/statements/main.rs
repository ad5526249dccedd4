//! Looks at every statement that the tests have performed: how SQLite plans it on a database that is full of rows, and
//! whether the tests have performed all there are.
//!
//! The store notes statements while the tests run (its feature `statements`); `cargo xtask test` switches that on
//! before the tests and off after them, and `cargo xtask statements` calls this. A statement that goes through a whole
//! table that grows is a finding, unless it is in the list of those that may; so is one that no test performs, because
//! its plan is not known, and one that is not in the source as one string, because its place in the source is not
//! known.
#![expect(clippy::print_stdout, reason = "a command's output is its purpose")]

mod exceptions;
mod filled_database;
mod performed_statement;
mod plan;
mod source;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use performed_statement::Performed;
use plan::Planner;
use source::Pattern;

const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/src");
const NOTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/statements");

fn main() -> ExitCode {
    match check() {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}\n");
            }
            println!("statements: {} to put right", findings.len());
            ExitCode::FAILURE
        }
        Err(trouble) => {
            eprintln!("error: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let patterns = source::patterns(Path::new(STORE))?;
    let performed = performed_statements(Path::new(NOTED))?;
    if performed.is_empty() {
        return Err("no statement was noted; `cargo xtask test` does it while the tests run".into());
    }
    let planner = Planner::new()?;
    let mut findings = Vec::new();
    for statement in &performed {
        if !patterns.iter().any(|pattern| pattern.matches(&statement.sql)) {
            findings.push(format!(
                "{statement}\n  is nowhere in the store's source as one string; write it as one, or, if it is of an \
                 earlier version, run all tests again"
            ));
            continue;
        }
        findings.extend(planner.find_fault(statement)?);
    }
    let seen: BTreeSet<&str> = performed.iter().map(|statement| statement.sql.as_str()).collect();
    let is_seen = |pattern: &Pattern| seen.iter().any(|sql| pattern.matches(sql));
    let unseen = |pattern: &&Pattern| !is_seen(pattern) && !exceptions::is_elsewhere(&pattern.text);
    findings.extend(patterns.iter().filter(unseen).map(|pattern| {
        format!("{}\n  {}\n  no test performs this; write one, or delete it", pattern.place, pattern.text)
    }));
    findings.extend(exceptions::unused_exceptions(&performed));
    println!("{} statements in the source, {} performed", patterns.len(), performed.len());
    Ok(findings)
}

/// Returns the statements that were noted, without those about no table (transactions, settings) and those that SQLite
/// makes for itself.
fn performed_statements(folder: &Path) -> Result<BTreeSet<Performed>, Box<dyn std::error::Error>> {
    let mut performed = BTreeSet::new();
    for entry in folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((performer, _)) = name.strip_suffix(".sql").and_then(|name| name.split_once('-')) else {
            continue;
        };
        let sql = source::in_a_line(&std::fs::read_to_string(&path)?);
        if source::is_statement(&sql) && !sql.contains("'main'.") && !sql.contains("\"main\".") {
            performed.insert(Performed { performer: performer.to_owned(), sql });
        }
    }
    Ok(performed)
}
