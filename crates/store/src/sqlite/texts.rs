//! Texts beside the log: kept with the event that names them, and gone with what they come from.

use async_trait::async_trait;
use protocol::{DocumentId, MemoryId, MessageId, PinId, Scope, ThreadId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use super::append::Batch;
use super::read::text;
use crate::{Error, MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, NewText, Texts};

/// Texts removed in one transaction when their thread is purged.
const PURGE_TEXTS: i64 = 100;

#[async_trait]
impl Texts for Sqlite {
    async fn texts(&self, scope: &Scope, named: &[(String, [u8; 16])]) -> Result<Vec<Option<String>>, Error> {
        let (scope, named) = (scope.clone(), named.to_vec());
        self.readers.read(move |conn| find(conn, &scope, &named)).await
    }
}

fn find(
    conn: &Connection,
    scope: &Scope,
    named: &[(String, [u8; 16])],
) -> Result<Vec<Option<String>>, Error> {
    let mut find = conn.prepare_cached(
        "SELECT body FROM texts WHERE app = ?1 AND user = ?2 AND source = ?3 AND hash = ?4",
    )?;
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let found = named.iter().map(|(source, hash)| {
        find.query_row(params![app, user, source, hash], |row| text(row, 0)).optional()
    });
    Ok(found.collect::<Result<_, _>>()?)
}

/// Keeps texts. What comes from something that is gone by now is not kept, so that nothing outlives its deletion.
pub(super) fn keep(batch: &Batch<'_>, scope: &Scope, texts: &[&NewText]) -> Result<(), Error> {
    if texts.len() > MAX_TEXTS_PER_WRITE {
        return Err(Error::Changed(format!("one event names at most {MAX_TEXTS_PER_WRITE} texts")));
    }
    for text in texts {
        if is_there(batch, scope, &text.source)? {
            insert(batch, scope, text)?;
        }
    }
    Ok(())
}

pub(super) fn insert(batch: &Batch<'_>, scope: &Scope, new: &NewText) -> Result<(), Error> {
    if new.text.len() > MAX_TEXT_BYTES {
        return Err(Error::Changed(format!("a text has at most {MAX_TEXT_BYTES} bytes")));
    }
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO texts (app, user, source, hash, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        )?
        .execute(params![scope.app.as_str(), scope.user.as_str(), new.source, new.hash, new.text])?;
    Ok(())
}

/// Removes what was kept of a source.
pub(super) fn drop_of(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<(), Error> {
    batch
        .conn()
        .prepare_cached("DELETE FROM texts WHERE app = ?1 AND user = ?2 AND source = ?3")?
        .execute([scope.app.as_str(), scope.user.as_str(), source])?;
    Ok(())
}

/// Whether the source is still there for the scope. What is no id of ours is never deleted.
fn is_there(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<bool, Error> {
    let (id, of_scope) = if let Ok(memory) = source.parse::<MemoryId>() {
        let found =
            "SELECT 1 FROM memories WHERE id = ?1 AND app = ?2 AND user = ?3 AND status <> 'forgotten'";
        (memory.uuid(), found)
    } else if let Ok(message) = source.parse::<MessageId>() {
        let found = "SELECT 1 FROM messages m JOIN threads t ON t.id = m.thread
            WHERE m.id = ?1 AND t.app = ?2 AND t.user = ?3 AND t.deleted_at IS NULL";
        (message.uuid(), found)
    } else if let Ok(thread) = source.parse::<ThreadId>() {
        let found = "SELECT 1 FROM threads WHERE id = ?1 AND app = ?2 AND user = ?3 AND deleted_at IS NULL";
        (thread.uuid(), found)
    } else if let Ok(pin) = source.parse::<PinId>() {
        (pin.uuid(), "SELECT 1 FROM pins WHERE id = ?1 AND app = ?2 AND user = ?3")
    } else if let Ok(document) = source.parse::<DocumentId>() {
        let found = "SELECT 1 FROM documents WHERE id = ?1 AND app = ?2 AND user = ?3 AND deleted_at IS NULL";
        (document.uuid(), found)
    } else {
        return Ok(true);
    };
    let key = params![id.as_bytes(), scope.app.as_str(), scope.user.as_str()];
    Ok(batch.conn().prepare_cached(of_scope)?.exists(key)?)
}

/// Removes some of what was kept of a thread, its messages and its pins. True when there was something.
pub(super) fn purge(batch: &Batch<'_>, thread: ThreadId) -> Result<bool, Error> {
    let removed = batch
        .conn()
        .prepare_cached(
            "DELETE FROM texts WHERE (app, user, source, hash) IN
                (SELECT x.app, x.user, x.source, x.hash FROM threads t
                    CROSS JOIN (SELECT 'thr_' || lower(hex(?1)) AS source
                        UNION ALL SELECT 'msg_' || lower(hex(id)) FROM messages WHERE thread = ?1
                        UNION ALL SELECT 'pin_' || lower(hex(id)) FROM pins WHERE thread = ?1) gone
                    CROSS JOIN texts x ON x.app = t.app AND x.user = t.user AND x.source = gone.source
                    WHERE t.id = ?1 LIMIT ?2)",
        )?
        .execute(params![thread.bytes(), PURGE_TEXTS])?;
    Ok(removed > 0)
}
