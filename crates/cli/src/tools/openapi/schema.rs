//! Schemas of a description as JSON Schema of its own: no references, no cycles, and only the keywords that say what an
//! argument may be.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::document::OpenApiDocument;
use super::words;

/// Levels of one argument. An app's schema may have ten, and the arguments themselves are one.
const MAX_DEPTH: usize = 8;

/// References that a schema may be behind.
const MAX_HOPS: usize = 32;

/// Schemas within the arguments of one tool.
const MAX_SCHEMAS: usize = 1000;

/// Keywords that are taken as they stand. Examples, XML, discriminators and all other keywords say nothing about
/// allowed values.
const PLAIN: &str = "format const default minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength \
                     maxLength pattern minItems maxItems uniqueItems minProperties maxProperties";

/// Keywords of schemas that can be merged into one object.
const OF_OBJECTS: &[&str] = &["type", "description", "properties", "required", "additionalProperties"];

/// Turns the schemas of one operation.
pub(super) struct SchemaReader<'a> {
    document: &'a OpenApiDocument,
    left: usize,
    /// Sentences on what could not be declared.
    pub(super) notes: BTreeSet<String>,
}

/// The place of the reader in a schema.
#[derive(Clone)]
struct Place<'a> {
    depth: usize,
    behind: Vec<&'a str>,
}

impl<'a> SchemaReader<'a> {
    pub(super) fn new(document: &'a OpenApiDocument) -> Self {
        Self { document, left: MAX_SCHEMAS, notes: BTreeSet::new() }
    }

    pub(super) fn convert(&mut self, schema: &'a Value) -> Map<String, Value> {
        self.schema(schema, Place { depth: MAX_DEPTH, behind: Vec::new() })
    }

    fn schema(&mut self, schema: &'a Value, place: Place<'a>) -> Map<String, Value> {
        if self.left == 0 || place.depth == 0 {
            return self.any_value_schema("a schema is cut where it is nested too deeply or is too large");
        }
        self.left -= 1;
        let Some(object) = schema.as_object() else {
            let nothing = (*schema == Value::Bool(false)).then(|| ("not".to_owned(), json!({})));
            return nothing.into_iter().collect();
        };
        match object.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referenced_schema(reference, object, place),
            None => self.described_schema(object, &place),
        }
    }

    fn referenced_schema(
        &mut self,
        reference: &'a str,
        beside: &'a Map<String, Value>,
        mut place: Place<'a>,
    ) -> Map<String, Value> {
        if place.behind.contains(&reference) || place.behind.len() == MAX_HOPS {
            return self.any_value_schema(&format!("{reference} contains itself, and is cut there"));
        }
        let Some(target) = self.document.target(reference) else {
            return self.any_value_schema(&format!(
                "{reference} is not in the description, so anything may be given"
            ));
        };
        place.behind.push(reference);
        let mut schema = self.schema(target, place);
        schema.extend(description(beside));
        schema
    }

    fn described_schema(&mut self, object: &'a Map<String, Value>, place: &Place<'a>) -> Map<String, Value> {
        let mut schema = Map::new();
        schema.extend(object.get("type").and_then(|kind| self.valid_keyword("type", kind)));
        schema.extend(description(object));
        if let Some(choices) = object.get("enum").and_then(Value::as_array) {
            let choices: Value = choices.iter().filter(|choice| !has_null(choice)).cloned().collect();
            schema.extend(self.valid_keyword("enum", &choices));
        }
        for keyword in PLAIN.split(' ') {
            schema.extend(object.get(keyword).and_then(|value| self.valid_keyword(keyword, value)));
        }
        convert_exclusive_bounds(object, &mut schema);
        self.objects(object, place, &mut schema);
        if let Some(items @ Value::Object(_)) = object.get("items") {
            schema.insert("items".into(), self.schema(items, place.one_level_below()).into());
        }
        if let Some(not @ Value::Object(_)) = object.get("not") {
            schema.insert("not".into(), self.schema(not, place.one_level_below()).into());
        }
        for keyword in ["oneOf", "anyOf"] {
            let Some(choices) = object.get(keyword).and_then(Value::as_array) else { continue };
            let choices: Vec<Value> =
                choices.iter().map(|choice| self.schema(choice, place.one_level_below()).into()).collect();
            if !choices.is_empty() {
                schema.insert(keyword.into(), choices.into());
            }
        }
        if let Some(members) = object.get("allOf").and_then(Value::as_array) {
            // Merged members are no deeper than where they stand.
            let members = members.iter().map(|member| self.schema(member, place.clone())).collect();
            schema = merged_schema(schema, members);
        }
        if object.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut schema);
        }
        schema
    }

    fn objects(
        &mut self,
        object: &'a Map<String, Value>,
        place: &Place<'a>,
        schema: &mut Map<String, Value>,
    ) {
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            let given = properties.iter().filter(|(_, property)| !self.is_read_only(property));
            let given: Vec<(&'a String, &'a Value)> = given.collect();
            let mut kept = Map::new();
            for (name, property) in given {
                kept.insert(name.clone(), self.schema(property, place.one_level_below()).into());
            }
            let required: Vec<Value> = names(object.get("required"))
                .filter(|name| kept.contains_key(*name))
                .map(Value::from)
                .collect();
            schema.insert("properties".into(), kept.into());
            if !required.is_empty() {
                schema.insert("required".into(), required.into());
            }
        }
        match object.get("additionalProperties") {
            Some(Value::Bool(open)) => drop(schema.insert("additionalProperties".into(), (*open).into())),
            Some(others @ Value::Object(_)) => {
                schema.insert(
                    "additionalProperties".into(),
                    self.schema(others, place.one_level_below()).into(),
                );
            }
            _ => {}
        }
    }

    fn is_read_only(&self, property: &Value) -> bool {
        let says = |value: &Value| value.get("readOnly") == Some(&Value::Bool(true));
        says(property) || self.document.follow(property).is_ok_and(says)
    }

    /// A keyword that JSON Schema knows with such a value; another would make the whole schema none.
    fn valid_keyword(&mut self, keyword: &str, value: &Value) -> Option<(String, Value)> {
        if keyword == "const" && value.is_null() {
            return Some(("type".into(), "null".into()));
        }
        if keyword.starts_with("exclusive") && value.is_boolean() || has_null(value) {
            return None;
        }
        if jsonschema::validator_for(&json!({ keyword: value })).is_ok() {
            return Some((keyword.into(), value.clone()));
        }
        let shown = value.to_string();
        self.notes.insert(format!("{keyword} is {shown}, which is not JSON Schema, and is left out"));
        None
    }

    fn any_value_schema(&mut self, note: &str) -> Map<String, Value> {
        self.notes.insert(note.to_owned());
        Map::new()
    }
}

impl Place<'_> {
    fn one_level_below(&self) -> Self {
        Self { depth: self.depth.saturating_sub(1), behind: self.behind.clone() }
    }
}

/// The properties of an object: the name and schema of each, and whether it is required.
pub(super) fn properties(
    schema: &Map<String, Value>,
) -> impl Iterator<Item = (&String, Map<String, Value>, bool)> {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.map(move |(name, of)| {
        let is_required = names(schema.get("required")).any(|one| one == name);
        (name, of.as_object().cloned().unwrap_or_default(), is_required)
    })
}

/// The names of a list of names.
pub(super) fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether values of this kind fit a schema that says its type.
pub(super) fn is_of(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(list @ Value::Array(_)) => names(Some(list)).any(|one| one == kind),
        _ => kind == "object" && schema.contains_key("properties"),
    }
}

pub(super) fn description(object: &Map<String, Value>) -> Option<(String, Value)> {
    let text = words::line(object.get("description")?.as_str()?);
    (!text.is_empty()).then(|| ("description".to_owned(), text.into()))
}

/// OpenAPI 3.0 says of a bound whether it is exclusive; JSON Schema has another bound for that.
fn convert_exclusive_bounds(object: &Map<String, Value>, schema: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if object.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = schema.shift_remove(bound)
        {
            schema.insert(exclusive.into(), value);
        }
    }
}

/// One object of several, where that is all they are; else all of them have to hold.
fn merged_schema(own: Map<String, Value>, members: Vec<Map<String, Value>>) -> Map<String, Value> {
    let is_plain = |schema: &Map<String, Value>| {
        schema.keys().all(|key| OF_OBJECTS.contains(&key.as_str()))
            && schema.get("type").is_none_or(|kind| kind == "object")
    };
    let mut members = members;
    if members.len() == 1 && own.keys().all(|key| key == "description" || key == "default") {
        let mut only = members.pop().unwrap_or_default();
        only.extend(own);
        return only;
    }
    if !is_plain(&own) || !members.iter().all(is_plain) {
        let mut schema = own;
        schema.insert("allOf".into(), members.into_iter().map(Value::Object).collect());
        return schema;
    }
    let mut schema = Map::from_iter([("type".to_owned(), "object".into())]);
    let (mut properties, mut required) = (Map::new(), Vec::<Value>::new());
    members.push(own);
    for mut member in members {
        schema.extend(member.shift_remove_entry("description"));
        if let Some(Value::Object(given)) = member.shift_remove("properties") {
            properties.extend(given);
        }
        required.extend(names(member.get("required")).map(Value::from));
    }
    let mut seen = BTreeSet::new();
    required.retain(|name| seen.insert(name.to_string()));
    schema.insert("properties".into(), properties.into());
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema
}

/// A text beside a list of choices is never null: TOML has no such choice.
fn allow_null(schema: &mut Map<String, Value>) {
    if schema.contains_key("enum") {
        return;
    }
    if let Some(Value::String(kind)) = schema.get("type") {
        let kinds = json!([kind, "null"]);
        schema.insert("type".into(), kinds);
        return;
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(Value::Array(choices)) = schema.get_mut(keyword) {
            choices.push(json!({ "type": "null" }));
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
