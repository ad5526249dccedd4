//! Profiles: which fields can be kept, and which version a change expects.

use serde_json::Value;

use crate::{Error, MAX_PROFILE_BYTES};

/// The free fields of a profile as they are stored. [`Error::Changed`] if they are no object, or too large.
pub fn stored_fields(fields: &Value) -> Result<String, Error> {
    let stored = match fields {
        Value::Null => "{}".to_owned(),
        Value::Object(_) => fields.to_string(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Error::Changed("the fields of a profile are an object".into()));
        }
    };
    if stored.len() > MAX_PROFILE_BYTES {
        let message = format!("the fields of a profile have at most {MAX_PROFILE_BYTES} bytes");
        return Err(Error::Changed(message));
    }
    Ok(stored)
}

/// Whether a change that expects a version of a profile comes in time.
pub fn check_profile_version(standing: u64, expected: u64) -> Result<(), Error> {
    if standing == expected {
        return Ok(());
    }
    Err(Error::Changed("the profile was changed meanwhile".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_an_object_of_a_bounded_size() {
        assert_eq!(stored_fields(&Value::Null).unwrap(), "{}");
        assert_eq!(stored_fields(&json!({ "team": "red" })).unwrap(), r#"{"team":"red"}"#);
        assert!(stored_fields(&json!(["red"])).is_err() && stored_fields(&json!("red")).is_err());
        assert!(stored_fields(&json!({ "team": "x".repeat(MAX_PROFILE_BYTES) })).is_err());
    }

    #[test]
    fn a_change_for_another_version_is_refused() {
        assert!(check_profile_version(3, 3).is_ok());
        assert!(check_profile_version(3, 2).is_err() && check_profile_version(0, 1).is_err());
    }
}
