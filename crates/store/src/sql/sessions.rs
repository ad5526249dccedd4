//! Sessions of browsers, by the hash of the secret in their cookie.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::{AppId, AuditKind, KeyId, SessionId, SessionView};
use serde_json::json;

use super::append::Batch;
use super::keys::rights;
use super::read::{
    find_all, find_first, find_page, id, maybe_id, maybe_time, one_more, page_start, text, time,
};
use super::{SqlStore, admin_audit};
use crate::rules::admin_audit::AdminAct;
use crate::rules::keys::are_within;
use crate::{Error, MAX_SESSIONS_PER_USER, PageOf, PageRows, SessionRow, TimeCursor};

const COLUMNS: &str = "s.id, s.user, s.apps, s.rights, s.key, s.issuer, s.created_at, s.expires_at";

/// How long a session is kept after its end, in milliseconds: a day.
const KEPT_AFTER_END_MS: i64 = 24 * 60 * 60 * 1000;

/// Sessions forgotten in one transaction, of those that ended and of those that expired.
const MAX_FORGOTTEN: i64 = 500;

impl SqlStore {
    pub(crate) async fn add_session(
        &self,
        session: SessionView,
        hash: [u8; 32],
        actor: Option<String>,
    ) -> Result<Vec<SessionId>, Error> {
        let work = move |batch: &mut Batch<'_>| {
            insert(batch, &session, hash, actor.as_deref())?;
            end_surplus(batch, &session.user)
        };
        self.writer.write(work).await
    }

    pub(crate) async fn session_by_hash(&self, hash: [u8; 32]) -> Result<Option<SessionRow>, Error> {
        let statement = format!(
            "SELECT {COLUMNS}, s.actor, s.ended_at IS NOT NULL,
                    s.key IS NOT NULL AND (k.id IS NULL OR k.revoked_at IS NOT NULL), k.expires_at
                FROM sessions s LEFT JOIN keys k ON k.id = s.key WHERE s.hash = ?1"
        );
        let of_row = |row: &SqlRow<'_>| {
            Ok(SessionRow {
                view: session_view(row)?,
                actor: row.get(8)?,
                ended: row.get(9)?,
                key_is_gone: row.get(10)?,
                key_expires_at: maybe_time(row, 11)?,
            })
        };
        self.readers.read(move |conn| find_first(conn, &statement, [hash], of_row)).await
    }

    pub(crate) async fn end_session(
        &self,
        session: SessionId,
        only_apps: Option<Vec<AppId>>,
        by: Option<String>,
    ) -> Result<bool, Error> {
        self.writer.write(move |batch| end(batch, session, only_apps.as_deref(), by)).await
    }

    pub(crate) async fn sessions(
        &self,
        apps: Option<Vec<AppId>>,
        page: PageOf<TimeCursor<SessionId>>,
        at: jiff::Timestamp,
    ) -> Result<PageRows<SessionView>, Error> {
        self.readers.read(move |conn| list(conn, apps.as_deref(), page, at.as_millisecond())).await
    }
}

fn insert(
    batch: &Batch<'_>,
    session: &SessionView,
    hash: [u8; 32],
    actor: Option<&str>,
) -> Result<(), Error> {
    let apps = session.apps.as_ref().map(serde_json::to_string).transpose().map_err(|_| Error::Aborted)?;
    let statement =
        "INSERT INTO sessions (id, hash, user, apps, rights, actor, key, issuer, created_at, expires_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    batch.execute(
        statement,
        params![
            session.id.bytes(),
            hash,
            session.user,
            apps,
            session.rights.to_string(),
            actor,
            session.key.as_ref().map(KeyId::bytes),
            session.issuer,
            batch.at(),
            session.expires_at.as_millisecond()
        ],
    )
}

/// Ends the oldest sessions of a user who has more than a user may have.
fn end_surplus(batch: &Batch<'_>, user: &str) -> Result<Vec<SessionId>, Error> {
    let statement = "UPDATE sessions SET ended_at = ?2 WHERE id IN
                (SELECT id FROM sessions WHERE user = ?1 AND ended_at IS NULL
                    ORDER BY created_at DESC, id DESC LIMIT 9223372036854775807 OFFSET ?3)
                RETURNING id";
    let surplus = params![user, batch.at(), MAX_SESSIONS_PER_USER as i64];
    let ended: Vec<SessionId> = find_all(batch.conn(), statement, surplus, |row| id(row, 0))?;
    if !ended.is_empty() {
        batch.access_changes();
    }
    Ok(ended)
}

/// Ends a session. The audit notes when an admin ends the session of a user.
fn end(
    batch: &Batch<'_>,
    session: SessionId,
    only_apps: Option<&[AppId]>,
    by: Option<String>,
) -> Result<bool, Error> {
    let statement = format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?1");
    let found = find_first(batch.conn(), &statement, [session.bytes()], session_view)?;
    let Some(found) = found.filter(|found| are_within(found.apps.as_deref(), only_apps)) else {
        return Ok(false);
    };
    let statement = "UPDATE sessions SET ended_at = ?2 WHERE id = ?1 AND ended_at IS NULL";
    batch.access_changes();
    let ended = batch.count_changed(statement, params![session.bytes(), batch.at()])?;
    if let (1, Some(by)) = (ended, by) {
        let app =
            found.apps.as_deref().and_then(|apps| if let [only] = apps { Some(only.clone()) } else { None });
        let (kind, target) = (AuditKind::SessionEnded, session.to_string());
        let detail = json!({ "user": found.user, "apps": found.apps });
        admin_audit::append(batch, AdminAct { by, kind, app, target, detail })?;
    }
    Ok(true)
}

/// Forgets sessions that ended or expired more than a day ago, a bounded number of each. True when there were any.
pub(super) fn forget(batch: &Batch<'_>) -> Result<bool, Error> {
    let before = batch.at().saturating_sub(KEPT_AFTER_END_MS);
    let mut forgotten = 0;
    for statement in [
        "DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
        "DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ?1 ORDER BY ended_at LIMIT ?2)",
    ] {
        forgotten += batch.count_changed(statement, [before, MAX_FORGOTTEN])?;
    }
    Ok(forgotten > 0)
}

fn list(
    conn: &SqlConnection,
    apps: Option<&[AppId]>,
    page: PageOf<TimeCursor<SessionId>>,
    at: i64,
) -> Result<PageRows<SessionView>, Error> {
    let statement = format!(
        "SELECT {COLUMNS} FROM sessions s WHERE s.ended_at IS NULL AND s.expires_at > ?1
            AND (s.key IS NULL OR EXISTS (SELECT 1 FROM keys k WHERE k.id = s.key AND k.revoked_at IS NULL
                AND (k.expires_at IS NULL OR k.expires_at > ?1)))
            AND (s.created_at, s.id) < (?2, ?3)
            AND (CAST(?4 AS TEXT) IS NULL OR s.apps IS NOT NULL AND NOT EXISTS (SELECT 1 FROM json_each(s.apps) own
                WHERE own.value NOT IN (SELECT value FROM json_each(CAST(?4 AS TEXT)))))
            ORDER BY s.created_at DESC, s.id DESC LIMIT ?5"
    );
    let (before, last) = page_start(page.after.map(|cursor| (cursor.at, *cursor.id.bytes())));
    let apps = apps.map(serde_json::to_string).transpose().map_err(|_| Error::Aborted)?;
    let key = params![at, before, last, apps, one_more(page.limit)];
    find_page(conn, &statement, key, page.limit, session_view)
}

fn session_view(row: &SqlRow<'_>) -> Result<SessionView, Error> {
    let apps: Option<String> = row.get(2)?;
    Ok(SessionView {
        id: id(row, 0)?,
        user: text(row, 1)?,
        // A list that cannot be read allows no app.
        apps: apps.map(|apps| serde_json::from_str::<Vec<String>>(&apps).unwrap_or_default()),
        rights: rights(row, 3)?,
        key: maybe_id(row, 4)?,
        issuer: row.get(5)?,
        created_at: time(row, 6)?,
        expires_at: time(row, 7)?,
    })
}
