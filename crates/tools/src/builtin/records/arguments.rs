//! The spec of a tool over records: its description and its arguments, made from the record's schema.

use app::{DeclaredRecordTool, RECORD_FORMAT, RecordAction, RecordType};
use serde_json::{Map, Value, json};

use super::{ID, LIMIT, MAX_EVIDENCE, MAX_QUERY_CHARS, QUERY};
use crate::builtin::closed_schema;

/// The form of a record's id.
const ID_PATTERN: &str = "^rec_[0-9a-f]{32}$";

pub(super) fn description(declared: &DeclaredRecordTool, record: &RecordType) -> String {
    let title = record.title();
    let mut words = match declared.does {
        RecordAction::Search => format!("Finds {title} records by the words in them, best match first."),
        RecordAction::Get => format!("Reads one {title} record by its id."),
        RecordAction::Create => format!("Creates one {title} record."),
        RecordAction::Update => format!(
            "Changes fields of one {title} record; what is not given stays, and null clears a field that may be absent."
        ),
        RecordAction::List => {
            format!(
                "Lists {title} records, the newest change first; a field that is given must have that value."
            )
        }
        RecordAction::Delete => format!("Deletes one {title} record; this can be undone."),
    };
    for (kind, count) in &declared.requires {
        words.push_str(&format!(" Needs the ids of {count} distinct {kind} records."));
    }
    if let Some(about) = record.schema.get("description").and_then(Value::as_str) {
        words.push_str(&format!(" About {title}: {about}"));
    }
    words
}

pub(super) fn parameters(declared: &DeclaredRecordTool, record: &RecordType) -> Value {
    let (properties, required) = match declared.does {
        RecordAction::Search => {
            let about = "words to look for; the beginnings of words are enough";
            let query = json!({
                "type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARS, "description": about,
            });
            (Map::from_iter([(QUERY.into(), query), limit(declared.limit)]), vec![QUERY.to_owned()])
        }
        RecordAction::Get | RecordAction::Delete => (Map::from_iter([id(record)]), vec![ID.to_owned()]),
        RecordAction::Create => create(declared, record),
        RecordAction::Update => update(declared, record),
        RecordAction::List => {
            let filters =
                given_fields(declared, record).filter_map(|(name, field)| Some((name, filter(&field)?)));
            // The number of results is asked for by the same name as a field might have.
            let filters = filters.filter(|(name, _)| name != LIMIT);
            (filters.chain([limit(declared.limit)]).collect(), Vec::new())
        }
    };
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    let mut parameters = closed_schema(Value::Object(properties), &required);
    if let (Some(object), Some(definitions)) = (parameters.as_object_mut(), record.schema.get("$defs")) {
        object.insert("$defs".into(), argument(definitions));
    }
    parameters
}

type Fields = (Map<String, Value>, Vec<String>);

fn create(declared: &DeclaredRecordTool, record: &RecordType) -> Fields {
    let properties: Map<String, Value> = given_fields(declared, record).chain(evidence(declared)).collect();
    let needed = |name: &&String| {
        declared.requires.contains_key(*name)
            || record.requires(name) && !declared.defaults.contains_key(*name)
    };
    let required = properties.keys().filter(needed).cloned().collect();
    (properties, required)
}

fn update(declared: &DeclaredRecordTool, record: &RecordType) -> Fields {
    let clearable = |(name, field): (String, Value)| {
        let field =
            if record.requires(&name) { field } else { json!({ "anyOf": [field, { "type": "null" }] }) };
        (name, field)
    };
    let fields = given_fields(declared, record).map(clearable);
    let properties = [id(record)].into_iter().chain(fields).chain(evidence(declared)).collect();
    (properties, [ID.to_owned()].into_iter().chain(declared.requires.keys().cloned()).collect())
}

/// The fields that the model may give as they are.
fn given_fields(declared: &DeclaredRecordTool, record: &RecordType) -> impl Iterator<Item = (String, Value)> {
    let offered = |name: &String| {
        declared.fields.as_ref().is_none_or(|fields| fields.contains(name))
            && !declared.fixed.contains_key(name)
            && !declared.requires.contains_key(name)
    };
    record
        .properties()
        .filter(move |(name, _)| offered(name))
        .map(|(name, field)| (name.clone(), argument(field)))
}

/// The ids that the tool requires, each list under the name of the records' type.
fn evidence(declared: &DeclaredRecordTool) -> impl Iterator<Item = (String, Value)> {
    declared.requires.iter().map(|(kind, count)| {
        let list = json!({
            "type": "array",
            "items": { "type": "string", "pattern": ID_PATTERN },
            "minItems": count,
            "maxItems": MAX_EVIDENCE,
            "uniqueItems": true,
            "description": format!("the ids of at least {count} distinct {kind} records that exist"),
        });
        (kind.clone(), list)
    })
}

fn id(record: &RecordType) -> (String, Value) {
    let about = format!("the id of the {} record", record.title());
    (ID.into(), json!({ "type": "string", "pattern": ID_PATTERN, "description": about }))
}

fn limit(most: usize) -> (String, Value) {
    let about = format!("results at most; {most} when absent");
    (LIMIT.into(), json!({ "type": "integer", "minimum": 1, "maximum": most, "description": about }))
}

/// A field as something to filter by: a text, a choice or a truth, or for a list of ids one that it must hold.
fn filter(field: &Value) -> Option<Value> {
    let kind = field.get("type");
    let is = |name: &str| {
        kind.is_some_and(|kind| {
            kind == name || kind.as_array().is_some_and(|kinds| kinds.contains(&name.into()))
        })
    };
    if is("array") {
        return field.get("items").filter(|item| item.get("pattern") == Some(&ID_PATTERN.into())).cloned();
    }
    (is("string") || is("boolean") || field.get("enum").is_some()).then(|| field.clone())
}

/// A part of a record's schema as providers understand it: what is our own way to say that a text is an id becomes a
/// pattern.
fn argument(schema: &Value) -> Value {
    match schema {
        Value::Object(parts) => {
            let mut parts: Map<String, Value> =
                parts.iter().map(|(key, part)| (key.clone(), argument(part))).collect();
            let format = parts.get("format").and_then(Value::as_str);
            if let Some(kind) = format.and_then(|format| format.strip_prefix(RECORD_FORMAT)) {
                let about = format!("the id of one {kind} record");
                parts.remove("format");
                parts.insert("pattern".into(), ID_PATTERN.into());
                parts.entry("description").or_insert_with(|| about.into());
            }
            Value::Object(parts)
        }
        Value::Array(parts) => parts.iter().map(argument).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}
