//! Fields that hold ids of other records, as a schema declares them with `"format": "record:TYPE"`.

use app::RECORD_FORMAT;
use serde_json::Value;

/// A field that names a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The place, such as `/relationships/0/partId`.
    pub place: String,
    /// The type the record must be of.
    pub kind: &'a str,
    pub id: &'a str,
}

/// Every reference in the data, which need not fit the schema.
pub fn references<'a>(schema: &'a Value, data: &'a Value) -> Vec<Reference<'a>> {
    let mut found = Vec::new();
    collect(schema, data, "", &mut found);
    found
}

fn collect<'a>(schema: &'a Value, data: &'a Value, place: &str, found: &mut Vec<Reference<'a>>) {
    let format = schema.get("format").and_then(Value::as_str);
    let kind = format.and_then(|format| format.strip_prefix(RECORD_FORMAT));
    if let (Some(kind), Some(id)) = (kind, data.as_str()) {
        found.push(Reference { place: place.to_owned(), kind, id });
    }
    let inner = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    for (name, value) in data.as_object().into_iter().flatten() {
        if let Some(schema) = inner(name) {
            collect(schema, value, &format!("{place}/{name}"), found);
        }
    }
    for (index, value) in data.as_array().into_iter().flatten().enumerate() {
        if let Some(schema) = schema.get("items") {
            collect(schema, value, &format!("{place}/{index}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_at_any_depth_and_bad_data_is_no_trouble() {
        let id = json!({ "type": "string", "format": "record:part" });
        let schema = json!({ "properties": {
            "one": id,
            "many": { "items": id },
            "deep": { "items": { "properties": { "to": id } } },
            "date": { "type": "string", "format": "date" },
        }});
        let data =
            json!({ "one": "a", "many": ["b", 3], "deep": [{ "to": "c" }, "d"], "date": "e", "odd": "f" });
        let found = references(&schema, &data);
        let places: Vec<(&str, &str)> = found.iter().map(|found| (found.place.as_str(), found.id)).collect();
        assert_eq!(places, [("/one", "a"), ("/many/0", "b"), ("/deep/0/to", "c")]);
        assert!(found.iter().all(|found| found.kind == "part"));
        assert_eq!(references(&schema, &json!(null)), []);
    }
}
