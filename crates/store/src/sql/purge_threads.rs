//! Removes what is left of deleted threads: a bounded number of rows in each transaction, and each found by an index.

use crate::sql::params;
use jiff::Timestamp;
use protocol::{RunId, ThreadId};

use super::append::Batch;
use super::read::{find_first, id};
use super::{action_rows, images, texts};
use crate::Error;

/// Rows removed in one transaction: a few milliseconds, so that streams do not feel it.
const PURGE_ROWS: usize = 500;

/// Actions whose payloads are erased in one transaction, and messages that go in one: each takes other rows with it.
const PURGE_ACTIONS: usize = 100;
const PURGE_MESSAGES: usize = 100;

/// Statements that remove some rows of the thread `?1`, at most `?2`, in an order in which nothing goes before what refers
/// to it: those before its actions and messages.
const BEFORE_MESSAGES: &[&str] = &[
    "DELETE FROM events WHERE thread = ?1 AND seq IN
        (SELECT seq FROM events WHERE thread = ?1 ORDER BY seq LIMIT ?2)",
    "DELETE FROM packed_deltas WHERE thread = ?1 AND first IN
        (SELECT first FROM packed_deltas WHERE thread = ?1 ORDER BY first LIMIT ?2)",
    "DELETE FROM texts WHERE (app, user, source, hash) IN
        (SELECT x.app, x.user, x.source, x.hash FROM threads t
            CROSS JOIN texts x ON x.app = t.app AND x.user = t.user AND x.source = 'thr_' || lower(hex(t.id))
            WHERE t.id = ?1 LIMIT ?2)",
    "DELETE FROM texts WHERE (app, user, source, hash) IN
        (SELECT x.app, x.user, x.source, x.hash FROM pins p
            CROSS JOIN texts x ON x.app = p.app AND x.user = p.user AND x.source = 'pin_' || lower(hex(p.id))
            WHERE p.thread = ?1 LIMIT ?2)",
    "DELETE FROM pins WHERE id IN (SELECT id FROM pins WHERE thread = ?1 LIMIT ?2)",
    // The lines of its snapshot, and those in which other snapshots name it.
    "DELETE FROM snapshot_lines WHERE (thread, number) IN
        (SELECT thread, number FROM snapshot_lines WHERE thread = ?1 LIMIT ?2)",
    "DELETE FROM snapshot_lines WHERE (thread, number) IN
        (SELECT thread, number FROM snapshot_lines WHERE source = 'thr_' || lower(hex(?1)) LIMIT ?2)",
    "DELETE FROM snapshots WHERE thread = ?1",
    // Summaries of a lower level refer to those that took their place.
    "DELETE FROM summaries WHERE id IN
        (SELECT id FROM summaries WHERE thread = ?1 ORDER BY level, to_message LIMIT ?2)",
    "DELETE FROM proposals WHERE id IN (SELECT id FROM proposals WHERE thread = ?1 LIMIT ?2)",
    "DELETE FROM client_calls WHERE id IN (SELECT id FROM client_calls WHERE thread = ?1 LIMIT ?2)",
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE thread = ?1 LIMIT ?2)",
    "DELETE FROM skipped WHERE (thread, first) IN (SELECT thread, first FROM skipped WHERE thread = ?1 LIMIT ?2)",
];

/// Memories that rest on some of the thread's words, and then those words: recall is told, and the memory says no more
/// where they were said.
const SOURCES: &[&str] = &[
    "DELETE FROM items WHERE kind = 'memory' AND id IN
        (SELECT memory FROM memory_sources WHERE thread = ?1 ORDER BY number LIMIT ?2)",
    "INSERT INTO items (app, user, kind, id)
        SELECT DISTINCT m.app, m.user, 'memory', m.id
            FROM (SELECT memory FROM memory_sources WHERE thread = ?1 ORDER BY number LIMIT ?2) s
            CROSS JOIN memories m ON m.id = s.memory ORDER BY m.id",
    // Unless they were said elsewhere, too, nothing is left that these words would have to be hidden in.
    "DELETE FROM tombstones WHERE number IN (SELECT t.number
        FROM (SELECT memory, words FROM memory_sources WHERE thread = ?1 ORDER BY number LIMIT ?2) s
            CROSS JOIN tombstones t ON t.memory = s.memory AND t.words = s.words
        WHERE NOT EXISTS (SELECT 1 FROM memory_versions v WHERE v.memory = t.memory AND v.text = t.words)
            AND NOT EXISTS (SELECT 1 FROM memory_sources o WHERE o.memory = t.memory AND o.words = t.words
                AND o.thread IS NOT NULL AND o.thread <> ?1))",
    "UPDATE memory_sources SET thread = NULL, message = NULL, words = NULL WHERE number IN
        (SELECT number FROM memory_sources WHERE thread = ?1 ORDER BY number LIMIT ?2)",
];

/// Rows that were made of the newest messages, and then these messages: none refers to a newer one.
const MESSAGES: &[&str] = &[
    "DELETE FROM texts WHERE (app, user, source, hash) IN
        (SELECT x.app, x.user, x.source, x.hash FROM threads t
            CROSS JOIN (SELECT id FROM messages WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2) gone ON gone.id IS NOT NULL
            CROSS JOIN texts x ON x.app = t.app AND x.user = t.user AND x.source = 'msg_' || lower(hex(gone.id))
            WHERE t.id = ?1)",
    "DELETE FROM vectors WHERE item IN (SELECT id FROM messages WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2)",
    "DELETE FROM items WHERE kind = 'message' AND id IN
        (SELECT id FROM messages WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2)",
    "DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE thread = ?1 ORDER BY seq DESC LIMIT ?2)",
];

/// Rows that a run `?1` has beside its events, at most `?2` of each.
const OF_RUN: &[&str] = &[
    "DELETE FROM tool_results WHERE call IN (SELECT call FROM tool_results WHERE run = ?1 LIMIT ?2)",
    "DELETE FROM tool_calls WHERE id IN (SELECT id FROM tool_calls WHERE run = ?1 LIMIT ?2)",
];

/// Continues with a thread that was deleted and has nothing under way. False when there is none.
pub(super) fn purge(batch: &mut Batch<'_>, deleted_before: Timestamp) -> Result<bool, Error> {
    let statement = "SELECT t.id FROM threads t WHERE t.deleted_at IS NOT NULL AND t.deleted_at <= ?1
                AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread = t.id AND r.ended_at IS NULL)
                AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.thread = t.id AND j.status = 'running')
                AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.thread = t.id AND a.status = 'started')
                ORDER BY t.deleted_at, t.id LIMIT 1";
    let next: Option<ThreadId> =
        find_first(batch.conn(), statement, [deleted_before.as_millisecond()], |row| id(row, 0))?;
    next.map_or(Ok(false), |thread| remove_some(batch, thread).map(|()| true))
}

/// Removes as much of the thread as one transaction may, and the thread itself when nothing else is left.
fn remove_some(batch: &mut Batch<'_>, thread: ThreadId) -> Result<(), Error> {
    batch.forget_deltas(thread)?;
    // Results of calls are in the events: the actions that tell of them are erased before those go.
    if action_rows::erase(batch, thread, PURGE_ACTIONS)? == PURGE_ACTIONS {
        return Ok(());
    }
    if images::purge_uses(batch, thread)? {
        return Ok(());
    }
    let mut left = PURGE_ROWS;
    for statement in BEFORE_MESSAGES {
        left = left.saturating_sub(remove(batch, &[statement], thread.bytes(), left)?);
        if left == 0 {
            return Ok(());
        }
    }
    left = left.saturating_sub(texts::purge_records(batch, thread, left)?);
    left = left.saturating_sub(texts::purge_uses(batch, thread, left)?);
    left = left.saturating_sub(remove(batch, SOURCES, thread.bytes(), left)?);
    let messages = remove(batch, MESSAGES, thread.bytes(), left.min(PURGE_MESSAGES))?;
    left = left.saturating_sub(messages);
    if messages < PURGE_MESSAGES && left > 0 && remove_runs(batch, thread, left)? {
        batch.execute("DELETE FROM threads WHERE id = ?1", [thread.bytes()])?;
        batch.note_removed()?;
    }
    Ok(())
}

/// Removes runs with their calls and results until `left` rows are gone. True when none is left.
fn remove_runs(batch: &Batch<'_>, thread: ThreadId, mut left: usize) -> Result<bool, Error> {
    let mut next = batch.conn().prepare("SELECT id FROM runs WHERE thread = ?1 LIMIT 1")?;
    let mut end = batch.conn().prepare("DELETE FROM runs WHERE id = ?1")?;
    while let Some(run) = next.find_first([thread.bytes()], |row| id::<RunId>(row, 0))? {
        for statement in OF_RUN {
            left = left.saturating_sub(remove(batch, &[statement], run.bytes(), left)?);
            if left == 0 {
                return Ok(false);
            }
        }
        left = left.saturating_sub(end.count_changed([run.bytes()])?);
    }
    Ok(true)
}

/// Performs statements that belong together. Gives how many rows the last one has removed.
fn remove(batch: &Batch<'_>, statements: &[&str], of: &[u8; 16], limit: usize) -> Result<usize, Error> {
    let mut removed = 0;
    for statement in statements {
        removed = if statement.contains("?2") {
            batch.count_changed(statement, params![of, limit as i64])?
        } else {
            batch.count_changed(statement, [of])?
        };
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
