//! A statement that a test has performed.

use std::fmt;

/// A statement in one line, and who has performed it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Performed {
    pub(crate) performer: String,
    pub(crate) sql: String,
}

impl fmt::Display for Performed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.performer, self.sql)
    }
}
