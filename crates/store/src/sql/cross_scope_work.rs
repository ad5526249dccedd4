//! Work that crosses scopes: finding unfinished runs after a start, purging what was deleted, pruning what is old.

use crate::sql::params;
use jiff::Timestamp;
use protocol::{AppId, RunId, Scope, ThreadId};

use super::append::Batch;
use super::read::{find_first, find_only, has_any, id};
use super::verify::Check;
use super::{
    RowsOf, SqlStore, action_rows, documents, images, jobs, missing_apps, node_log, notices, purge_threads,
    rate_limits, recall, reserve, runs, sessions, waiting_calls,
};
use crate::{ActionRow, Error, RunRow, Verified};

/// Keys of requests forgotten in one transaction.
const PURGE_KEYS: i64 = 500;

impl SqlStore {
    pub(crate) async fn adopt(&self) -> Result<Vec<RunRow>, Error> {
        let dead = self.node.as_ref().map(|node| node.seat.take_silent()).unwrap_or_default();
        let work = move |batch: &mut Batch<'_>| {
            let left = node_log::remove_nodes(batch, &dead)?;
            reserve::adopt(batch)?;
            jobs::adopt(batch)?;
            Ok((runs::adopt(batch)?, left))
        };
        let (adopted, left) = self.writer.write(work).await?;
        left.into_iter().for_each(node_log::LeftRuns::tell);
        Ok(adopted)
    }

    pub(crate) async fn catch_up(&self) -> Result<(), Error> {
        if self.node_number().is_none() {
            return Ok(());
        }
        self.writer.write_ahead(|_| Ok(())).await // every transaction begins with that
    }

    pub(crate) async fn told_to_stop(&self) -> Result<Vec<ThreadId>, Error> {
        let Some(node) = self.node_number() else { return Ok(Vec::new()) };
        self.readers.read(move |conn| node_log::told_to_stop(conn, node)).await
    }

    pub(crate) async fn is_deleted(&self, thread: ThreadId) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM threads WHERE id = ?1 AND deleted_at IS NOT NULL";
        self.readers.read_now(RowsOf::ALL, move |conn| has_any(conn, statement, [thread.bytes()])).await
    }

    pub(crate) async fn active_run(&self, thread: ThreadId) -> Result<Option<RunRow>, Error> {
        self.readers.read_now(RowsOf::ALL, move |conn| runs::active(conn, thread)).await
    }

    pub(crate) async fn purge(
        &self,
        deleted_before: Timestamp,
        forget_before: Timestamp,
    ) -> Result<bool, Error> {
        let work = move |batch: &mut Batch<'_>| {
            let forgotten = forget(batch, forget_before)?
                || jobs::forget(batch, forget_before)?
                || rate_limits::forget(batch, forget_before)?
                || images::forget_unused(batch, forget_before)?
                || sessions::forget(batch)?
                || notices::sweep(batch, forget_before)?;
            Ok(purge_threads::purge(batch, deleted_before)?
                || documents::purge(batch, deleted_before)?
                || forgotten)
        };
        self.writer.write(work).await
    }

    pub(crate) async fn prune(&self, ended_before: Timestamp) -> Result<bool, Error> {
        // No caller is promised anything: rows that a power failure brings back are pruned again.
        self.writer.write_ahead(move |batch| prune(batch, ended_before)).await
    }

    pub(crate) async fn expire_waiting(&self) -> Result<Vec<ThreadId>, Error> {
        self.writer.write(waiting_calls::expire).await
    }

    pub(crate) async fn next_expiry(&self) -> Result<Option<Timestamp>, Error> {
        self.readers.read_now(RowsOf::ALL, waiting_calls::next_expiry).await
    }

    pub(crate) async fn missing_apps(&self) -> Result<Vec<(AppId, Timestamp)>, Error> {
        self.readers.read(missing_apps::list).await
    }

    pub(crate) async fn note_missing(&self, app: &AppId) -> Result<Timestamp, Error> {
        let app = app.clone();
        self.writer.write(move |batch| missing_apps::add(batch, &app)).await
    }

    pub(crate) async fn note_found(&self, app: &AppId) -> Result<(), Error> {
        let app = app.clone();
        self.writer.write(move |batch| missing_apps::remove(batch, &app)).await
    }

    pub(crate) async fn begun_actions(&self) -> Result<Vec<ActionRow>, Error> {
        // A look first: nearly always there are none, and a commit would be for nothing.
        if !self.readers.read(action_rows::is_any_orphan).await? {
            return Ok(Vec::new());
        }
        self.writer.write(|batch| action_rows::adopt(batch)).await
    }

    pub(crate) async fn verify_ledger(&self) -> Result<Verified, Error> {
        let mut check = Check::default();
        while !check.is_done() {
            check = self.readers.read(move |conn| check.next(conn)).await?;
        }
        Ok(check.report())
    }

    pub(crate) async fn scopes_to_embed(
        &self,
        model: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<Scope>, Error> {
        let (model, after) = (model.to_owned(), after.cloned());
        self.readers.read(move |conn| recall::scopes_to_embed(conn, &model, after.as_ref(), limit)).await
    }

    pub(crate) fn is_open(&self) -> bool {
        self.writer.is_open()
    }

    pub(crate) async fn writing_ended(&self) {
        self.writer.writing_ended().await;
    }

    pub(crate) async fn secret(&self) -> Result<[u8; 32], Error> {
        let statement = "SELECT value FROM secrets WHERE name = 'server'";
        self.readers.read(move |conn| find_only(conn, statement, [], |row| row.get(0))).await
    }
}

fn forget(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let statement = "DELETE FROM idempotency WHERE (app, user, key) IN
                (SELECT app, user, key FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)";
    let forgotten = batch.count_changed(statement, params![before.as_millisecond(), PURGE_KEYS])?;
    Ok(forgotten > 0)
}

/// A run at a time is a transaction of a few milliseconds, and leaves no moment in which some of its deltas are gone.
fn prune(batch: &mut Batch<'_>, ended_before: Timestamp) -> Result<bool, Error> {
    let statement = "SELECT thread, id FROM runs
                WHERE ended_at IS NOT NULL AND pruned_at IS NULL AND ended_at <= ?1 ORDER BY ended_at LIMIT 1";
    let next: Option<(ThreadId, RunId)> =
        find_first(batch.conn(), statement, [ended_before.as_millisecond()], |row| {
            Ok((id(row, 0)?, id(row, 1)?))
        })?;
    let Some((thread, run)) = next else { return Ok(false) };
    batch.forget_deltas(thread)?;
    let statement = "DELETE FROM events WHERE thread = ?1 AND run = ?2 AND kind IN ('text:delta', 'reasoning:delta', 'tool:input')
                AND seq BETWEEN (SELECT start_seq FROM runs WHERE id = ?2) AND (SELECT end_seq FROM runs WHERE id = ?2)";
    batch.execute(statement, params![thread.bytes(), run.bytes()])?;
    let statement = "DELETE FROM packed_deltas WHERE thread = ?1 AND run = ?2
                AND first BETWEEN (SELECT start_seq FROM runs WHERE id = ?2) AND (SELECT end_seq FROM runs WHERE id = ?2)";
    batch.execute(statement, params![thread.bytes(), run.bytes()])?;
    let statement = "UPDATE runs SET pruned_at = ?2 WHERE id = ?1";
    batch.execute(statement, params![run.bytes(), batch.at()])?;
    Ok(true)
}
