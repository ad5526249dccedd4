//! How many databases this process has open, so that it does not end before each is closed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

static OPEN: Mutex<usize> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

/// Counts a database as open for as long as it lives.
pub(crate) struct OpenDatabase(());

impl OpenDatabase {
    pub(crate) fn new() -> Self {
        *OPEN.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        *OPEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CLOSED.notify_all();
    }
}

/// Waits until every database of this process is closed, with an empty log, at most for `patience`. For a process that
/// ends: a task that still uses a database keeps it open. False if one still is.
pub fn wait_until_closed(patience: Duration) -> bool {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = CLOSED.wait_timeout_while(open, patience, |open| *open > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}
