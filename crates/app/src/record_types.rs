//! Record types of an app, each a JSON Schema, and the target ranges of their fields.

use serde_json::{Map, Value};

/// The `format` of a field that holds the id of a record begins so; the record's type follows.
pub const RECORD_FORMAT: &str = "record:";

/// A validator for the schema of a record type. It also checks the formats `date` and `date-time`.
pub fn record_validator(
    schema: &Value,
) -> Result<jsonschema::Validator, Box<jsonschema::ValidationError<'static>>> {
    let is_date = |text: &str| text.parse::<jiff::civil::Date>().is_ok() && text.len() == "2026-01-01".len();
    // Without an offset it is a time in the user's zone.
    let is_time = |text: &str| {
        text.contains([':'])
            && (text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::DateTime>().is_ok())
    };
    let options = jsonschema::options().should_validate_formats(true);
    let options = options.with_format("date", is_date).with_format("date-time", is_time);
    options.build(schema).map_err(|error| Box::new(error.to_owned()))
}

/// The schema of one type of records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordType {
    /// The file's name.
    pub name: String,
    /// A JSON Schema of a closed object.
    pub schema: Value,
}

impl RecordType {
    /// A validator for records of this type.
    pub fn validator(&self) -> Result<jsonschema::Validator, Box<jsonschema::ValidationError<'static>>> {
        record_validator(&self.schema)
    }

    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    pub fn property(&self, name: &str) -> Option<&Value> {
        self.schema.get("properties")?.get(name)
    }

    /// Whether every record of this type has the field.
    pub fn requires(&self, field: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }

    /// The name that people use for such a record.
    pub fn title(&self) -> &str {
        self.schema.get("title").and_then(Value::as_str).unwrap_or(&self.name)
    }
}

/// A range that a field of some records should be in. One end may be open.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetRange {
    /// One of the app's record types.
    pub record: String,
    /// The field that is held against it.
    pub field: String,
    /// Values that a record must have for this target to apply.
    pub matching: Map<String, Value>,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dates_and_times_of_records_are_dates_and_times() {
        let schema = json!({ "properties": {
            "at": { "type": "string", "format": "date-time" },
            "on": { "type": "string", "format": "date" },
            "who": { "type": "string", "format": "record:patient" },
        } });
        let validator = record_validator(&schema).unwrap();
        for good in
            ["2026-11-16T08:00:00-05:00", "2026-11-16T08:00:00Z", "2026-11-16T08:00", "2026-11-16 08:00"]
        {
            assert!(validator.is_valid(&json!({ "at": good })), "{good}");
        }
        for bad in ["8:00 this morning", "yesterday", "2026-13-45T99:00:00Z", "2026-11-16", ""] {
            assert!(!validator.is_valid(&json!({ "at": bad })), "{bad}");
        }
        assert!(validator.is_valid(&json!({ "on": "2026-02-28", "who": "anybody" })));
        for bad in ["until Friday", "2026-02-30", "2026-11-16T08:00:00Z"] {
            assert!(!validator.is_valid(&json!({ "on": bad })), "{bad}");
        }
    }
}
