//! JSON Schema files of an app folder: what is read, and what is asked of every one of them.

use std::path::Path;

use serde_json::{Value, json};

use crate::source::Problem;

/// Nesting of a schema beyond which providers refuse it.
const MAX_SCHEMA_DEPTH: usize = 10;

/// The demands on every object of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// Anything goes.
    Any,
    /// The object allows no properties but those it names.
    Closed,
    /// And each of them is required, as strict providers want it.
    ClosedAndWhole,
}

/// A schema of type object.
pub(super) fn schema(file: &Path, text: &str, objects: Objects) -> Result<Value, Problem> {
    let schema = parse(file, text)?;
    match check(&schema, objects) {
        Ok(()) => Ok(schema),
        Err((message, remedy)) => Err(Problem::of(file, message, remedy)),
    }
}

pub(super) fn parse(file: &Path, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|error| Problem {
        line: Some(error.line()),
        column: Some(error.column()),
        ..Problem::of(file, "this is not JSON", "write one JSON Schema")
    })
}

/// The schema of a tool's arguments, which are closed even where it does not say so; or what is wrong and what to do.
pub fn tool_arguments(mut schema: Value) -> Result<Value, (String, &'static str)> {
    check(&schema, Objects::Any)?;
    if let Some(object) = schema.as_object_mut() {
        object.entry("properties").or_insert_with(|| json!({}));
        let open = object.entry("additionalProperties").or_insert(Value::Bool(false));
        if *open != Value::Bool(false) {
            return Err((
                "the schema allows additional properties".into(),
                "remove additionalProperties, or make it false",
            ));
        }
    }
    Ok(schema)
}

/// Whether a schema describes an object, in any way; or what is wrong and what to do.
pub fn check_object_schema(schema: &Value) -> Result<(), (String, &'static str)> {
    check(schema, Objects::Any)
}

fn check(schema: &Value, objects: Objects) -> Result<(), (String, &'static str)> {
    if schema.get("type") != Some(&"object".into()) {
        return Err(("the schema is not of type object".into(), "describe one object"));
    }
    if let Some(complaint) = complaint(schema, objects, MAX_SCHEMA_DEPTH) {
        return Err(complaint);
    }
    jsonschema::validator_for(schema).map(drop).map_err(|error| {
        let place = error.instance_path().to_string();
        (format!("{place} is not JSON Schema: {error}"), "correct it there")
    })
}

fn complaint(schema: &Value, objects: Objects, depth: usize) -> Option<(String, &'static str)> {
    if depth == 0 {
        return Some(("the schema is nested too deeply".into(), "make it flatter"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_object = properties.is_some() || schema.get("type") == Some(&"object".into());
    let must_close = is_object && objects != Objects::Any;
    if must_close && schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        let message = "an object of the schema allows additional properties".to_owned();
        return Some((message, "add \"additionalProperties\": false to each object"));
    }
    if let Some(properties) = properties {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let missing = properties.keys().find(|name| !is_required(name));
        if let Some(name) = missing.filter(|_| objects == Objects::ClosedAndWhole) {
            let remedy =
                "list every property under \"required\"; give an optional property a type with \"null\"";
            return Some((format!("the property {name:?} is not required"), remedy));
        }
        return properties.values().find_map(|inner| complaint(inner, objects, depth - 1));
    }
    schema.get("items").and_then(|items| complaint(items, objects, depth - 1))
}
