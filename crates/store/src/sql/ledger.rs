//! The rows of the ledger. How its chains are made is in [`crate::rules::ledger`].

use crate::sql::{SqlConnection, params};
use protocol::{ActionId, Scope};

use super::append::Batch;
use super::read::{count, find_first, sql};
use crate::rules::ledger::{LedgerHead, LedgerPayload, NewLedgerEntry, next_entry, payload_text};
use crate::{Error, LedgerKind};

/// Adds an entry to the scope's chain and gives its position.
pub(super) fn append(
    batch: &Batch<'_>,
    scope: &Scope,
    action: ActionId,
    kind: LedgerKind,
    payload: &LedgerPayload,
) -> Result<u64, Error> {
    let (app, user) = (scope.app.as_str(), scope.user.as_str());
    let head = head(batch.conn(), scope)?.unwrap_or_else(|| LedgerHead::origin(scope));
    let payload = payload_text(payload)?;
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| Error::Aborted)?;
    let new = NewLedgerEntry { action, kind, at: batch.at(), salt, payload: &payload };
    let (entry, hash) = next_entry(&head, &new);
    let position = sql(entry.position);
    let statement = "INSERT INTO ledger (app, user, position, action, kind, at, digest, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    batch.execute(
        statement,
        params![app, user, position, entry.action, kind.name(), entry.at, entry.digest, hash],
    )?;
    let statement =
        "INSERT INTO ledger_payloads (app, user, position, salt, payload) VALUES (?1, ?2, ?3, ?4, ?5)";
    batch.execute(statement, params![app, user, position, salt, payload])?;
    let statement = "INSERT INTO ledger_heads (app, user, position, hash) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (app, user) DO UPDATE SET position = excluded.position, hash = excluded.hash";
    batch.execute(statement, params![app, user, position, hash])?;
    Ok(entry.position)
}

/// The last entry of a scope's chain, as it is noted.
pub(super) fn head(conn: &SqlConnection, scope: &Scope) -> Result<Option<LedgerHead>, Error> {
    let statement = "SELECT position, hash FROM ledger_heads WHERE app = ?1 AND user = ?2";
    find_first(conn, statement, [scope.app.as_str(), scope.user.as_str()], |row| {
        Ok(LedgerHead { position: count(row, 0)?, hash: row.get(1)? })
    })
}

/// Removes the contents of an action's entries, and adds an entry that says so.
pub(super) fn erase(batch: &Batch<'_>, scope: &Scope, action: ActionId, reason: &str) -> Result<(), Error> {
    let statement = "DELETE FROM ledger_payloads WHERE app = ?1 AND user = ?2 AND position IN
                (SELECT position FROM ledger WHERE action = ?3 AND app = ?1 AND user = ?2)";
    batch.execute(statement, params![scope.app.as_str(), scope.user.as_str(), action.bytes()])?;
    append(batch, scope, action, LedgerKind::Erase, &LedgerPayload::erase(reason)).map(drop)
}
