//! Snapshots: what a thread's prompt says of the user, line by line, each gone with what it comes from.

use crate::sql::{SqlConnection, params};
use protocol::{Scope, ThreadId};

use crate::sql::append::Batch;
use crate::sql::read::{find_all, has_any, text, time};
use crate::sql::texts;
use crate::{Error, MAX_SNAPSHOT_LINE_BYTES, MAX_SNAPSHOT_LINES, SnapshotLine};

/// Keeps the lines, unless the thread has a snapshot already. Gives what it has then.
pub(super) fn keep(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: ThreadId,
    lines: &[SnapshotLine],
) -> Result<Vec<SnapshotLine>, Error> {
    let statement = "INSERT INTO snapshots (thread, at)
                SELECT id, ?4 FROM threads WHERE id = ?1 AND app = ?2 AND user = ?3 AND deleted_at IS NULL
                ON CONFLICT (thread) DO NOTHING";
    let is_first = batch.count_changed(
        statement,
        params![thread.bytes(), scope.app.as_str(), scope.user.as_str(), batch.at()],
    )? == 1;
    if is_first {
        let mut insert = batch.conn().prepare(
            "INSERT INTO snapshot_lines (thread, number, source, at, text) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for (number, line) in (0_i64..).zip(lines.iter().take(MAX_SNAPSHOT_LINES)) {
            if line.text.len() <= MAX_SNAPSHOT_LINE_BYTES
                && texts::is_thing_there(batch, scope, &line.source)?
            {
                let at = line.at.as_millisecond();
                insert.execute(params![thread.bytes(), number, line.source, at, line.text])?;
            }
        }
    }
    find(batch.conn(), scope, thread)?.ok_or(Error::NotFound("thread"))
}

pub(super) fn find(
    conn: &SqlConnection,
    scope: &Scope,
    thread: ThreadId,
) -> Result<Option<Vec<SnapshotLine>>, Error> {
    let statement = "SELECT 1 FROM snapshots s JOIN threads t ON t.id = s.thread
                WHERE s.thread = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL";
    let taken = has_any(conn, statement, params![thread.bytes(), scope.app.as_str(), scope.user.as_str()])?;
    if !taken {
        return Ok(None);
    }
    let statement = "SELECT source, at, text FROM snapshot_lines WHERE thread = ?1 ORDER BY number LIMIT ?2";
    find_all(conn, statement, params![thread.bytes(), MAX_SNAPSHOT_LINES as i64], |row| {
        Ok(SnapshotLine { source: text(row, 0)?, at: time(row, 1)?, text: text(row, 2)? })
    })
    .map(Some)
}
