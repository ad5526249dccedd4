//! `rondo audit`: whether everything in the data folder is as it must be. A server may be using it meanwhile.

use std::fmt::Write as _;
use std::path::Path;

use store::postgres;
use store::sqlite::{self, Audited};

use crate::config::Config;
use crate::{CommandResult, print};

pub(crate) fn audit(config: &Config) -> CommandResult {
    let audited = match &config.store {
        Some(address) => postgres::audit(address).map_err(|error| format!("{address}: {error}"))?,
        None => {
            require_database(&config.data)?;
            sqlite::audit(&config.data).map_err(|error| format!("{}: {error}", config.data.display()))?
        }
    };
    let mut report = String::new();
    for finding in &audited.findings {
        writeln!(report, "BAD   {finding}")?;
    }
    if audited.findings.is_empty() {
        writeln!(report, "nothing wrong: {}", count_report(&audited))?;
    }
    print(&report)?;
    match audited.findings.len() {
        0 => Ok(()),
        1 => Err("the data has 1 fault; restore a backup if you can".into()),
        count => Err(format!("the data has {count} faults; restore a backup if you can").into()),
    }
}

/// A folder without a database is more likely a mistake than a new one.
pub(crate) fn require_database(data: &Path) -> CommandResult {
    if data.join(sqlite::FILE).is_file() {
        return Ok(());
    }
    Err(format!("there is no database in {}; choose the data folder with RONDO_DATA", data.display()).into())
}

/// PostgreSQL has its own tools for what these commands do with a file.
pub(crate) fn require_sqlite(config: &Config, instead: &str) -> CommandResult {
    match &config.store {
        None => Ok(()),
        Some(address) => Err(format!("the data is in {address}; {instead} (docs/postgres.md)").into()),
    }
}

pub(crate) fn count_report(audited: &Audited) -> String {
    let Audited { threads, runs, events, entries, admin_entries, .. } = audited;
    format!(
        "{threads} threads, {runs} runs, {events} events, {entries} entries of the ledger, {admin_entries} of the \
         audit of admins"
    )
}
