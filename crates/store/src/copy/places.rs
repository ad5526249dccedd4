//! Opens both ends of a copy, and guards the target until the copy is complete.

use std::fs::File;

use super::tables::{CopiedTable, SEARCHED};
use super::{PendingRows, StorePlace};
use crate::Error;
use crate::database::{SqlConnection, SqlValue};
use crate::sql::{Audited, COPIED, COPYING, RESTORED, audit_of, has_any, index_words, params, set_boot};
use crate::{postgres, sqlite};

/// The database that is read.
pub(super) struct CopySource {
    conn: SqlConnection,
    is_in_use: bool,
    /// Held, so that no server begins to write meanwhile.
    _lock: Option<File>,
}

impl CopySource {
    pub(super) fn open(place: &StorePlace) -> Result<Self, Error> {
        let (conn, lock, is_in_use) = match place {
            StorePlace::Folder(folder) => {
                let lock = match sqlite::lock(folder) {
                    Ok(lock) => Some(lock),
                    Err(Error::Locked(_)) => None,
                    Err(error) => return Err(error),
                };
                let is_in_use = lock.is_none();
                (sqlite::connect_to_read(folder)?, lock, is_in_use)
            }
            StorePlace::Postgres(address) => {
                let (conn, has_lock) = postgres::connect_to_copy(address)?;
                (conn, None, !has_lock)
            }
        };
        Ok(Self { conn, is_in_use, _lock: lock })
    }

    pub(super) fn conn(&self) -> &SqlConnection {
        &self.conn
    }

    /// Whether a server uses it.
    pub(super) fn is_in_use(&self) -> bool {
        self.is_in_use
    }

    /// Whether it is a backup that no server has opened yet.
    pub(super) fn is_restored(&self) -> Result<bool, Error> {
        has_state(&self.conn, RESTORED)
    }

    /// Returns the name of the vault key with which the credentials are encrypted, if the database knows it.
    pub(super) fn name_of_key(&self) -> Result<Option<String>, Error> {
        postgres::name_of_key(&self.conn)
    }
}

/// The database that is written. This process is the only one that writes to it.
pub(super) struct CopyTarget {
    conn: SqlConnection,
    /// Which start of its machine or server this is.
    boot: Option<String>,
    _lock: Option<File>,
}

impl CopyTarget {
    pub(super) fn open(place: &StorePlace) -> Result<Self, Error> {
        match place {
            StorePlace::Folder(folder) => {
                let (conn, lock) = sqlite::connect_to_fill(folder)?;
                Ok(Self { conn, boot: sqlite::of_this_machine(), _lock: Some(lock) })
            }
            StorePlace::Postgres(address) => {
                let (conn, boot) = postgres::connect_to_fill(address)?;
                Ok(Self { conn, boot, _lock: None })
            }
        }
    }

    pub(super) fn conn(&self) -> &SqlConnection {
        &self.conn
    }

    /// Refuses a target with data of its own.
    pub(super) fn require_own(&self, tables: &[CopiedTable]) -> Result<(), Error> {
        if has_state(&self.conn, COPYING)? || has_state(&self.conn, COPIED)? {
            return Ok(());
        }
        for table in tables.iter().filter(|table| !table.is_filled) {
            if has_any(&self.conn, &format!("SELECT 1 FROM \"{}\" LIMIT 1", table.name), [])? {
                return Err(Error::Unusable(format!(
                    "the table {} of the target has rows that are not from a copy; choose an empty target",
                    table.name
                )));
            }
        }
        Ok(())
    }

    /// From now on no server starts on it.
    pub(super) fn mark_as_begun(&self) -> Result<(), Error> {
        self.conn.transaction(|conn| {
            conn.execute("INSERT INTO state (name, value) VALUES (?1, '') ON CONFLICT DO NOTHING", [COPYING])
        })
    }

    /// Rules that connect rows cannot hold while tables are copied one after the other.
    pub(super) fn lay_rules_aside(&self) -> Result<(), Error> {
        match &self.conn {
            SqlConnection::Sqlite(file) => sqlite::drop_triggers(file),
            SqlConnection::Postgres(session) => postgres::lay_rules_aside(&self.conn, session),
        }
    }

    /// Writes rows in a transaction.
    pub(super) fn write(&self, table: &CopiedTable, pending: &PendingRows) -> Result<(), Error> {
        if pending.removed.is_empty() && pending.put.is_empty() {
            return Ok(());
        }
        let (put, remove) = (table.put(), table.remove());
        self.conn.transaction(|conn| {
            for row in &pending.removed {
                conn.execute(&remove, row.key())?;
                if table.name == SEARCHED {
                    index_record(conn, table, &row.values(), false)?;
                }
            }
            for row in &pending.put {
                conn.execute(&put, row.values())?;
                if table.name == SEARCHED {
                    index_record(conn, table, &row.values(), true)?;
                }
            }
            Ok(())
        })
    }

    /// Puts the rules back, which checks all rows, and lets servers start on it that have the key of this name.
    pub(super) fn finish(&self, is_restored: bool, key: Option<&str>) -> Result<(), Error> {
        match &self.conn {
            SqlConnection::Sqlite(file) => sqlite::make_triggers(file)?,
            SqlConnection::Postgres(session) => postgres::put_rules_back(&self.conn, session)?,
        }
        self.conn.transaction(|conn| {
            conn.execute("DELETE FROM state", [])?;
            set_boot(conn, self.boot.as_deref())?;
            if let (Some(key), SqlConnection::Postgres(_)) = (key, conn) {
                postgres::note_key(conn, key)?;
            }
            let marks: &[&str] = if is_restored { &[COPIED, RESTORED] } else { &[COPIED] };
            marks
                .iter()
                .try_for_each(|mark| conn.execute("INSERT INTO state (name, value) VALUES (?1, '')", [*mark]))
        })?;
        match &self.conn {
            SqlConnection::Sqlite(file) => sqlite::write_all(file),
            SqlConnection::Postgres(_) => Ok(()),
        }
    }

    pub(super) fn audit(&self) -> Result<Audited, Error> {
        audit_of(&self.conn)
    }
}

fn has_state(conn: &SqlConnection, name: &str) -> Result<bool, Error> {
    has_any(conn, "SELECT 1 FROM state WHERE name = ?1", params![name])
}

/// Brings the words of a record up to date.
fn index_record(
    conn: &SqlConnection,
    table: &CopiedTable,
    values: &[SqlValue<'_>],
    is_there: bool,
) -> Result<(), Error> {
    let value = |name: &str| table.column(name).and_then(|column| values.get(column).copied());
    let text = |name: &str| match value(name) {
        Some(SqlValue::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Some(_) | None => None,
    };
    let Some(SqlValue::Integer(number)) = value("number") else { return Err(Error::Column("a number")) };
    let names = (text("app").unwrap_or_default(), text("user").unwrap_or_default());
    let kind = text("type").unwrap_or_default();
    let data = text("data").filter(|_| is_there);
    index_words(conn, number, (&names.0, &names.1, &kind), data.as_deref())
}
