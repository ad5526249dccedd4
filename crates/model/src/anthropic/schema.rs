//! JSON Schema as the provider takes it for an answer.

use serde_json::Value;

/// Keywords it refuses. The caller checks the answer against the whole schema.
const REFUSED: &str = "contains dependentRequired dependentSchemas else exclusiveMaximum exclusiveMinimum if \
    maxContains maxItems maxLength maxProperties maximum minContains minLength minProperties \
    minimum multipleOf not pattern patternProperties propertyNames then uniqueItems";

/// The most items a list can be made to have.
const MOST_MIN_ITEMS: u64 = 1;

/// The schema without the keywords that are refused, wherever a schema stands in it.
pub(super) fn accepted_schema(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    let is_taken = |keyword: &str, value: &Value| match keyword {
        "minItems" => value.as_u64().is_some_and(|least| least <= MOST_MIN_ITEMS),
        _ => !REFUSED.split(' ').any(|refused| refused == keyword),
    };
    let kept = keywords.iter().filter(|(keyword, value)| is_taken(keyword, value));
    kept.map(|(keyword, value)| (accepted_keyword(keyword).to_owned(), accepted_value(keyword, value)))
        .collect()
}

/// One of several is refused, but any of several says nearly the same.
fn accepted_keyword(keyword: &str) -> &str {
    if keyword == "oneOf" { "anyOf" } else { keyword }
}

/// A keyword's value. A value that stands for itself, such as an enumeration, is left alone even if it looks like a
/// schema.
fn accepted_value(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties" | "$defs" | "definitions", Value::Object(named)) => {
            named.iter().map(|(name, schema)| (name.clone(), accepted_schema(schema))).collect()
        }
        ("anyOf" | "allOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
            schemas.iter().map(accepted_schema).collect()
        }
        ("items" | "additionalProperties", schema) => accepted_schema(schema),
        _ => value.clone(),
    }
}
