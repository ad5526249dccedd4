//! Looks into databases from outside, for harnesses, tests and measurements. No server needs them.

use std::path::Path;

use crate::Error;
use crate::postgres::{PostgresAddress, connect, on_own_thread};
pub use crate::sql::LoggedRow;
use crate::sql::{find_only, whole_log_on};
use crate::sqlite::connect_to_examine;

/// All events of a data folder in the order of their threads and numbers, wherever the database has them.
pub fn file_log(folder: &Path) -> Result<Vec<LoggedRow>, Error> {
    whole_log_on(&connect_to_examine(folder)?)
}

/// All events of a PostgreSQL database in the order of their threads and numbers.
pub fn postgres_log(address: &PostgresAddress) -> Result<Vec<LoggedRow>, Error> {
    on_own_thread(|| whole_log_on(&connect(address)?))
}

/// The number that a statement gives.
pub fn number_of(address: &PostgresAddress, statement: &str) -> Result<i64, Error> {
    on_own_thread(|| find_only(&connect(address)?, statement, [], |row| row.get(0)))
}

/// Executes a statement, and gives the number of rows that it changed.
pub fn execute(address: &PostgresAddress, statement: &str) -> Result<usize, Error> {
    on_own_thread(|| connect(address)?.count_changed(statement, []))
}
