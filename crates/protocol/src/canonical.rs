//! One spelling for equal JSON, to be hashed and compared: compact, with the fields of every object in order.

use serde_json::Value;

/// The JSON of a value. It does not depend on the order of the fields, nor on how maps are kept in memory.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_spelling() {
        let one: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "\n"}], "a": 1.50}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":1.5,"b":[1,{"x":"\u000a","y":null}]}"#).unwrap();
        assert_eq!(canonical(&one), r#"{"a":1.5,"b":[1,{"x":"\n","y":null}]}"#);
        assert_eq!(canonical(&one), canonical(&other));
        assert_ne!(canonical(&one), canonical(&Value::Null));
    }
}
