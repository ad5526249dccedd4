//! `records/*.json`: the types of an app's records, one JSON Schema each. The file's name is the type.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use super::problems::Problems;
use super::schema::{Objects, schema};
use crate::source::{FileText, Problem, Spanned, files_in, read_file};
use crate::{RECORD_FORMAT, RecordType};

const MAX_RECORD_TYPES: usize = 50;
const MAX_TYPE_CHARS: usize = 40;
/// Characters that providers accept in the name of an argument.
const MAX_FIELD_CHARS: usize = 64;
/// Every record has one beside its data, and tools take it by that name.
const ID: &str = "id";

/// The types by name, and the texts they were read from in the same order.
pub(super) fn records(dir: &Path) -> Result<(BTreeMap<String, RecordType>, Vec<String>), Problems> {
    let (mut types, mut texts, mut problems) = (BTreeMap::new(), Vec::new(), Problems::default());
    let folder = dir.join("records");
    for file in files_in(&folder, "json", "make it a folder of JSON Schema files")? {
        if let Some((record, text)) = problems.value_or_default(record(&file).map(Some)) {
            texts.extend([record.name.clone(), text]);
            types.insert(record.name.clone(), record);
        }
    }
    if types.len() > MAX_RECORD_TYPES {
        let message = format!("there are more than {MAX_RECORD_TYPES} record types");
        return Err(Problem::of(&folder, message, "combine some of them").into());
    }
    // With a type missing, what refers to it is not at fault.
    for record in types.values().filter(|_| problems.is_empty()).collect::<Vec<_>>() {
        let file = folder.join(format!("{}.json", record.name));
        problems.value_or_default(references(&file, &record.schema, &types));
    }
    problems.into_result((types, texts))
}

fn record(file: &Path) -> Result<(RecordType, String), Problem> {
    let name = name(file)?;
    let text = read_file(file, "create it")?;
    let schema = schema(file, &text, Objects::Closed)?;
    fields(file, &schema)?;
    Ok((RecordType { name, schema }, text))
}

fn name(file: &Path) -> Result<String, Problem> {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-');
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    if starts && name.len() <= MAX_TYPE_CHARS && name.chars().all(letters) {
        return Ok(name.to_owned());
    }
    let remedy = format!(
        "rename it: a lower-case letter, then lower-case letters, digits, underscores and dashes, at most {MAX_TYPE_CHARS}"
    );
    Err(Problem::of(file, "the file's name cannot be a record type", remedy))
}

/// Fields become arguments of tools.
fn fields(file: &Path, schema: &Value) -> Result<(), Problem> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        return Err(Problem::of(
            file,
            "the schema has no properties",
            "name at least one under \"properties\"",
        ));
    };
    for name in properties.keys() {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > MAX_FIELD_CHARS || !name.chars().all(letters) {
            let remedy = format!("write 1 to {MAX_FIELD_CHARS} letters, digits, underscores, dashes or dots");
            return Err(Problem::of(file, format!("{name:?} cannot be a field's name"), remedy));
        }
        if name == ID {
            let remedy = "remove it; every record has an id of its own, beside its data";
            return Err(Problem::of(file, "the schema has a property \"id\"", remedy));
        }
    }
    Ok(())
}

/// A field that holds the id of a record must name a type there is. The schema's depth is bounded already.
fn references(file: &Path, schema: &Value, types: &BTreeMap<String, RecordType>) -> Result<(), Problem> {
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(kind) = format.and_then(|format| format.strip_prefix(RECORD_FORMAT)) {
        if !types.contains_key(kind) {
            let remedy = format!("add records/{kind}.json, or {}", known_types(types));
            return Err(Problem::of(
                file,
                format!("a field refers to records of the type {kind:?}, which does not exist"),
                remedy,
            ));
        }
        if schema.get("type") != Some(&"string".into()) {
            let message = "a field that refers to a record is not of type string";
            return Err(Problem::of(
                file,
                message,
                "write \"type\": \"string\"; for several, an array of them",
            ));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let inner = properties.into_iter().flat_map(serde_json::Map::values).chain(schema.get("items"));
    inner.into_iter().try_for_each(|inner| references(file, inner, types))
}

/// The type of this name.
pub(super) fn record_type<'a>(
    source: &FileText<'_>,
    types: &'a BTreeMap<String, RecordType>,
    name: &Spanned<String>,
) -> Result<&'a RecordType, Problem> {
    types.get(name.get_ref()).ok_or_else(|| {
        let message = format!("there is no record type {:?}", name.get_ref());
        source.problem(name.span(), message, known_types(types))
    })
}

/// Fails if records of this type have no such field.
pub(super) fn check_field(
    source: &FileText<'_>,
    record: &RecordType,
    field: &str,
    span: Range<usize>,
) -> Result<(), Problem> {
    if record.property(field).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = record.properties().map(|(name, _)| name.as_str()).collect();
    let message = format!("records of the type {:?} have no field {field:?}", record.name);
    Err(source.problem(span, message, format!("use one of {}", names.join(", "))))
}

/// The types there are, as the end of a remedy.
pub(super) fn known_types(types: &BTreeMap<String, RecordType>) -> String {
    let names: Vec<&str> = types.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => "add a JSON Schema under records/ first".into(),
        names => format!("use one of {}", names.join(", ")),
    }
}
