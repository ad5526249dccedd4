//! The profile: what the user says of themselves to this app, as the model was told it.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use memory::{secrets, suspicion};
use serde_json::{Map, Value, json};
use store::{MAX_PROFILE_BYTES, ProfileRow, Write};

use super::{store_failure, text};
use crate::{Calling, Failed, Tool, ToolOutput};

/// Fields that a profile may have.
const MAX_FIELDS: usize = 64;

pub(crate) struct UpdateProfile;

#[async_trait]
impl Tool for UpdateProfile {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        let standing = calling.store.profile(calling.scope).await.map_err(store_failure)?;
        changed_profile(&standing, &calling.input).map(drop)
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let standing = calling.store.profile(calling.scope).await.map_err(store_failure)?;
        let profile = changed_profile(&standing, &calling.input)?;
        let ProfileRow { name, timezone, locale, fields, .. } = &profile;
        let output = json!({ "name": name, "timezone": timezone, "locale": locale, "fields": fields });
        Ok(ToolOutput::with_write(output, Write::Profile(profile)))
    }
}

/// The profile with what a call says, if that may stand there.
fn changed_profile(standing: &ProfileRow, input: &Value) -> Result<ProfileRow, Failed> {
    let wrong = |message: String| Failed::new("invalid_arguments", message);
    let said =
        |name: &str| text(input, name).map(|said| said.trim().to_owned()).filter(|said| !said.is_empty());
    let timezone = said("timezone").map(|name| {
        let zone = TimeZone::get(&name).ok().filter(|zone| !zone.is_unknown());
        let known = zone.as_ref().and_then(TimeZone::iana_name).map(str::to_owned);
        known.ok_or_else(|| wrong(format!("{name} is not a time zone; write one such as Europe/Lisbon")))
    });
    let profile = ProfileRow {
        name: said("name").or_else(|| standing.name.clone()),
        timezone: timezone.transpose()?.or_else(|| standing.timezone.clone()),
        locale: said("locale").or_else(|| standing.locale.clone()),
        fields: merged_fields(&standing.fields, input),
        ..standing.clone()
    };
    if profile == *standing {
        return Err(Failed::new("nothing_to_change", "the profile says so already"));
    }
    let all = profile.fields.to_string();
    let count = profile.fields.as_object().map_or(0, Map::len);
    if all.len() > MAX_PROFILE_BYTES || count > MAX_FIELDS {
        return Err(Failed::new("too_large", "the profile would be too large; remove a field first"));
    }
    let words = format!("{} {all}", profile.name.as_deref().unwrap_or_default());
    if let Some(secret) = secrets::find(&words) {
        let message = format!("it looks like {}, and secrets are not kept; do not try again", secret.kind);
        return Err(Failed::new("secret", message));
    }
    let values = profile.fields.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_str);
    if values.chain(profile.name.as_deref()).any(suspicion::is_instruction) {
        let message = "it is an instruction, not a fact about the user";
        return Err(Failed::new("not_a_fact", message));
    }
    Ok(profile)
}

/// The fields with what the call changes; null removes one.
fn merged_fields(standing: &Value, input: &Value) -> Value {
    let mut fields = standing.as_object().cloned().unwrap_or_default();
    for (name, value) in input.get("fields").and_then(Value::as_object).into_iter().flatten() {
        if value.is_null() {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    Value::Object(fields)
}
