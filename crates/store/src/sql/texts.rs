//! Texts beside the log: kept with the event that names them, and gone with what they come from.
//!
//! An app's instructions and documents are the same for all users, so their texts are kept once, without a user, and go
//! with the last thread that has a prompt made of them. Texts of documents also go with their document.

use crate::sql::{SqlConnection, params};
use protocol::{ActionId, DocumentId, MemoryId, MessageId, PinId, RecordId, Scope, ThreadId};

use super::append::Batch;
use super::read::{find_all, find_only, has_any, text};
use super::{RowsOf, SqlStore, erasures};
use crate::{Error, MAX_TEXT_BYTES, MAX_TEXTS_PER_WRITE, NewText, source};

/// Stands for all users of an app.
const NOBODY: &str = "";

impl SqlStore {
    pub(crate) async fn texts(
        &self,
        scope: &Scope,
        named: &[(String, [u8; 16])],
    ) -> Result<Vec<Option<String>>, Error> {
        let rows = RowsOf::user(&scope.user);
        let (scope, named) = (scope.clone(), named.to_vec());
        self.readers.read_for(rows, move |conn| find(conn, &scope, &named)).await
    }
}

fn find(
    conn: &SqlConnection,
    scope: &Scope,
    named: &[(String, [u8; 16])],
) -> Result<Vec<Option<String>>, Error> {
    let mut find =
        conn.prepare("SELECT body FROM texts WHERE app = ?1 AND user = ?2 AND source = ?3 AND hash = ?4")?;
    let app = scope.app.as_str();
    let found = named.iter().map(|(source, hash)| {
        let user = if source::is_of_app(source) { NOBODY } else { scope.user.as_str() };
        find.find_first(params![app, user, source, hash], |row| text(row, 0))
    });
    found.collect()
}

/// Keeps texts. A text that comes from something that is gone by now is not kept, so that nothing outlives its
/// deletion.
pub(super) fn keep(
    batch: &Batch<'_>,
    scope: &Scope,
    thread: ThreadId,
    texts: &[&NewText],
) -> Result<(), Error> {
    if texts.len() > MAX_TEXTS_PER_WRITE {
        return Err(Error::Changed(format!("one event names at most {MAX_TEXTS_PER_WRITE} texts")));
    }
    for text in texts {
        if source::is_of_app(&text.source) {
            let of_app = Scope::of_app(scope.app.clone());
            if let Some(document) = source::knowledge_document(&text.source)
                && !is_thing_there(batch, &of_app, document)?
            {
                continue;
            }
            insert_for(batch, (scope.app.as_str(), NOBODY), text)?;
            use_in(batch, scope, thread, text)?;
        } else if is_there(batch, scope, &text.source)? {
            insert(batch, scope, text)?;
        }
    }
    Ok(())
}

pub(super) fn insert(batch: &Batch<'_>, scope: &Scope, new: &NewText) -> Result<(), Error> {
    insert_for(batch, (scope.app.as_str(), scope.user.as_str()), new)
}

fn insert_for(batch: &Batch<'_>, (app, user): (&str, &str), new: &NewText) -> Result<(), Error> {
    if new.text.len() > MAX_TEXT_BYTES {
        return Err(Error::Changed(format!("a text has at most {MAX_TEXT_BYTES} bytes")));
    }
    let statement = "INSERT INTO texts (app, user, source, hash, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    batch.execute(statement, params![app, user, new.source, new.hash, new.text])
}

/// Notes that a prompt of the thread is made of a text that all users share.
fn use_in(batch: &Batch<'_>, scope: &Scope, thread: ThreadId, new: &NewText) -> Result<(), Error> {
    let statement =
        "INSERT INTO text_uses (thread, app, source, hash) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    batch.execute(statement, params![thread.bytes(), scope.app.as_str(), new.source, new.hash])
}

/// Removes what was kept of a source, in kept prompts and in snapshots.
pub(super) fn drop_of(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<(), Error> {
    drop_some(batch, scope, source, i64::MAX).map(drop)
}

/// Removes what was kept of a source in kept prompts alone: snapshots are read without it, and have it again when it is
/// restored.
pub(super) fn drop_kept(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<(), Error> {
    let statement = "DELETE FROM texts WHERE app = ?1 AND user = ?2 AND source = ?3";
    batch.execute(statement, [scope.app.as_str(), scope.user.as_str(), source])
}

/// Removes at most `limit` of the texts, and of the lines, of a source. True when there were any.
pub(super) fn drop_some(batch: &Batch<'_>, scope: &Scope, source: &str, limit: i64) -> Result<bool, Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let statement = "DELETE FROM texts WHERE (app, user, source, hash) IN
                (SELECT app, user, source, hash FROM texts WHERE app = ?1 AND user = ?2 AND source = ?3 LIMIT ?4)";
    let texts = batch.count_changed(statement, params![app, user, source, limit])?;
    // A source is an id, which no two scopes have.
    let statement = "DELETE FROM snapshot_lines WHERE (thread, number) IN
                (SELECT thread, number FROM snapshot_lines WHERE source = ?1 LIMIT ?2)";
    let lines = batch.count_changed(statement, params![source, limit])?;
    Ok(texts > 0 || lines > 0)
}

/// Removes some of what prompts said of the scope's records before the last time that something was erased. True when
/// there was any.
pub(super) fn drop_stale_records(batch: &Batch<'_>, scope: &Scope, limit: i64) -> Result<bool, Error> {
    let (first, end) = source::ALL_RECORDS;
    let current = source::erasure_suffix(erasures::number(batch.conn(), scope)?);
    let statement = "DELETE FROM texts WHERE (app, user, source, hash) IN
                (SELECT app, user, source, hash FROM texts
                    WHERE app = ?1 AND user = ?2 AND source >= ?3 AND source < ?4
                        AND substr(source, length(source) - length(?5) + 1) <> ?5 LIMIT ?6)";
    let removed = batch.count_changed(
        statement,
        params![scope.app.as_str(), scope.user.as_str(), first, end, current, limit],
    )?;
    Ok(removed > 0)
}

/// Removes profiles of a user as prompts had them, in all apps.
pub(super) fn drop_profiles(batch: &Batch<'_>, user: &str) -> Result<(), Error> {
    // Each is the condition of the index.
    let statement = match batch.conn() {
        SqlConnection::Sqlite(_) => "DELETE FROM texts WHERE user = ?1 AND source GLOB 'profile_*'",
        SqlConnection::Postgres(_) => "DELETE FROM texts WHERE user = ?1 AND source LIKE 'profile\\_%'",
    };
    batch.execute(statement, [user])
}

/// Whether the source is still there for the scope, and still what it was. A source that is none of ours is always
/// there.
fn is_there(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<bool, Error> {
    if let Some(version) = source::profile_version(source) {
        // The version is the sum of those of two profiles: the user's for all apps, and the one for this app.
        let statement = "SELECT coalesce(CAST(sum(version) AS BIGINT), 0) FROM profiles WHERE user = ?1 AND app IN ('', ?2)";
        let newest: i64 =
            find_only(batch.conn(), statement, params![scope.user.as_str(), scope.app.as_str()], |row| {
                row.get(0)
            })?;
        return Ok(newest == version);
    }
    if let Some(number) = source::records_number(source) {
        return Ok(erasures::number(batch.conn(), scope)? == number);
    }
    if let Some(persona) = source::persona_of_user(source) {
        let statement = "SELECT 1 FROM personas WHERE app = ?1 AND user = ?2 AND id = ?3";
        return has_any(batch.conn(), statement, [scope.app.as_str(), scope.user.as_str(), persona]);
    }
    is_thing_there(batch, scope, source)
}

/// Whether a source that is an id, or a file, is still there for the scope.
pub(super) fn is_thing_there(batch: &Batch<'_>, scope: &Scope, source: &str) -> Result<bool, Error> {
    if let Some(path) = source::file_of(scope, source) {
        let statement =
            "SELECT 1 FROM files WHERE app = ?1 AND user = ?2 AND path = ?3 AND content IS NOT NULL";
        return has_any(batch.conn(), statement, [scope.app.as_str(), scope.user.as_str(), path]);
    }
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
    } else if let Ok(record) = source.parse::<RecordId>() {
        let found = "SELECT 1 FROM records WHERE id = ?1 AND app = ?2 AND user = ?3 AND data IS NOT NULL";
        (record.uuid(), found)
    } else if let Ok(action) = source.parse::<ActionId>() {
        let found = "SELECT 1 FROM actions WHERE id = ?1 AND app = ?2 AND user = ?3 AND input IS NOT NULL";
        (action.uuid(), found)
    } else {
        return Ok(true);
    };
    let key = params![id.as_bytes(), scope.app.as_str(), scope.user.as_str()];
    has_any(batch.conn(), of_scope, key)
}

/// Removes what prompts of a thread said of records, at most `limit` texts. Gives how many those were.
pub(super) fn purge_records(batch: &Batch<'_>, thread: ThreadId, limit: usize) -> Result<usize, Error> {
    let (first, end) = source::records_of_thread(thread);
    let statement = "DELETE FROM texts WHERE (app, user, source, hash) IN
                (SELECT x.app, x.user, x.source, x.hash FROM threads t
                    CROSS JOIN texts x ON x.app = t.app AND x.user = t.user AND x.source >= ?2 AND x.source < ?3
                    WHERE t.id = ?1 LIMIT ?4)";
    batch.count_changed(statement, params![thread.bytes(), first, end, limit as i64])
}

/// Removes a thread's uses of shared texts, at most `limit`, and the texts that nothing uses then. Gives how many uses those
/// were.
pub(super) fn purge_uses(batch: &Batch<'_>, thread: ThreadId, limit: usize) -> Result<usize, Error> {
    let statement = "DELETE FROM text_uses WHERE (thread, source, hash) IN
            (SELECT thread, source, hash FROM text_uses WHERE thread = ?1 LIMIT ?2) RETURNING app, source, hash";
    let uses = find_all(batch.conn(), statement, params![thread.bytes(), limit as i64], |row| {
        Ok((text(row, 0)?, text(row, 1)?, row.get::<[u8; 16]>(2)?))
    })?;
    let mut unused = batch.conn().prepare(
        "DELETE FROM texts WHERE app = ?1 AND user = ?4 AND source = ?2 AND hash = ?3
            AND NOT EXISTS (SELECT 1 FROM text_uses u WHERE u.app = ?1 AND u.source = ?2 AND u.hash = ?3)",
    )?;
    for (app, source, hash) in &uses {
        unused.execute(params![app, source, hash, NOBODY])?;
    }
    Ok(uses.len())
}
