//! Idempotency keys: written in the transaction of their effect, so that a retry finds either both or neither.

use protocol::{Principal, Scope};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::Batch;
use super::read::StoredId;
use crate::rules::idempotency::{UsedKey, replayed};
use crate::{Error, Once};

/// The target of an earlier request under the key; an error if the key was used for another request.
pub(super) fn earlier(
    batch: &Batch<'_>,
    scope: &Scope,
    once: Option<&Once>,
) -> Result<Option<StoredId>, Error> {
    made(batch.conn(), scope, once)
}

/// The target of an earlier request, for a reader.
pub(super) fn made(conn: &Connection, scope: &Scope, once: Option<&Once>) -> Result<Option<StoredId>, Error> {
    let Some(once) = once else { return Ok(None) };
    let used = conn
        .prepare_cached(
            "SELECT fingerprint, target FROM idempotency WHERE app = ?1 AND user = ?2 AND key = ?3",
        )?
        .query_row(params![scope.app.as_str(), scope.user.as_str(), once.key], |row| {
            Ok(UsedKey { fingerprint: row.get(0)?, target: row.get::<_, StoredId>(1)?.uuid() })
        })
        .optional()?;
    Ok(replayed(used, once)?.map(StoredId::new))
}

/// Whether a request was made before that names a thing instead of an app, which may be gone by now. The fingerprint covers what
/// was asked of which thing, so it finds its own row in whatever app that was.
pub(super) fn repeated(batch: &Batch<'_>, principal: &Principal, once: Option<&Once>) -> Result<bool, Error> {
    let Some(once) = once else { return Ok(false) };
    let mut find = batch
        .conn()
        .prepare_cached("SELECT 1 FROM idempotency WHERE user = ?1 AND key = ?2 AND fingerprint = ?3")?;
    Ok(find.exists(params![principal.user().as_str(), once.key, once.fingerprint])?)
}

pub(super) fn remember(
    batch: &Batch<'_>,
    scope: &Scope,
    once: Option<&Once>,
    target: uuid::Uuid,
) -> Result<(), Error> {
    if let Some(once) = once {
        batch
            .conn()
            .prepare_cached(
                "INSERT INTO idempotency (app, user, key, fingerprint, target, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                scope.app.as_str(),
                scope.user.as_str(),
                once.key,
                once.fingerprint,
                target.as_bytes(),
                batch.at()
            ])?;
    }
    Ok(())
}
