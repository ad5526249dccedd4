//! Declarations as TOML that a person can read: one argument a line, and tables of their own for what is long.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::operation::ToolDeclaration;
use crate::CommandResult;

/// Characters up to which a table stands on one line.
const MAX_LINE: usize = 100;

pub(super) fn file(head: &str, tools: &[ToolDeclaration]) -> CommandResult<String> {
    let mut text = head.to_owned();
    for tool in tools {
        table(&mut text, &format!("tool.{}", tool.name), &tool.table)?;
    }
    Ok(text)
}

/// A table, and after it those within it that are too long for a line.
fn table(text: &mut String, path: &str, fields: &Map<String, Value>) -> CommandResult {
    let (mut lines, mut later) = (String::new(), Vec::new());
    for (name, value) in fields {
        let line = inline(value)?;
        match value.as_object().filter(|_| line.len() > MAX_LINE) {
            Some(inner) => later.push((name, inner)),
            None => writeln!(lines, "{} = {line}", key(name)?)?,
        }
    }
    if !lines.is_empty() {
        write!(text, "\n[{path}]\n{lines}")?;
    }
    for (name, inner) in later {
        table(text, &format!("{path}.{}", key(name)?), inner)?;
    }
    Ok(())
}

fn inline(value: &Value) -> CommandResult<String> {
    let mut text = String::new();
    toml_value(value).serialize(toml::ser::ValueSerializer::new(&mut text))?;
    Ok(text)
}

/// A key as TOML writes it, with quotes where it needs them.
fn key(name: &str) -> CommandResult<String> {
    let line = toml::to_string(&Map::from_iter([(name.to_owned(), Value::from(0))]))?;
    Ok(line.trim_end().trim_end_matches(" = 0").to_owned())
}

/// The value as TOML can have it. TOML has no null, and no whole numbers beyond 64 bits with a sign.
fn toml_value(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            number.as_f64().map_or(Value::Null, Value::from)
        }
        Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(toml_value).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(fields.map(|(name, field)| (name.clone(), toml_value(field))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
