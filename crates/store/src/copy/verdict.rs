//! The result of a copy, with the count and the hash of each table.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::copied_rows::CopiedRow;
use crate::database::SqlValue;
use crate::sql::Audited;

/// A copy that is complete.
#[derive(Debug, Clone)]
pub struct CopyOutcome {
    pub tables: Vec<TableFigures>,
    /// Whether a server used the source meanwhile: the copy is the source as it was when the copy began.
    pub was_in_use: bool,
    pub audited: Audited,
}

/// A table as both databases have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFigures {
    pub name: String,
    pub rows: u64,
    /// Rows that were written or removed.
    pub changed: u64,
    /// SHA-256 of all rows, in hexadecimal digits.
    pub hash: String,
}

impl CopyOutcome {
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    pub fn changed_rows(&self) -> u64 {
        self.tables.iter().map(|table| table.changed).sum()
    }
}

#[derive(Default, Clone)]
pub(super) struct TableHash {
    rows: u64,
    hasher: Sha256,
}

impl PartialEq for TableHash {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.hasher.clone().finalize() == other.hasher.clone().finalize()
    }
}

impl TableHash {
    pub(super) fn add(&mut self, row: &CopiedRow) {
        self.rows += 1;
        for value in row.values() {
            let (kind, bytes): (u8, &[u8]) = match value {
                SqlValue::Null => (0, &[]),
                SqlValue::Integer(number) => {
                    self.add_value(1, &number.to_be_bytes());
                    continue;
                }
                SqlValue::Real(number) => {
                    self.add_value(2, &number.to_be_bytes());
                    continue;
                }
                SqlValue::Text(bytes) => (3, bytes),
                SqlValue::Blob(bytes) => (4, bytes),
                SqlValue::Vector(vector) => (5, vector.bytes()),
            };
            self.add_value(kind, bytes);
        }
    }

    fn add_value(&mut self, kind: u8, bytes: &[u8]) {
        self.hasher.update([kind]);
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }

    pub(super) fn into_figures(self, name: &str, changed: u64) -> TableFigures {
        let mut hash = String::new();
        for byte in self.hasher.finalize() {
            let _written = write!(hash, "{byte:02x}");
        }
        TableFigures { name: name.to_owned(), rows: self.rows, changed, hash }
    }
}
