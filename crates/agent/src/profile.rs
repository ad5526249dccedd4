//! The profile that an app is told of a user: what the user said to every app, and over it what they said to this one.

use app::App;
use jiff::tz::TimeZone;
use protocol::{AppId, Scope};
use serde_json::{Map, Value};
use store::{ProfileRow, Store};

/// Stands for every app.
pub const ALL_APPS: &str = "";

/// The profile that an app is told of a user.
pub(crate) async fn told_to_app(store: &Store, scope: &Scope) -> Result<ProfileRow, store::Error> {
    let all_apps = in_all_apps(scope);
    let (everywhere, here) = tokio::try_join!(store.profile(&all_apps), store.profile(scope))?;
    Ok(merge_profiles(everywhere, here))
}

/// The scope of the profile that a user has in all apps.
pub(crate) fn in_all_apps(scope: &Scope) -> Scope {
    Scope { app: AppId::new(ALL_APPS), user: scope.user.clone() }
}

/// The time zone of a user: their own, or the app's if they have none or one that does not exist.
pub(crate) fn zone_of(profile: &ProfileRow, app: &App) -> TimeZone {
    let own = profile.timezone.as_deref().and_then(|name| TimeZone::get(name).ok());
    own.unwrap_or_else(|| app.zone.clone())
}

/// The zone a user lives in, where the profile was not read yet; the app's zone if it cannot be read.
pub(crate) async fn zone_in_app(store: &Store, scope: &Scope, app: &App) -> TimeZone {
    match told_to_app(store, scope).await {
        Ok(profile) => zone_of(&profile, app),
        Err(error) => {
            tracing::warn!(%error, "a profile was not read; the app's time zone is used");
            app.zone.clone()
        }
    }
}

/// One profile with what another says over it.
pub(crate) fn merge_profiles(below: ProfileRow, above: ProfileRow) -> ProfileRow {
    let mut fields = if let Value::Object(fields) = below.fields { fields } else { Map::new() };
    if let Value::Object(own) = above.fields {
        fields.extend(own);
    }
    ProfileRow {
        name: above.name.or(below.name),
        timezone: above.timezone.or(below.timezone),
        locale: above.locale.or(below.locale),
        fields: Value::Object(fields),
        updated_at: above.updated_at.max(below.updated_at),
        version: above.version + below.version, // grows whichever changes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_said_to_one_app_counts_before_what_was_said_to_all() {
        let all = ProfileRow {
            name: Some("Ada".into()),
            locale: Some("pt".into()),
            fields: json!({ "team": "blue", "age": 7 }),
            ..ProfileRow::default()
        };
        let one = ProfileRow {
            name: Some("Dr Ada".into()),
            timezone: Some("UTC".into()),
            fields: json!({ "team": "red", "pet": "cat" }),
            ..ProfileRow::default()
        };
        let told = merge_profiles(all.clone(), one.clone());
        assert_eq!(
            told,
            ProfileRow {
                name: one.name,
                timezone: one.timezone,
                locale: all.locale.clone(),
                fields: json!({ "team": "red", "age": 7, "pet": "cat" }),
                ..ProfileRow::default()
            }
        );
        assert_eq!(merge_profiles(all.clone(), ProfileRow::default()), all);
    }
}
