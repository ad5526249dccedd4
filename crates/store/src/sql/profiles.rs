//! Profiles: what users say of themselves, to all apps or to one.

use crate::sql::{SqlConnection, SqlRow, params};
use protocol::Scope;
use serde_json::{Value, json};
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, find_first, maybe_time, text};
use super::{RowsOf, SqlStore, erasures, idempotency, texts};
use crate::rules::erasure::{self, DeletedBy};
use crate::rules::profiles::{check_profile_version, stored_fields};
use crate::rules::undo::is_as_left;
use crate::{AppliedChange, Error, IdempotencyClaim, ProfileRow};

impl SqlStore {
    pub(crate) async fn profile(&self, scope: &Scope) -> Result<ProfileRow, Error> {
        let rows = RowsOf::user(&scope.user);
        let scope = scope.clone();
        self.readers.read_for(rows, move |conn| find(conn, &scope)).await
    }

    pub(crate) async fn put_profile(
        &self,
        scope: &Scope,
        profile: ProfileRow,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProfileRow, Error> {
        let scope = scope.clone();
        let work = move |batch: &mut Batch<'_>| {
            if idempotency::claim(batch, &scope, once.as_ref(), Uuid::nil())?.is_none() {
                put(batch, &scope, &profile)?;
                // Texts of calls about the profile are the user's to take away, too.
                erasures::note_deletion(batch, &scope, erasure::PROFILE, DeletedBy::User)?;
            }
            find(batch.conn(), &scope)
        };
        self.writer.write(work).await
    }
}

/// Replaces the profile by that of a call, if it still has the version that the call names.
pub(super) fn write(batch: &Batch<'_>, scope: &Scope, profile: &ProfileRow) -> Result<AppliedChange, Error> {
    let standing = find(batch.conn(), scope)?;
    put(batch, scope, profile)?;
    Ok(AppliedChange::Profile { before: profile_json(&standing), version: profile.version.saturating_add(1) })
}

/// Puts back what an action has changed, if it still is as the action has left it.
pub(super) fn restore(
    batch: &Batch<'_>,
    scope: &Scope,
    before: &Value,
    left: u64,
) -> Result<Option<AppliedChange>, Error> {
    let standing = find(batch.conn(), scope)?;
    if !is_as_left(standing.version, left) {
        return Ok(None);
    }
    write(batch, scope, &ProfileRow { version: left, ..as_said(before) }).map(Some)
}

/// All that a profile says.
pub(super) fn profile_json(profile: &ProfileRow) -> Value {
    let ProfileRow { name, timezone, locale, fields, .. } = profile;
    json!({ "name": name, "timezone": timezone, "locale": locale, "fields": fields })
}

fn as_said(said: &Value) -> ProfileRow {
    let text = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
    ProfileRow {
        name: text("name"),
        timezone: text("timezone"),
        locale: text("locale"),
        fields: said.get("fields").cloned().unwrap_or_default(),
        ..ProfileRow::default()
    }
}

fn put(batch: &Batch<'_>, scope: &Scope, profile: &ProfileRow) -> Result<(), Error> {
    let fields = stored_fields(&profile.fields)?;
    check_profile_version(find(batch.conn(), scope)?.version, profile.version)?;
    // The earlier profile is the user's to take away, from kept prompts too.
    texts::drop_profiles(batch, scope.user.as_str())?;
    batch.note_removed()?;
    let statement = "INSERT INTO profiles (app, user, name, timezone, locale, fields, updated_at, version)
                VALUES (?7, ?1, ?2, ?3, ?4, ?5, ?6, 1)
                ON CONFLICT (app, user) DO UPDATE SET name = excluded.name, timezone = excluded.timezone,
                    locale = excluded.locale, fields = excluded.fields, updated_at = excluded.updated_at,
                    version = profiles.version + 1";
    batch.execute(
        statement,
        params![
            scope.user.as_str(),
            profile.name,
            profile.timezone,
            profile.locale,
            fields,
            batch.at(),
            scope.app.as_str()
        ],
    )
}

pub(super) fn find(conn: &SqlConnection, scope: &Scope) -> Result<ProfileRow, Error> {
    let statement = "SELECT name, timezone, locale, fields, updated_at, version FROM profiles WHERE app = ?2 AND user = ?1";
    let nothing = || ProfileRow { fields: Value::Object(serde_json::Map::new()), ..ProfileRow::default() };
    Ok(find_first(conn, statement, [scope.user.as_str(), scope.app.as_str()], profile_row)?
        .unwrap_or_else(nothing))
}

fn profile_row(row: &SqlRow<'_>) -> Result<ProfileRow, Error> {
    Ok(ProfileRow {
        name: row.get(0)?,
        timezone: row.get(1)?,
        locale: row.get(2)?,
        fields: serde_json::from_str(&text(row, 3)?).unwrap_or_default(),
        updated_at: maybe_time(row, 4)?,
        version: count(row, 5)?,
    })
}
