//! Profiles: what users say of themselves, the same in every app.

use async_trait::async_trait;
use protocol::UserId;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::Sqlite;
use super::append::Batch;
use super::read::{maybe_time, text};
use crate::{Error, MAX_PROFILE_BYTES, ProfileRow, Profiles};

#[async_trait]
impl Profiles for Sqlite {
    async fn profile(&self, user: &UserId) -> Result<ProfileRow, Error> {
        let user = user.clone();
        self.readers.read(move |conn| find(conn, &user)).await
    }

    async fn put_profile(&self, user: &UserId, profile: ProfileRow) -> Result<ProfileRow, Error> {
        let user = user.clone();
        let work = move |batch: &mut Batch<'_>| {
            put(batch, &user, &profile)?;
            find(batch.conn(), &user)
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
    batch
        .conn()
        .prepare_cached(
            "INSERT INTO profiles (user, name, timezone, locale, fields, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                ON CONFLICT (user) DO UPDATE SET name = excluded.name, timezone = excluded.timezone,
                    locale = excluded.locale, fields = excluded.fields, updated_at = excluded.updated_at",
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
    let mut find = conn
        .prepare_cached("SELECT name, timezone, locale, fields, updated_at FROM profiles WHERE user = ?1")?;
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
    })
}
