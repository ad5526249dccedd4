//! Whether a JSON Schema is one that strict providers hold an answer to.

use serde_json::Value;

/// Keywords that strict providers refuse.
const REFUSED: [&str; 13] = [
    "allOf",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedProperties",
];

/// Keywords of which each part has at least one.
const TELLING: [&str; 5] = ["type", "enum", "const", "anyOf", "$ref"];

/// Whether every object of the schema is closed and requires all of its properties, and no keyword is refused.
pub fn is_strict_schema(schema: &Value) -> bool {
    schema.get("type") == Some(&"object".into()) && schema.get("anyOf").is_none() && is_strict_part(schema)
}

/// How deep a schema nests is bounded where it comes in.
fn is_strict_part(part: &Value) -> bool {
    let Value::Object(keywords) = part else { return false };
    if REFUSED.iter().any(|refused| keywords.contains_key(*refused))
        || !TELLING.iter().any(|telling| keywords.contains_key(*telling))
    {
        return false;
    }
    let named =
        |name: &str| keywords.get(name).and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    let inner = named("properties").chain(named("$defs")).chain(named("definitions"));
    let any = keywords.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    is_closed_and_whole(part) && inner.chain(any).chain(keywords.get("items")).all(is_strict_part)
}

/// Whether the part is no object, or one that is closed and requires all of its properties.
fn is_closed_and_whole(part: &Value) -> bool {
    let is_object = match part.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
        None => false,
    };
    let properties = part.get("properties").and_then(Value::as_object);
    if !is_object && properties.is_none() {
        return true;
    }
    let required = part.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
    part.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_none_or(|properties| properties.keys().all(is_required))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn closed(properties: &Value) -> Value {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
    }

    #[test]
    fn a_schema_is_strict_if_every_object_is_closed_and_whole() {
        let part = closed(&json!({ "name": { "type": ["string", "null"] } }));
        let mut whole = closed(&json!({
            "a": { "$ref": "#/$defs/part" },
            "b": { "type": "array", "items": { "anyOf": [part, { "type": "null" }] } },
            "c": { "enum": ["x", 1] },
        }));
        whole["$defs"] = json!({ "part": part });
        assert!(is_strict_schema(&whole));
        for loose in [
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": false }),
            closed(&json!({ "a": {} })),
            closed(&json!({ "a": true })),
            closed(&json!({ "a": { "type": "object" } })),
            closed(&json!({ "a": { "type": ["object", "null"] } })),
            closed(&json!({ "a": { "anyOf": [{ "type": "object", "properties": {} }] } })),
            closed(&json!({ "a": { "oneOf": [{ "type": "string" }] } })),
            closed(&json!({ "a": { "type": "array", "items": { "type": "object" } } })),
            json!({ "type": "string" }),
            json!({ "anyOf": [closed(&json!({}))] }),
        ] {
            assert!(!is_strict_schema(&loose), "{loose}");
        }
    }
}
