//! Profiles as clients ask for them: with a key for all apps to every app, with a key for one app
//! to that one. An app is told both, and what was said to it alone counts first.

use std::collections::BTreeMap;

use agent::ALL_APPS;
use jiff::tz::TimeZone;
use protocol::{AppId, Principal, ProfilePatch, ProfileView, Scope};
use serde_json::{Map, Value};
use store::{IdempotencyClaim, MAX_PROFILE_BYTES, ProfileRow};

use crate::{Error, Service, checks};

/// Fields of a profile beside those that every profile has.
const MAX_FIELDS: usize = 64;

/// Times a change is made again because of another that came first.
const MAX_TRIES: usize = 8;

/// Bytes of a field's name.
const MAX_FIELD_BYTES: usize = 64;

/// Characters of a locale, and of each of its parts.
const MAX_LOCALE_CHARS: usize = 35;
const MAX_PART_CHARS: usize = 8;

impl Service {
    /// The profile for all apps, or for one of them.
    pub async fn profile(&self, principal: &Principal, app: Option<&str>) -> Result<ProfileView, Error> {
        Ok(view(principal, self.store().profile(&self.profile_scope(principal, app)?).await?))
    }

    /// Changes what the patch names. Another change that comes in between is not lost.
    pub async fn change_profile(
        &self,
        principal: &Principal,
        app: Option<&str>,
        patch: ProfilePatch,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProfileView, Error> {
        let ProfilePatch { name, timezone, locale, fields } = patch;
        let name = name.map(|name| name.as_deref().map(checks::name).transpose()).transpose()?;
        let timezone = timezone.map(|name| name.as_deref().map(zone).transpose()).transpose()?;
        let locale = locale.map(|name| name.as_deref().map(good_locale).transpose()).transpose()?;
        let scope = self.profile_scope(principal, app)?;
        for _ in 0..MAX_TRIES {
            let row = self.store().profile(&scope).await?;
            let changed = ProfileRow {
                name: name.clone().unwrap_or(row.name),
                timezone: timezone.clone().unwrap_or(row.timezone),
                locale: locale.clone().unwrap_or(row.locale),
                fields: merge_profile(row.fields, fields.clone())?,
                ..row
            };
            match self.store().put_profile(&scope, changed, once.clone()).await {
                Err(store::Error::Changed(_)) => {}
                put => {
                    let row = put?;
                    self.world().sweeper.sweep(); // what it said before is in no file any more
                    return Ok(view(principal, row));
                }
            }
        }
        let message = "other requests are changing the profile; send this one again".to_owned();
        Err(Error::Unavailable { message, retry_after: 1 })
    }

    /// To whom a user speaks of themselves: to the app that is named, or to those the key is for. Other apps are neither
    /// told nor asked by a key that is for one.
    fn profile_scope(&self, principal: &Principal, app: Option<&str>) -> Result<Scope, Error> {
        let named =
            app.map(|app| Ok::<_, Error>(self.served_app(principal, app)?.app.id.clone())).transpose()?;
        // Access to some apps says nothing to the others.
        if named.is_none() && principal.apps().is_some_and(|apps| apps.len() != 1) {
            return Err(Error::invalid(
                "app",
                "is missing; your access is limited, so name one of your apps: ?app=NAME",
            ));
        }
        let app = named.or_else(|| principal.only_app().cloned()).unwrap_or_else(|| AppId::new(ALL_APPS));
        Ok(principal.scope(app))
    }
}

/// A time zone by the name that the database of zones has for it.
fn zone(name: &str) -> Result<String, Error> {
    let found = TimeZone::get(name).ok().filter(|zone| !zone.is_unknown());
    found.as_ref().and_then(TimeZone::iana_name).map(str::to_owned).ok_or_else(|| {
        Error::invalid("timezone", "is not a known time zone; send a name such as Europe/Lisbon")
    })
}

/// A language, and what narrows it, with dashes between.
fn good_locale(locale: &str) -> Result<String, Error> {
    let is_part = |part: &str| {
        (1..=MAX_PART_CHARS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let language = locale.split('-').next().unwrap_or_default();
    let is_language = language.len() > 1 && language.bytes().all(|byte| byte.is_ascii_alphabetic());
    if locale.len() <= MAX_LOCALE_CHARS && is_language && locale.split('-').all(is_part) {
        return Ok(locale.to_owned());
    }
    Err(Error::invalid("locale", "must be a language such as en, or with its region such as pt-PT"))
}

fn merge_profile(current: Value, changes: BTreeMap<String, Value>) -> Result<Value, Error> {
    let mut fields = if let Value::Object(fields) = current { fields } else { Map::new() };
    for (name, value) in changes {
        if value.is_null() {
            fields.remove(&name);
        } else if name.is_empty() || name.len() > MAX_FIELD_BYTES || name.chars().any(char::is_control) {
            let message = format!("each name must be one line of 1 to {MAX_FIELD_BYTES} bytes");
            return Err(Error::invalid("fields", message));
        } else {
            fields.insert(name, value);
        }
    }
    if fields.len() > MAX_FIELDS {
        return Err(Error::invalid("fields", format!("must have at most {MAX_FIELDS} entries")));
    }
    let fields = Value::Object(fields);
    if fields.to_string().len() > MAX_PROFILE_BYTES {
        return Err(Error::TooLarge { field: "fields", limit: MAX_PROFILE_BYTES });
    }
    Ok(fields)
}

fn view(principal: &Principal, row: ProfileRow) -> ProfileView {
    let fields = if let Value::Object(fields) = row.fields { fields } else { Map::new() };
    ProfileView {
        user_id: principal.user().to_string(),
        name: row.name,
        timezone: row.timezone,
        locale: row.locale,
        fields: fields.into_iter().collect(),
        updated_at: row.updated_at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(value: Value) -> BTreeMap<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_zone_is_one_that_is_known() {
        for (given, known) in
            [("Europe/Lisbon", "Europe/Lisbon"), ("europe/lisbon", "Europe/Lisbon"), ("UTC", "UTC")]
        {
            assert_eq!(zone(given).unwrap(), known);
        }
        for wrong in
            ["", "Lisbon", "Europe/Atlantis", "+01:00", "Etc/Unknown", "../etc/passwd", "Europe/Lisbon "]
        {
            assert!(matches!(zone(wrong), Err(Error::Invalid { field: "timezone", .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_locale_is_a_language_and_what_narrows_it() {
        for good in ["en", "pt-PT", "zh-Hant-TW", "de-1996", "es-419", "sl-rozaj-biske"] {
            assert_eq!(good_locale(good).unwrap(), good);
        }
        let long = format!("en{}", "-abcdefgh".repeat(4));
        for wrong in ["", "e", "pt_PT", "pt-", "-pt", "pt--PT", "12-de", "en-abcdefghi", "en US", "ру", &long]
        {
            assert!(matches!(good_locale(wrong), Err(Error::Invalid { field: "locale", .. })), "{wrong:?}");
        }
    }

    #[test]
    fn fields_change_one_by_one_and_null_removes() {
        let current = json!({ "team": "blue", "age": 7 });
        let fields =
            merge_profile(current, changes(json!({ "team": null, "pets": ["cat"], "gone": null }))).unwrap();
        assert_eq!(fields, json!({ "age": 7, "pets": ["cat"] }));
        assert_eq!(merge_profile(Value::Null, changes(json!({ "a": 1 }))).unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn fields_have_bounds() {
        let numbered = |count: usize| (0..count).map(|n| (format!("f{n}"), json!(n))).collect();
        merge_profile(json!({}), numbered(MAX_FIELDS)).unwrap();
        assert!(matches!(
            merge_profile(json!({}), numbered(MAX_FIELDS + 1)),
            Err(Error::Invalid { field: "fields", .. })
        ));
        let around = r#"{"a":""}"#.len();
        let long = |bytes: usize| changes(json!({ "a": "x".repeat(bytes - around) }));
        merge_profile(json!({}), long(MAX_PROFILE_BYTES)).unwrap();
        assert!(matches!(
            merge_profile(json!({}), long(MAX_PROFILE_BYTES + 1)),
            Err(Error::TooLarge { field: "fields", .. })
        ));
        for name in [String::new(), "a\nb".into(), "n".repeat(MAX_FIELD_BYTES + 1)] {
            let change = BTreeMap::from([(name, json!(1))]);
            assert!(matches!(merge_profile(json!({}), change), Err(Error::Invalid { field: "fields", .. })));
        }
    }
}
