//! Keys of users, by their hash.

use protocol::{AppId, KeyId, KeyView, Scope};
use rusqlite::{Row, params};

use super::read::{find_all, id, maybe_time, text, time};
use super::{Sqlite, idempotency};
use crate::{Error, Once};

const COLUMNS: &str = "id, user, app, admin, created_at, revoked_at, made_by, revoked_by";

impl Sqlite {
    pub(crate) async fn add_key(
        &self,
        key: KeyView,
        hash: [u8; 32],
        once: Option<(Scope, Once)>,
    ) -> Result<Option<KeyId>, Error> {
        self.writer
            .write(move |batch| {
                if let Some((scope, once)) = &once
                    && let Some(earlier) = idempotency::claim(batch, scope, Some(once), key.id.uuid())?
                {
                    return Ok(Some(earlier.into()));
                }
                let statement = "INSERT INTO keys (id, hash, user, app, admin, created_at, made_by)
                            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                batch.execute(
                    statement,
                    params![key.id.bytes(), hash, key.user, key.app, key.admin, batch.at(), key.made_by],
                )?;
                Ok(None)
            })
            .await
    }

    pub(crate) async fn good_keys(&self) -> Result<Vec<([u8; 32], KeyView)>, Error> {
        let statement = format!("SELECT {COLUMNS}, hash FROM keys WHERE revoked_at IS NULL");
        let with_hash = |row: &Row<'_>| Ok((row.get(8)?, key_row(row)?));
        self.readers.read(move |conn| find_all(conn, &statement, [], with_hash)).await
    }

    pub(crate) async fn keys(&self) -> Result<Vec<KeyView>, Error> {
        let statement = format!("SELECT {COLUMNS} FROM keys ORDER BY created_at, id");
        self.readers.read(move |conn| find_all(conn, &statement, [], key_row)).await
    }

    pub(crate) async fn revoke_key(
        &self,
        key: KeyId,
        only_app: Option<AppId>,
        by: String,
    ) -> Result<bool, Error> {
        self.writer
            .write(move |batch| {
                let statement = "UPDATE keys SET revoked_by = iif(revoked_at IS NULL, ?4, revoked_by),
                            revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1 AND (?3 IS NULL OR app = ?3)";
                let revoked = batch.count_changed(
                    statement,
                    params![key.bytes(), batch.at(), only_app.as_ref().map(AppId::as_str), by],
                )?;
                Ok(revoked == 1)
            })
            .await
    }

    pub(crate) async fn remove_keys(&self) -> Result<u64, Error> {
        self.writer.write(|batch| Ok(batch.count_changed("DELETE FROM keys", [])? as u64)).await
    }
}

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyView> {
    Ok(KeyView {
        id: id(row, 0)?,
        user: text(row, 1)?,
        app: row.get(2)?,
        admin: row.get(3)?,
        created_at: time(row, 4)?,
        revoked_at: maybe_time(row, 5)?,
        made_by: row.get(6)?,
        revoked_by: row.get(7)?,
    })
}
