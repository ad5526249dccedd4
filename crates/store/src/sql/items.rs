//! Items: things that recall reads, numbered anew with each change.

use crate::sql::params;
use protocol::{MemoryId, MessageId, Scope, ThreadId};

use super::append::Batch;
use crate::{Error, RecallKind};

/// Gives an item a place after every other.
pub(super) fn mark_changed(
    batch: &Batch<'_>,
    scope: &Scope,
    kind: RecallKind,
    id: &[u8; 16],
) -> Result<(), Error> {
    batch.execute("DELETE FROM items WHERE kind = ?1 AND id = ?2", params![kind.name(), id])?;
    let statement = "INSERT INTO items (app, user, kind, id) VALUES (?1, ?2, ?3, ?4)";
    batch.execute(statement, params![scope.app.as_str(), scope.user.as_str(), kind.name(), id])
}

/// A message was added. In a deleted thread it counts no more.
pub(super) fn message_added(batch: &Batch<'_>, thread: ThreadId, message: MessageId) -> Result<(), Error> {
    let statement = "INSERT INTO items (app, user, kind, id)
                SELECT app, user, 'message', ?2 FROM threads WHERE id = ?1 AND deleted_at IS NULL";
    batch.execute(statement, params![thread.bytes(), message.bytes()])
}

pub(super) fn drop_vectors(batch: &Batch<'_>, memory: MemoryId) -> Result<(), Error> {
    batch.execute("DELETE FROM vectors WHERE item = ?1", [memory.bytes()])
}
