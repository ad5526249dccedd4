//! Profiles: what users say of themselves, the same in every app.

use async_trait::async_trait;
use protocol::{AppId, Scope, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;
use uuid::Uuid;

use super::append::Batch;
use super::read::{count, maybe_time, text};
use super::{Sqlite, once};
use crate::{Error, MAX_PROFILE_BYTES, Once, ProfileRow, Profiles};

#[async_trait]
impl Profiles for Sqlite {
    async fn profile(&self, user: &UserId) -> Result<ProfileRow, Error> {
        let user = user.clone();
        self.readers.read(move |conn| find(conn, &user)).await
    }

    async fn put_profile(
        &self,
        user: &UserId,
        profile: ProfileRow,
        once: Option<Once>,
    ) -> Result<ProfileRow, Error> {
        // It is no app's, so its keys are none's either.
        let scope = Scope { app: AppId::new(""), user: user.clone() };
        let work = move |batch: &mut Batch<'_>| {
            if once::earlier(batch, &scope, once.as_ref())?.is_none() {
                put(batch, &scope.user, &profile)?;
                once::remember(batch, &scope, once.as_ref(), Uuid::nil())?;
            }
            find(batch.conn(), &scope.user)
        };
        self.writer.write(work).await
    }
}

fn put(batch: &Batch<'_>, user: &UserId, profile: &ProfileRow) -> Result<(), Error> {
    let fields = match &profile.fields {
        Value::Null => "{}".to_owned(),
        fields @ Value::Object(_) => fields.to_string(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Error::Changed("the fields of a profile are an object".into()));
        }
    };
    if fields.len() > MAX_PROFILE_BYTES {
        let message = format!("the fields of a profile have at most {MAX_PROFILE_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    if find(batch.conn(), user)?.version != profile.version {
        return Err(Error::Changed("the profile was changed meanwhile".into()));
    }
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO profiles (user, name, timezone, locale, fields, updated_at, version)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
                ON CONFLICT (user) DO UPDATE SET name = excluded.name, timezone = excluded.timezone,
                    locale = excluded.locale, fields = excluded.fields, updated_at = excluded.updated_at,
                    version = version + 1",
        )?
        .execute(params![
            user.as_str(),
            profile.name,
            profile.timezone,
            profile.locale,
            fields,
            batch.at()
        ])?;
    Ok(())
}

fn find(conn: &Connection, user: &UserId) -> Result<ProfileRow, Error> {
    let mut find = conn.prepare_cached(
        "SELECT name, timezone, locale, fields, updated_at, version FROM profiles WHERE user = ?1",
    )?;
    let nothing = || ProfileRow { fields: Value::Object(serde_json::Map::new()), ..ProfileRow::default() };
    Ok(find.query_row([user.as_str()], profile_row).optional()?.unwrap_or_else(nothing))
}

fn profile_row(row: &Row<'_>) -> rusqlite::Result<ProfileRow> {
    Ok(ProfileRow {
        name: row.get(0)?,
        timezone: row.get(1)?,
        locale: row.get(2)?,
        fields: serde_json::from_str(&text(row, 3)?).unwrap_or_default(),
        updated_at: maybe_time(row, 4)?,
        version: count(row, 5)?,
    })
}
