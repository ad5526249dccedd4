//! `rondo copy`: all data from SQLite to PostgreSQL, and back. A second copy writes only what has changed since the first.

use std::path::{Path, PathBuf};

use store::copy::{self, CopyOutcome, CopyProgress, StorePlace};
use store::sqlite;

use crate::config::Config;
use crate::pull::progress::Progress;
use crate::{CommandResult, audit, print, vault};

/// Names the target without showing its password in the list of processes.
const TARGET_VARIABLE: &str = "RONDO_COPY_TO";

/// The beginnings of addresses of PostgreSQL.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

#[derive(clap::Args)]
pub(crate) struct CopyOptions {
    /// The target: an address such as `postgres://USER:PASSWORD@HOST/DATABASE`, or a data folder
    ///
    /// It must be empty, or a copy that no server has used yet.
    #[arg(long, value_name = "TARGET", env = TARGET_VARIABLE, hide_env_values = true)]
    to: String,
    /// The source, if it is not the data of this configuration: an address or a data folder
    #[arg(long, value_name = "SOURCE")]
    from: Option<String>,
    /// Print the rows and the hash of each table
    #[arg(long)]
    tables: bool,
}

pub(crate) fn copy(config: &Config, options: &CopyOptions) -> CommandResult {
    let from = match (&options.from, &config.store) {
        (Some(from), _) => place_of(from)?,
        (None, Some(address)) => StorePlace::Postgres(address.clone()),
        (None, None) => StorePlace::Folder(config.data.clone()),
    };
    let to = place_of(&options.to)?;
    require_two_places(&from, &to)?;
    if let StorePlace::Folder(folder) = &from {
        audit::require_database(folder)?;
    }
    let mut progress: Option<Progress> = None;
    let report = |CopyProgress { rows, of }| {
        progress.get_or_insert_with(|| Progress::start_rows("copy", of)).show_done(rows);
    };
    let outcome = copy::copy(&from, &to, report).map_err(|error| {
        format!("{} could not be copied to {}: {error}", place_text(&from), place_text(&to))
    })?;
    drop(progress);
    let key = copy_key(config, &from, &to)?;
    tell(&CopyReport { from, to, key, with_tables: options.tables }, &outcome)
}

fn place_of(text: &str) -> CommandResult<StorePlace> {
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(StorePlace::Postgres(text.parse()?));
    }
    if text.contains("://") {
        return Err("a target is an address that begins with postgres://, or a folder".into());
    }
    Ok(StorePlace::Folder(PathBuf::from(text)))
}

fn require_two_places(from: &StorePlace, to: &StorePlace) -> CommandResult {
    match (from, to) {
        (StorePlace::Folder(_), StorePlace::Folder(_)) => {
            Err("both are data folders; use `rondo backup` to copy a data folder".into())
        }
        (from, to) if from == to => Err("the source and the target are the same".into()),
        (_, _) => Ok(()),
    }
}

/// Gives a new data folder the key that decrypts the users' credentials, and says where the key is.
fn copy_key(config: &Config, from: &StorePlace, to: &StorePlace) -> CommandResult<String> {
    let data: &Path = if let StorePlace::Folder(folder) = from { folder } else { &config.data };
    match to {
        StorePlace::Postgres(_) => Ok(key_for_postgres(from, vault::is_from_outside())),
        StorePlace::Folder(folder) if vault::has_key(folder) => {
            Ok("the data folder has a key for the users' credentials already".to_owned())
        }
        StorePlace::Folder(folder) => vault::copy(data, folder).map(str::to_owned),
    }
}

/// Says where a server on the copy gets the key from.
fn key_for_postgres(from: &StorePlace, is_from_outside: bool) -> String {
    let what = "the vault key, which decrypts the users' credentials, is not in the copy";
    match from {
        StorePlace::Folder(_) if is_from_outside => {
            format!("{what}: start the server on the copy with the same RONDO_VAULT_KEY")
        }
        StorePlace::Folder(folder) => format!(
            "{what}: it stays in {}; keep using this data folder, or set RONDO_VAULT_KEY to what its vault.key contains",
            folder.display()
        ),
        StorePlace::Postgres(_) => format!(
            "{what}: start the server on the copy with the same RONDO_VAULT_KEY as the old one or, if that has none, with \
             vault.key of the old data folder"
        ),
    }
}

struct CopyReport {
    from: StorePlace,
    to: StorePlace,
    key: String,
    with_tables: bool,
}

fn tell(told: &CopyReport, outcome: &CopyOutcome) -> CommandResult {
    let (from, to) = (place_text(&told.from), place_text(&told.to));
    let mut report = String::new();
    if told.with_tables {
        for table in &outcome.tables {
            report += &format!("{:<20} {:>12} rows  SHA-256 {}\n", table.name, table.rows, table.hash);
        }
    }
    let (rows, tables, changed) = (outcome.rows(), outcome.tables.len(), outcome.changed_rows());
    report += &format!(
        "{to} has all data of {from}: {}\n{rows} rows in {tables} tables have the same counts and hashes; {changed} of \
         them were written now\n{}\n",
        audit::count_report(&outcome.audited),
        told.key
    );
    report += &if outcome.was_in_use {
        format!(
            "a server was using {from}: what it has written since the beginning of this copy is not in the copy. To \
             move, stop that server and run this command again; only the changes are copied\n"
        )
    } else {
        match &told.to {
            StorePlace::Postgres(_) => {
                "to use it, start the server with RONDO_STORE set to the address of the target\n".to_owned()
            }
            StorePlace::Folder(folder) => format!(
                "to use it, start the server with RONDO_DATA={} and without RONDO_STORE\n",
                folder.display()
            ),
        }
    };
    print(&report)?;
    match outcome.audited.findings.as_slice() {
        [] => Ok(()),
        findings => {
            Err(format!("the copy is complete, but the data itself has faults:\n  {}", findings.join("\n  "))
                .into())
        }
    }
}

/// Without the password.
fn place_text(place: &StorePlace) -> String {
    match place {
        StorePlace::Folder(folder) => folder.join(sqlite::FILE).display().to_string(),
        StorePlace::Postgres(address) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_on_postgresql_needs_the_key_of_its_source() {
        let folder = StorePlace::Folder(PathBuf::from("old-data"));
        let database = place_of("postgres://rondo@127.0.0.1/rondo").unwrap();
        for (from, is_from_outside, told) in [
            (&folder, false, "it stays in old-data; keep using this data folder, or set RONDO_VAULT_KEY"),
            (&folder, true, "start the server on the copy with the same RONDO_VAULT_KEY"),
            (&database, false, "with vault.key of the old data folder"),
            (&database, true, "with the same RONDO_VAULT_KEY as the old one"),
        ] {
            let words = key_for_postgres(from, is_from_outside);
            assert!(words.contains(told), "{words}");
            assert_eq!(words.contains("keep using this data folder"), from == &folder && !is_from_outside);
        }
    }
}
