//! Keys of users, by their hash. Each change of a key is one transaction with its entry in the audit of admins.

use crate::sql::{SqlConnection, SqlRow, params};
use jiff::Timestamp;
use protocol::{ActsFor, AppId, AuditKind, KeyId, KeyView, Right, Rights, Scope};
use serde_json::{Value, json};
use uuid::Uuid;

use super::append::Batch;
use super::read::{
    find_first, find_page, has_any, id, maybe_id, maybe_time, merge_pages, oldest_page_start, one_more, text,
    time,
};
use super::{SqlStore, admin_audit, idempotency};
use crate::rules::admin_audit::AdminAct;
use crate::rules::keys::{check_rotatable, end_of_replaced, end_of_successor, is_within};
use crate::{
    Error, IdempotencyClaim, NewKeyRotation, PageOf, PageRows, ReplacedKey, RevokedKey, RotatedKey,
    TimeCursor,
};

const COLUMNS: &str =
    "id, user, app, rights, acts_for, created_at, expires_at, used_at, revoked_at, made_by, revoked_by,
    replaced_by";

/// The target of an entry in the audit about all keys.
const ALL_KEYS: &str = "keys";

/// Before every id.
const FIRST_ID: &[u8] = &[];

impl SqlStore {
    pub(crate) async fn add_key(
        &self,
        key: KeyView,
        hash: [u8; 32],
        once: Option<(Scope, IdempotencyClaim)>,
    ) -> Result<Option<KeyId>, Error> {
        let work = move |batch: &mut Batch<'_>| {
            if let Some((scope, once)) = &once
                && let Some(earlier) = idempotency::claim(batch, scope, Some(once), key.id.uuid())?
            {
                return Ok(Some(earlier.into()));
            }
            batch.access_changes(); // the first key ends access without one
            insert(batch, &key, hash)?;
            let by = key.made_by.clone().unwrap_or_default();
            note(batch, by, AuditKind::KeyMade, &key, made_detail(&key))?;
            Ok(None)
        };
        self.writer.write(work).await
    }

    pub(crate) async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyView>, Error> {
        let statement = format!("SELECT {COLUMNS} FROM keys WHERE hash = ?1");
        self.readers.read(move |conn| find_first(conn, &statement, [hash], key_row)).await
    }

    pub(crate) async fn has_keys(&self) -> Result<bool, Error> {
        let statement = "SELECT 1 FROM keys WHERE id >= ?1 LIMIT 1";
        self.readers.read(move |conn| has_any(conn, statement, [FIRST_ID])).await
    }

    pub(crate) async fn access_ends(&self, ids: Vec<Uuid>) -> Result<Vec<(Uuid, Timestamp)>, Error> {
        self.readers
            .read(move |conn| ids.iter().filter_map(|id| end_of(conn, *id).transpose()).collect())
            .await
    }

    pub(crate) async fn has_good_keys(&self, at: Timestamp) -> Result<bool, Error> {
        let endless = "SELECT 1 FROM keys WHERE revoked_at IS NULL AND expires_at IS NULL LIMIT 1";
        let in_time = "SELECT 1 FROM keys WHERE revoked_at IS NULL AND expires_at > ?1 LIMIT 1";
        let read = move |conn: &SqlConnection| {
            Ok(has_any(conn, endless, [])? || has_any(conn, in_time, [at.as_millisecond()])?)
        };
        self.readers.read(read).await
    }

    pub(crate) async fn keys(
        &self,
        apps: Option<Vec<AppId>>,
        page: PageOf<TimeCursor<KeyId>>,
    ) -> Result<PageRows<KeyView>, Error> {
        let read = move |conn: &SqlConnection| match &apps {
            None => list(conn, page),
            Some(apps) => {
                let pages = apps.iter().map(|app| list_of_app(conn, app, page)).collect::<Result<_, _>>()?;
                Ok(merge_pages(pages, page.limit, |key: &KeyView| (key.created_at, key.id)))
            }
        };
        self.readers.read(read).await
    }

    pub(crate) async fn revoke_key(
        &self,
        key: KeyId,
        only_apps: Option<Vec<AppId>>,
        by: String,
    ) -> Result<Option<RevokedKey>, Error> {
        self.writer.write(move |batch| revoke(batch, key, only_apps.as_deref(), by)).await
    }

    pub(crate) async fn rotate_key(&self, rotation: NewKeyRotation) -> Result<Option<RotatedKey>, Error> {
        self.writer.write(move |batch| rotate(batch, rotation)).await
    }

    pub(crate) async fn note_key_use(&self, key: KeyId, at: Timestamp) -> Result<(), Error> {
        let work = move |batch: &mut Batch<'_>| {
            let statement =
                "UPDATE keys SET used_at = ?2 WHERE id = ?1 AND (used_at IS NULL OR used_at < ?2)";
            batch.execute(statement, params![key.bytes(), at.as_millisecond()])
        };
        // No caller is promised this time, so it need not be synced.
        self.writer.write_ahead(work).await
    }

    pub(crate) async fn remove_keys(&self, by: String) -> Result<u64, Error> {
        let work = move |batch: &mut Batch<'_>| {
            batch.access_changes();
            let removed = batch.count_changed("DELETE FROM keys", [])? as u64;
            if removed > 0 {
                let (kind, target) = (AuditKind::KeysRemoved, ALL_KEYS.to_owned());
                let detail = json!({ "count": removed });
                admin_audit::append(batch, AdminAct { by, kind, app: None, target, detail })?;
            }
            Ok(removed)
        };
        self.writer.write(work).await
    }
}

/// When the access of a key or a session ends. One that is not there has ended.
fn end_of(conn: &SqlConnection, id: Uuid) -> Result<Option<(Uuid, Timestamp)>, Error> {
    let key = "SELECT coalesce(revoked_at, expires_at) FROM keys WHERE id = ?1";
    let session = "SELECT coalesce(ended_at, expires_at) FROM sessions WHERE id = ?1";
    let mut found: Option<Option<i64>> = None;
    for statement in [key, session] {
        if found.is_none() {
            found = find_first(conn, statement, params![id.as_bytes()], |row| row.get(0))?;
        }
    }
    let end = found.unwrap_or(Some(0));
    Ok(end.and_then(|end| Timestamp::from_millisecond(end).ok()).map(|end| (id, end)))
}

fn insert(batch: &Batch<'_>, key: &KeyView, hash: [u8; 32]) -> Result<(), Error> {
    let statement =
        "INSERT INTO keys (id, hash, user, app, rights, acts_for, created_at, expires_at, made_by)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    batch.execute(
        statement,
        params![
            key.id.bytes(),
            hash,
            key.user,
            key.app,
            key.rights.to_string(),
            key.acts_for.map(ActsFor::name),
            batch.at(),
            key.expires_at.map(Timestamp::as_millisecond),
            key.made_by
        ],
    )
}

/// Adds an entry about a key to the audit of admins.
fn note(batch: &Batch<'_>, by: String, kind: AuditKind, key: &KeyView, detail: Value) -> Result<(), Error> {
    let (app, target) = (key.app.clone(), key.id.to_string());
    admin_audit::append(batch, AdminAct { by, kind, app, target, detail })
}

fn made_detail(key: &KeyView) -> Value {
    json!({
        "user": key.user,
        "app": key.app,
        "rights": key.rights,
        "actsFor": key.acts_for,
        "expiresAt": key.expires_at,
    })
}

/// A key within the reach of an admin of these apps, and its hash.
fn key_within_apps(
    batch: &Batch<'_>,
    key: KeyId,
    only_apps: Option<&[AppId]>,
) -> Result<Option<(KeyView, [u8; 32])>, Error> {
    let statement = format!("SELECT {COLUMNS}, hash FROM keys WHERE id = ?1");
    let with_hash = |row: &SqlRow<'_>| Ok((key_row(row)?, row.get(12)?));
    let found = find_first(batch.conn(), &statement, [key.bytes()], with_hash)?;
    Ok(found.filter(|(key, _)| is_within(key.app.as_deref(), only_apps)))
}

fn revoke(
    batch: &Batch<'_>,
    id: KeyId,
    only_apps: Option<&[AppId]>,
    by: String,
) -> Result<Option<RevokedKey>, Error> {
    let Some((key, hash)) = key_within_apps(batch, id, only_apps)? else { return Ok(None) };
    if key.revoked_at.is_none() {
        batch.access_changes();
        let statement = "UPDATE keys SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1";
        batch.execute(statement, params![id.bytes(), batch.at(), by])?;
        let detail = json!({ "user": key.user });
        note(batch, by, AuditKind::KeyRevoked, &key, detail)?;
    }
    Ok(Some(RevokedKey { hash }))
}

fn rotate(batch: &Batch<'_>, rotation: NewKeyRotation) -> Result<Option<RotatedKey>, Error> {
    let NewKeyRotation { old, only_apps, new, hash, old_ends_at, once } = rotation;
    if let Some((scope, once)) = &once
        && let Some(earlier) = idempotency::earlier_target(batch, scope, Some(once))?
    {
        return Ok(Some(RotatedKey { id: earlier.into(), made: None }));
    }
    let Some((old, old_hash)) = key_within_apps(batch, old, only_apps.as_deref())? else { return Ok(None) };
    let now = batch.now()?;
    check_rotatable(&old, now)?;
    let new = KeyView {
        created_at: now,
        expires_at: new.expires_at.or_else(|| end_of_successor(&old, now)),
        used_at: None,
        made_by: new.made_by,
        id: new.id,
        ..old.clone()
    };
    let ends_at = end_of_replaced(&old, old_ends_at);
    let old = KeyView { expires_at: Some(ends_at), replaced_by: Some(new.id), ..old };
    insert(batch, &new, hash)?;
    batch.access_changes();
    let statement = "UPDATE keys SET expires_at = ?2, replaced_by = ?3 WHERE id = ?1";
    batch.execute(statement, params![old.id.bytes(), ends_at.as_millisecond(), new.id.bytes()])?;
    let by = new.made_by.clone().unwrap_or_default();
    let detail = json!({
        "user": old.user, "newKey": new.id, "oldEndsAt": ends_at, "expiresAt": new.expires_at
    });
    note(batch, by, AuditKind::KeyRotated, &old, detail)?;
    if let Some((scope, once)) = &once {
        idempotency::remember(batch, scope, Some(once), new.id.uuid())?;
    }
    Ok(Some(RotatedKey { id: new.id, made: Some(ReplacedKey { old, old_hash, new }) }))
}

fn list(conn: &SqlConnection, page: PageOf<TimeCursor<KeyId>>) -> Result<PageRows<KeyView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM keys WHERE (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3"
    );
    let (at, last) = oldest_page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    find_page(conn, &statement, params![at, last, one_more(page.limit)], page.limit, key_row)
}

fn list_of_app(
    conn: &SqlConnection,
    app: &AppId,
    page: PageOf<TimeCursor<KeyId>>,
) -> Result<PageRows<KeyView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM keys WHERE app = ?4 AND (created_at, id) > (?1, ?2)
            ORDER BY created_at, id LIMIT ?3"
    );
    let (at, last) = oldest_page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let key = params![at, last, one_more(page.limit), app.as_str()];
    find_page(conn, &statement, key, page.limit, key_row)
}

/// Rights as they are stored. Rights that cannot be read allow nothing.
pub(super) fn rights(row: &SqlRow<'_>, column: usize) -> Result<Rights, Error> {
    Ok(Rights::parse(&text(row, column)?).unwrap_or(Rights::NONE))
}

fn key_row(row: &SqlRow<'_>) -> Result<KeyView, Error> {
    let rights = rights(row, 3)?;
    let acts_for: Option<String> = row.get(4)?;
    Ok(KeyView {
        id: id(row, 0)?,
        user: text(row, 1)?,
        app: row.get(2)?,
        admin: rights.has(Right::Admin),
        rights,
        // The schema knows no other value.
        acts_for: acts_for.map(|_| ActsFor::Any),
        created_at: time(row, 5)?,
        expires_at: maybe_time(row, 6)?,
        used_at: maybe_time(row, 7)?,
        revoked_at: maybe_time(row, 8)?,
        made_by: row.get(9)?,
        revoked_by: row.get(10)?,
        replaced_by: maybe_id(row, 11)?,
    })
}
