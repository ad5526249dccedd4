//! Arguments of calls: which a small model may write, and which of them it made up.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Optional parameters that a small model may fill.
const MAX_OPTIONAL: usize = 6;
const SIMPLE_TYPES: [&str; 3] = ["string", "integer", "number"];
/// Letters of a word that can show where a value comes from.
const MIN_WORD: usize = 2;

/// The schema with the parameters that are required, and a few simple ones of the others.
pub(crate) fn simple_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let required = required(&schema);
    let mut optional = 0;
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, property| {
            let is_simple =
                property.get("type").and_then(Value::as_str).is_some_and(|kind| SIMPLE_TYPES.contains(&kind));
            let is_optional = !required.contains(name);
            optional += usize::from(is_optional && is_simple);
            !is_optional || (is_simple && optional <= MAX_OPTIONAL)
        });
    }
    schema
}

/// The arguments without optional values that the message does not mention.
pub(super) fn without_inventions(arguments: Value, schema: &Value, message: &str) -> Value {
    let Value::Object(fields) = arguments else { return Value::Object(Map::new()) };
    let required = required(schema);
    let said = words(message);
    let is_kept = |name: &str, value: &Value| required.contains(name) || is_said(value, &said, message);
    fields.into_iter().filter(|(name, value)| is_kept(name, value)).collect::<Map<String, Value>>().into()
}

fn required(schema: &Value) -> BTreeSet<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_said(value: &Value, said: &BTreeSet<String>, message: &str) -> bool {
    match value {
        Value::String(text) => words(text).iter().any(|word| said.contains(word)),
        Value::Number(number) => message.contains(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() >= MIN_WORD).collect()
}
