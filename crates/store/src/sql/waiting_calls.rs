//! Calls of a run that wait for the user: proposals for a decision, calls of the client for a result. The run waits until
//! none of either is open.

use crate::sql::SqlConnection;
use jiff::Timestamp;
use protocol::{RunId, ThreadId};

use super::append::Batch;
use super::read::{find_only, has_any, id, maybe_time};
use super::{client_calls, proposals};
use crate::Error;
use crate::rules::notices::NoticedChange;

/// The run waits from here on.
pub(super) fn wait(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    let statement = "UPDATE runs SET status = 'waiting' WHERE id = ?1 AND status = 'running'";
    move_run(batch, statement, run)
}

/// The run continues, unless something else of it waits.
pub(super) fn continue_run(batch: &Batch<'_>, run: RunId) -> Result<(), Error> {
    let statement = "UPDATE runs SET status = 'running' WHERE id = ?1 AND status = 'waiting'
                AND NOT EXISTS (SELECT 1 FROM proposals WHERE run = ?1 AND status = 'open')
                AND NOT EXISTS (SELECT 1 FROM client_calls WHERE run = ?1 AND status = 'open')";
    move_run(batch, statement, run)
}

/// Changes the status of a run, if the statement does.
fn move_run(batch: &Batch<'_>, statement: &str, run: RunId) -> Result<(), Error> {
    if batch.count_changed(statement, [run.bytes()])? > 0 {
        let statement = "SELECT thread FROM runs WHERE id = ?1";
        let thread = find_only(batch.conn(), statement, [run.bytes()], |row| id(row, 0))?;
        batch.touch(thread);
        batch.notice(NoticedChange::Run { run, thread });
    }
    Ok(())
}

/// Closes all that waits of a run because a new message has come. False when nothing did.
pub(super) fn supersede(batch: &mut Batch<'_>, run: RunId) -> Result<bool, Error> {
    let proposals = proposals::supersede(batch, run)?;
    Ok(client_calls::supersede(batch, run)? || proposals)
}

/// Closes what has waited too long. Gives the threads whose runs wait for nothing any more.
pub(super) fn expire(batch: &mut Batch<'_>) -> Result<Vec<ThreadId>, Error> {
    let mut over = proposals::expire(batch)?;
    over.extend(client_calls::expire(batch)?);
    let mut threads = Vec::new();
    for (thread, run) in over {
        let statement = "SELECT 1 FROM runs WHERE id = ?1 AND status = 'running'";
        if !threads.contains(&thread) && has_any(batch.conn(), statement, [run.bytes()])? {
            threads.push(thread);
        }
    }
    Ok(threads)
}

pub(super) fn next_expiry(conn: &SqlConnection) -> Result<Option<Timestamp>, Error> {
    let of = |statement| find_only(conn, statement, [], |row| maybe_time(row, 0));
    let proposal = of("SELECT min(expires_at) FROM proposals WHERE status = 'open'")?;
    let call = of("SELECT min(expires_at) FROM client_calls WHERE status = 'open'")?;
    Ok(proposal.into_iter().chain(call).min())
}
