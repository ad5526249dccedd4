//! Exports of mem0: items under `results`, or under `memories` in a structured export, or a bare list.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::ImportFields;
use super::{DEFAULT_KIND, ExportedMemory, ImportProblem, MAX_MEMORIES, ReadError, clean_text, is_kind};

/// The source of what comes from there.
const SOURCE: &str = "mem0";

pub(super) fn write(memories: &[ExportedMemory]) -> String {
    let item = |memory: &ExportedMemory| {
        json!({
            "memory": memory.text,
            "metadata": {"kind": memory.kind},
            "categories": [memory.kind],
            "created_at": memory.created_at.to_string(),
            "updated_at": memory.created_at.to_string(),
        })
    };
    let results: Vec<Value> = memories.iter().map(item).collect();
    format!("{:#}\n", json!({ "results": results }))
}

pub(super) fn read(file: &Value, now: Timestamp) -> Result<Vec<ExportedMemory>, ReadError> {
    let list = file
        .as_array()
        .or_else(|| file.get("results")?.as_array())
        .or_else(|| file.get("memories")?.as_array());
    let list = list.ok_or(ReadError::UnknownFormat)?;
    if list.len() > MAX_MEMORIES {
        return Err(ReadError::TooMany);
    }
    let memories = list.iter().enumerate().map(|(index, item)| memory(&ImportFields { index, item }, now));
    memories.filter_map(Result::transpose).collect()
}

/// Nothing for an item without any text, which such exports contain.
fn memory(fields: &ImportFields<'_>, now: Timestamp) -> Result<Option<ExportedMemory>, ReadError> {
    if !fields.item.is_object() {
        return Err(fields.error("memory", ImportProblem::Missing));
    }
    let (field, text) = match fields.text("memory")? {
        Some(text) => ("memory", text),
        None => ("content", fields.text("content")?.unwrap_or_default()),
    };
    let text = match clean_text(text) {
        Ok(text) => text,
        Err(ImportProblem::Empty) => return Ok(None),
        Err(problem) => return Err(fields.error(field, problem)),
    };
    // Some clients write the name of Python's nothing.
    let dated = fields.text("created_at")?.is_some_and(|date| date != "None");
    let created_at = if dated { fields.moment("created_at")? } else { None };
    let (created_at, source) = (created_at.unwrap_or(now), Some(SOURCE.to_owned()));
    Ok(Some(ExportedMemory { text, kind: kind(fields.item), created_at, valid_from: None, source }))
}

/// The kind in its metadata, or else its first category.
fn kind(item: &Value) -> String {
    let kinds =
        [item.pointer("/metadata/kind"), item.pointer("/metadata/type"), item.pointer("/categories/0")];
    let words = kinds.into_iter().flatten().filter_map(Value::as_str);
    let mut small = words.map(|word| word.trim().to_lowercase().replace(' ', "_"));
    small.find(|word| is_kind(word)).unwrap_or_else(|| DEFAULT_KIND.to_owned())
}
