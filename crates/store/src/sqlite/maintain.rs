//! What crosses scopes: finding unfinished runs after a start, purging what was deleted, pruning what is old.

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{RunId, Scope, ThreadId};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::Batch;
use super::read::id;
use super::verify::Check;
use super::{Sqlite, actions, documents, jobs, pace, proposals, recall, runs, texts};
use crate::{ActionRow, Error, Maintenance, RunRow, Verified};

/// Events removed in one transaction: a few milliseconds, so that streams do not feel it.
const PURGE_EVENTS: i64 = 500;

/// Actions whose payloads are erased in one transaction.
const PURGE_ACTIONS: i64 = 100;

/// Keys of requests forgotten in one transaction.
const PURGE_KEYS: i64 = 500;

#[async_trait]
impl Maintenance for Sqlite {
    async fn adopt(&self) -> Result<Vec<RunRow>, Error> {
        let work = |batch: &mut Batch<'_>| {
            jobs::adopt(batch)?;
            runs::adopt(batch)
        };
        self.writer.write(work).await
    }

    async fn active_run(&self, thread: ThreadId) -> Result<Option<RunRow>, Error> {
        self.readers.read(move |conn| runs::active(conn, thread)).await
    }

    async fn purge(&self, deleted_before: Timestamp, forget_before: Timestamp) -> Result<bool, Error> {
        let work = move |batch: &mut Batch<'_>| {
            let forgotten = forget(batch, forget_before)?
                || jobs::forget(batch, forget_before)?
                || pace::forget(batch, forget_before)?;
            Ok(purge(batch, deleted_before)? || documents::purge(batch, deleted_before)? || forgotten)
        };
        self.writer.write(work).await
    }

    async fn prune(&self, ended_before: Timestamp) -> Result<bool, Error> {
        // Nobody is promised anything: what a power failure brings back is pruned again.
        self.writer.write_ahead(move |batch| prune(batch, ended_before)).await
    }

    async fn expire_proposals(&self) -> Result<Vec<ThreadId>, Error> {
        self.writer.write(proposals::expire).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, Error> {
        self.readers.read(proposals::next_expiry).await
    }

    async fn begun_actions(&self) -> Result<Vec<ActionRow>, Error> {
        self.readers.read(actions::begun).await
    }

    async fn verify_ledger(&self) -> Result<Verified, Error> {
        let mut check = Check::default();
        while !check.is_done() {
            check = self.readers.read(move |conn| check.next(conn)).await?;
        }
        Ok(check.found())
    }

    async fn scopes_to_embed(&self, model: &str, limit: usize) -> Result<Vec<Scope>, Error> {
        let model = model.to_owned();
        self.readers.read(move |conn| recall::scopes_to_embed(conn, &model, limit)).await
    }

    fn is_open(&self) -> bool {
        self.writer.is_open()
    }

    async fn secret(&self) -> Result<[u8; 32], Error> {
        let secret = |conn: &Connection| {
            let mut find = conn.prepare_cached("SELECT value FROM secrets WHERE name = 'server'")?;
            Ok(find.query_row([], |row| row.get(0))?)
        };
        self.readers.read(secret).await
    }
}

fn forget(batch: &Batch<'_>, before: Timestamp) -> Result<bool, Error> {
    let forgotten = batch
        .conn()
        .prepare_cached(
            "DELETE FROM idempotency WHERE (app, user, key) IN
                (SELECT app, user, key FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
        )?
        .execute(params![before.as_millisecond(), PURGE_KEYS])?;
    Ok(forgotten > 0)
}

fn purge(batch: &mut Batch<'_>, deleted_before: Timestamp) -> Result<bool, Error> {
    let next: Option<ThreadId> = batch
        .conn()
        .prepare_cached(
            "SELECT t.id FROM threads t WHERE t.deleted_at IS NOT NULL AND t.deleted_at <= ?1
                AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread = t.id AND r.ended_at IS NULL)
                AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.thread = t.id AND a.status = 'started') LIMIT 1",
        )?
        .query_row([deleted_before.as_millisecond()], |row| id(row, 0))
        .optional()?;
    let Some(thread) = next else { return Ok(false) };
    let events = batch
        .conn()
        .prepare_cached(
            "DELETE FROM events WHERE thread = ?1
                AND seq <= (SELECT min(seq) FROM events WHERE thread = ?1) + ?2",
        )?
        .execute(params![thread.bytes(), PURGE_EVENTS])?;
    if events > 0 || actions::erase(batch, thread, PURGE_ACTIONS)? || texts::purge(batch, thread)? {
        return Ok(true);
    }
    recall::purge(batch, thread)?;
    for statement in [
        "DELETE FROM snapshots WHERE thread = ?1",
        "DELETE FROM pins WHERE thread = ?1",
        "DELETE FROM summaries WHERE thread = ?1",
        "DELETE FROM proposals WHERE thread = ?1",
        "DELETE FROM tool_results WHERE run IN (SELECT id FROM runs WHERE thread = ?1)",
        "DELETE FROM tool_calls WHERE run IN (SELECT id FROM runs WHERE thread = ?1)",
        "DELETE FROM jobs WHERE thread = ?1",
        "DELETE FROM messages WHERE thread = ?1",
        "DELETE FROM runs WHERE thread = ?1",
        "DELETE FROM skipped WHERE thread = ?1",
        "DELETE FROM threads WHERE id = ?1",
    ] {
        batch.conn().prepare_cached(statement)?.execute([thread.bytes()])?;
    }
    Ok(true)
}

/// A run at a time is a transaction of a few milliseconds, and leaves no moment in which some of its deltas are gone.
fn prune(batch: &Batch<'_>, ended_before: Timestamp) -> Result<bool, Error> {
    let next: Option<(ThreadId, RunId)> = batch
        .conn()
        .prepare_cached(
            "SELECT thread, id FROM runs
                WHERE ended_at IS NOT NULL AND pruned_at IS NULL AND ended_at <= ?1 ORDER BY ended_at LIMIT 1",
        )?
        .query_row([ended_before.as_millisecond()], |row| Ok((id(row, 0)?, id(row, 1)?)))
        .optional()?;
    let Some((thread, run)) = next else { return Ok(false) };
    batch
        .conn()
        .prepare_cached(
            "DELETE FROM events WHERE thread = ?1 AND run = ?2 AND kind IN ('text:delta', 'reasoning:delta', 'tool:input')
                AND seq BETWEEN (SELECT start_seq FROM runs WHERE id = ?2) AND (SELECT end_seq FROM runs WHERE id = ?2)",
        )?
        .execute(params![thread.bytes(), run.bytes()])?;
    batch
        .conn()
        .prepare_cached("UPDATE runs SET pruned_at = ?2 WHERE id = ?1")?
        .execute(params![run.bytes(), batch.at()])?;
    Ok(true)
}
