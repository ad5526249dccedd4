//! The size of a JSON Schema with every reference replaced by what it refers to: what checking a value against it can cost.

use std::collections::HashMap;

use serde_json::Value;

/// Values of a schema with its references replaced.
const MAX_VALUES: u64 = 10_000;

/// Whether the schema of a stranger can be checked in bounded time. References that double at each level, or that lead
/// back to themselves, cost more time than a caller waits.
pub(crate) fn check_schema_size(schema: &Value) -> Result<(), String> {
    let mut sizes = Sizes { schema, known: HashMap::new() };
    match sizes.of(schema)? {
        size if size <= MAX_VALUES => Ok(()),
        _ => Err(format!("have at most {MAX_VALUES} values with all references replaced; use fewer `$ref`")),
    }
}

struct Sizes<'s> {
    schema: &'s Value,
    /// By reference; none while it is being counted.
    known: HashMap<&'s str, Option<u64>>,
}

impl<'s> Sizes<'s> {
    fn of(&mut self, value: &'s Value) -> Result<u64, String> {
        let mut size = 1_u64;
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let more = match (name.as_str(), field) {
                        ("$ref", Value::String(to)) => self.referenced_size(to)?,
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(format!("have no `{name}`; use `$ref`"));
                        }
                        _ => self.of(field)?,
                    };
                    size = size.saturating_add(more);
                }
            }
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.of(item)?);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(size)
    }

    /// The size of what a reference refers to.
    fn referenced_size(&mut self, to: &'s str) -> Result<u64, String> {
        match self.known.get(to) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(format!("have no reference that leads back to itself, such as {to:?}")),
            None => {}
        }
        let target = to.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
        let target = target
            .ok_or_else(|| format!("refer only to their own parts, such as \"#/$defs/x\", not to {to:?}"))?;
        self.known.insert(to, None);
        let size = self.of(target)?;
        self.known.insert(to, Some(size));
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn an_ordinary_schema_is_small_enough() {
        let part = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let schema = json!({ "type": "object", "$defs": { "part": part },
            "properties": { "a": { "$ref": "#/$defs/part" }, "b": { "$ref": "#/$defs/part" } } });
        assert_eq!(check_schema_size(&schema), Ok(()));
    }

    #[test]
    fn references_that_double_at_each_level_are_refused() {
        let level = |to: usize| json!({ "allOf": [{ "$ref": format!("#/$defs/a{to}") }, { "$ref": format!("#/$defs/a{to}") }] });
        let mut levels: Map<String, Value> = (0..60).map(|at| (format!("a{at}"), level(at + 1))).collect();
        levels.insert("a60".into(), json!({ "type": "object" }));
        let schema = json!({ "type": "object", "$defs": levels, "allOf": [{ "$ref": "#/$defs/a0" }] });
        assert!(check_schema_size(&schema).unwrap_err().contains("10000"));
    }

    #[test]
    fn references_to_themselves_or_elsewhere_are_refused() {
        let back = json!({ "type": "object", "properties": { "a": { "$ref": "#" } } });
        assert!(check_schema_size(&back).unwrap_err().contains("back to itself"));
        for to in ["http://127.0.0.1/x", "file:///etc/passwd", "other.json", "#/$defs/none"] {
            let schema = json!({ "type": "object", "properties": { "a": { "$ref": to } } });
            assert!(check_schema_size(&schema).unwrap_err().contains("own parts"), "{to}");
        }
        let dynamic = json!({ "type": "object", "properties": { "a": { "$dynamicRef": "#x" } } });
        assert!(check_schema_size(&dynamic).is_err());
    }
}
