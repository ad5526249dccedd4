//! Idempotency keys: written in the transaction of their effect, so that a retry finds either both or neither.

use crate::sql::{SqlConnection, params};
use protocol::{Principal, Scope};
use uuid::Uuid;

use super::append::Batch;
use super::read::{find_first, has_any, id};
use crate::rules::idempotency::{UsedKey, target_of_repeat};
use crate::{Error, IdempotencyClaim};

/// The target of an earlier request under the key; an error if the key was used for another request.
pub(super) fn earlier_target(
    batch: &Batch<'_>,
    scope: &Scope,
    once: Option<&IdempotencyClaim>,
) -> Result<Option<Uuid>, Error> {
    find_target(batch.conn(), scope, once)
}

/// The target of an earlier request, for a reader.
pub(super) fn find_target(
    conn: &SqlConnection,
    scope: &Scope,
    once: Option<&IdempotencyClaim>,
) -> Result<Option<Uuid>, Error> {
    let Some(once) = once else { return Ok(None) };
    let statement = "SELECT fingerprint, target FROM idempotency WHERE app = ?1 AND user = ?2 AND key = ?3";
    let used =
        find_first(conn, statement, params![scope.app.as_str(), scope.user.as_str(), once.key], |row| {
            Ok(UsedKey { fingerprint: row.get(0)?, target: id(row, 1)? })
        })?;
    target_of_repeat(used, once)
}

/// Whether a request was made before that names a thing instead of an app. The thing may be gone by now. The
/// fingerprint covers the request and the thing, so it finds its own row in any app.
pub(super) fn is_repeated(
    batch: &Batch<'_>,
    principal: &Principal,
    once: Option<&IdempotencyClaim>,
) -> Result<bool, Error> {
    let Some(once) = once else { return Ok(false) };
    let statement = "SELECT 1 FROM idempotency WHERE user = ?1 AND key = ?2 AND fingerprint = ?3";
    has_any(batch.conn(), statement, params![principal.user().as_str(), once.key, once.fingerprint])
}

/// Stores the key with the target of this request. If an earlier request has used the key, gives the target of that one, and
/// stores nothing.
pub(super) fn claim(
    batch: &Batch<'_>,
    scope: &Scope,
    once: Option<&IdempotencyClaim>,
    target: Uuid,
) -> Result<Option<Uuid>, Error> {
    let earlier = earlier_target(batch, scope, once)?;
    if earlier.is_none() {
        remember(batch, scope, once, target)?;
    }
    Ok(earlier)
}

pub(super) fn remember(
    batch: &Batch<'_>,
    scope: &Scope,
    once: Option<&IdempotencyClaim>,
    target: Uuid,
) -> Result<(), Error> {
    if let Some(once) = once {
        let statement = "INSERT INTO idempotency (app, user, key, fingerprint, target, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        batch.execute(
            statement,
            params![
                scope.app.as_str(),
                scope.user.as_str(),
                once.key,
                once.fingerprint,
                target.as_bytes(),
                batch.at()
            ],
        )?;
    }
    Ok(())
}
