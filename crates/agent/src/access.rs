//! Rows that a principal may see: those of their own, in an app that their key is for.

use protocol::{Principal, RunId, ThreadId};
use store::{RunRow, Store, ThreadRow};

use crate::Error;

/// The run of this id, if the principal may use its app.
pub async fn run_row(store: &Store, principal: &Principal, run: RunId) -> Result<RunRow, Error> {
    let row = store.run(principal, run).await?;
    if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "run" }) }
}

/// The thread of this id, if the principal may use its app.
pub async fn thread_row(store: &Store, principal: &Principal, thread: ThreadId) -> Result<ThreadRow, Error> {
    let row = store.thread(principal, thread).await?;
    if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "thread" }) }
}
