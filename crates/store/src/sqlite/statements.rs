//! Notes which statements are performed, and by whom, so that `cargo xtask statements` can look at how each is planned.
//!
//! Only in builds with the feature `statements`, which `cargo xtask test` asks for and what is shipped has not, and only
//! while there is a file that says so: the check makes it before the tests run.

use rusqlite::Connection;

use crate::Error;

/// The performer of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Performer {
    /// The opener of the database, before anything else is done with it.
    Start,
    /// The writer, for which all callers wait.
    Writer,
    /// A connection that reads beside the writer.
    Reader,
    /// A command that looks through everything, on a connection of its own.
    Audit,
}

#[cfg(not(feature = "statements"))]
pub(super) fn note(_: &mut Connection, _: Performer) -> Result<(), Error> {
    Ok(())
}

#[cfg(feature = "statements")]
pub(super) fn note(conn: &mut Connection, performer: Performer) -> Result<(), Error> {
    noting::note(conn, performer)
}

#[cfg(feature = "statements")]
mod noting {
    use std::collections::HashSet;
    use std::fs;
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::path::{Path, PathBuf};

    use rusqlite::Connection;
    use rusqlite::trace::{TraceEvent, TraceEventCodes};

    use super::Performer;
    use crate::Error;

    /// The folder in which statements are put down, each in a file of its own.
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/statements");

    /// As long as this file is there, they are.
    const SWITCH: &str = "on";

    pub(super) fn note(conn: &mut Connection, performer: Performer) -> Result<(), Error> {
        let folder = PathBuf::from(FOLDER);
        if !folder.join(SWITCH).exists() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let note = move |event: TraceEvent<'_>| {
            // Statements of a trigger are told as comments; the plan of its statement shows them, too.
            if let TraceEvent::Stmt(_, sql) = event
                && !sql.starts_with("--")
            {
                let number = hash(sql);
                if seen.insert(number) {
                    put_down(&folder, performer, number, sql);
                }
            }
        };
        Ok(conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note))?)
    }

    fn hash(sql: &str) -> u64 {
        let mut hasher = DefaultHasher::new(); // the same in every process
        sql.hash(&mut hasher);
        hasher.finish()
    }

    /// Many processes write the same files. A process that is killed meanwhile leaves no half file.
    fn put_down(folder: &Path, performer: Performer, number: u64, sql: &str) {
        let name = format!("{performer:?}-{number:016x}").to_lowercase();
        let file = folder.join(format!("{name}.sql"));
        if file.exists() {
            return;
        }
        let part = folder.join(format!("{name}.{}.part", std::process::id()));
        if let Err(error) = fs::write(&part, sql).and_then(|()| fs::rename(&part, &file)) {
            tracing::error!(%error, "an SQL statement was not recorded");
        }
    }
}
