//! Records as the templates of sections see them.

use std::collections::BTreeMap;

use minijinja::Value;
use serde_json::Value as Json;

/// Nesting of a record beyond which nothing is shown.
pub(super) const MAX_RECORD_DEPTH: usize = 16;

/// A record as templates see it. Null counts as absent, and a text stays on its line: a record must
/// not be able to look like lines of the prompt.
pub(super) fn record_value(json: &Json, depth: usize) -> Value {
    if depth == 0 {
        return Value::UNDEFINED;
    }
    match json {
        Json::Null => Value::UNDEFINED,
        Json::Bool(yes) => Value::from(*yes),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(float)) => Value::from(float),
            (None, None) => Value::UNDEFINED,
        },
        Json::String(text) => Value::from(one_line(text)),
        Json::Array(list) => {
            list.iter().filter(|inner| !inner.is_null()).map(|inner| record_value(inner, depth - 1)).collect()
        }
        Json::Object(fields) => {
            let fields = fields.iter().filter(|(_, inner)| !inner.is_null());
            let fields = fields.map(|(name, inner)| (name.clone(), record_value(inner, depth - 1)));
            Value::from(fields.collect::<BTreeMap<String, Value>>())
        }
    }
}

/// The text with blanks for all that would end a line.
fn one_line(text: &str) -> String {
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.trim().split(ends_line).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
