//! `answer`: words, an object that cites memories, or an object that a schema beside `app.toml` describes.

use std::path::Path;

use serde_json::Value;

use crate::source::{Problem, Source, Spanned, read_file};
use crate::types::Answer;

/// Nesting of a schema beyond which providers refuse it.
const MAX_SCHEMA_DEPTH: usize = 10;

pub(super) fn answer(
    source: &Source<'_>,
    dir: &Path,
    raw: Option<Spanned<String>>,
) -> Result<(Answer, Option<String>), Problem> {
    let Some(raw) = raw else { return Ok((Answer::Text, None)) };
    match raw.get_ref().as_str() {
        "text" => Ok((Answer::Text, None)),
        "structured" => Ok((Answer::Structured, None)),
        file if is_schema_file(file) => {
            let text = read_file(&dir.join(file), "create it, or write \"text\" or \"structured\"")?;
            let schema = schema(&dir.join(file), &text)?;
            let name = file.trim_end_matches(".json").replace('.', "_");
            Ok((Answer::Schema { name, schema }, Some(text)))
        }
        other => {
            let remedy = "write \"text\", \"structured\", or the name of a JSON Schema file in this folder";
            Err(source.problem(raw.span(), format!("answer is {other:?}"), remedy))
        }
    }
}

fn is_schema_file(name: &str) -> bool {
    let stem = name.strip_suffix(".json").unwrap_or_default();
    !stem.is_empty()
        && stem.len() <= 60
        && stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn schema(file: &Path, text: &str) -> Result<Value, Problem> {
    let schema: Value = serde_json::from_str(text).map_err(|error| Problem {
        line: Some(error.line()),
        column: Some(error.column()),
        ..Problem::of(file, "this is not JSON", "write one JSON Schema")
    })?;
    match complaint(&schema, MAX_SCHEMA_DEPTH) {
        _ if schema.get("type") != Some(&"object".into()) => {
            Err(Problem::of(file, "the schema is not of type object", "describe one object"))
        }
        Some((message, remedy)) => Err(Problem::of(file, message, remedy)),
        None => Ok(schema),
    }
}

/// What a strict provider would refuse: objects must be closed and all of their properties required.
fn complaint(schema: &Value, depth: usize) -> Option<(String, &'static str)> {
    if depth == 0 {
        return Some(("the schema is nested too deeply".into(), "make it flatter"));
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            let message = "an object of the schema is open".to_owned();
            return Some((message, "add \"additionalProperties\": false to each object"));
        }
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        if let Some(name) = properties.keys().find(|name| !is_required(name)) {
            let remedy =
                "list every property under \"required\"; give one that may be missing a type with \"null\"";
            return Some((format!("the property {name:?} is not required"), remedy));
        }
        return properties.values().find_map(|inner| complaint(inner, depth - 1));
    }
    schema.get("items").and_then(|items| complaint(items, depth - 1))
}
