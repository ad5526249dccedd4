//! The part of JSON Schema that providers take which hold an answer to a schema.

use serde_json::Value;

use super::{Object, RequestCheck, object, refuse};

/// How deep a schema may nest at OpenAI.
const MAX_DEPTH: usize = 10;

const NOT_AT_OPENAI: [&str; 11] = [
    "allOf",
    "default",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "patternProperties",
    "then",
    "uniqueItems",
];
const NOT_AT_ANTHROPIC: [&str; 20] = [
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "patternProperties",
    "then",
    "uniqueItems",
];

/// Describes an object: all that is asked of a tool's parameters.
pub(super) fn of_object(schema: &Value, place: &str) -> RequestCheck {
    if schema.get("type").is_some_and(|kind| kind == "object") {
        return Ok(());
    }
    refuse(format!("Invalid schema for '{place}': schema must be of 'type: \"object\"'."))
}

/// OpenAI's strict mode: closed objects with every property required.
pub(super) fn as_openai(schema: &Value, place: &str) -> RequestCheck {
    of_object(schema, place)?;
    check_nested(schema, place, MAX_DEPTH, &|schema, place| {
        check_keywords(schema, place, &NOT_AT_OPENAI)?;
        if !["type", "$ref", "anyOf", "enum", "const"].iter().any(|key| schema.contains_key(*key)) {
            return refuse(format!("Invalid schema for '{place}': schema must have a 'type' key."));
        }
        if schema.get("enum").is_some_and(|values| values.as_array().is_none_or(Vec::is_empty)) {
            return refuse(format!("Invalid schema for '{place}': 'enum' must have at least one value."));
        }
        if !is_object(schema) {
            return Ok(());
        }
        check_closed(schema, place)?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut names: Vec<&str> =
            properties.into_iter().flat_map(Object::keys).map(String::as_str).collect();
        let required = schema.get("required").and_then(Value::as_array);
        let mut required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        names.sort_unstable();
        required.sort_unstable();
        if names == required {
            return Ok(());
        }
        refuse(format!(
            "Invalid schema for '{place}': 'required' is required to be supplied and to be an array including every \
             key in properties."
        ))
    })
}

/// Anthropic's structured output: closed objects, and no bounds on sizes.
pub(super) fn as_anthropic(schema: &Value, place: &str) -> RequestCheck {
    check_nested(schema, place, usize::MAX, &|schema, place| {
        check_keywords(schema, place, &NOT_AT_ANTHROPIC)?;
        if schema.get("minItems").is_some_and(|least| !matches!(least.as_u64(), Some(0 | 1))) {
            return refuse(format!("{place}: 'minItems' values other than 0 or 1 are not supported"));
        }
        if is_object(schema) { check_closed(schema, place) } else { Ok(()) }
    })
}

fn is_object(schema: &Object) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => schema.contains_key("properties"),
    }
}

fn check_closed(schema: &Object, place: &str) -> RequestCheck {
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        return Ok(());
    }
    refuse(format!(
        "Invalid schema for '{place}': 'additionalProperties' is required to be supplied and to be false."
    ))
}

fn check_keywords(schema: &Object, place: &str, refused: &[&str]) -> RequestCheck {
    match refused.iter().find(|keyword| schema.contains_key(**keyword)) {
        Some(keyword) => refuse(format!("Invalid schema for '{place}': '{keyword}' is not permitted.")),
        None => Ok(()),
    }
}

/// Checks this schema and all within it.
fn check_nested(
    schema: &Value,
    place: &str,
    depth: usize,
    check: &dyn Fn(&Object, &str) -> RequestCheck,
) -> RequestCheck {
    let Some(deeper) = depth.checked_sub(1) else {
        return refuse(format!("Invalid schema for '{place}': it nests too deep."));
    };
    let schema = object(schema, place)?;
    check(schema, place)?;
    for key in ["properties", "$defs", "definitions"] {
        for (name, inner) in schema.get(key).and_then(Value::as_object).into_iter().flatten() {
            check_nested(inner, &format!("{place}.{key}.{name}"), deeper, check)?;
        }
    }
    for key in ["anyOf", "allOf"] {
        for inner in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            check_nested(inner, &format!("{place}.{key}"), deeper, check)?;
        }
    }
    match schema.get("items") {
        Some(items) => check_nested(items, &format!("{place}.items"), deeper, check),
        None => Ok(()),
    }
}
