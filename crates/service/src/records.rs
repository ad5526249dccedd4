//! Records as the outside asks for them: typed objects of an app, made and changed by the user's own hand.

use app::{DeclaredTool, RecordType, ToolKind};
use protocol::{
    Page, Principal, RecordId, RecordToolView, RecordTypeView, RecordVersionView, RecordView, Scope,
};
use serde_json::{Map, Value};
use store::{IdempotencyClaim, MAX_RECORD_BYTES, RecordQuery, ThingVersion, Write};
use tools::Reference;

use crate::checks::{self, PageQuery};
use crate::{Error, Service};

/// Bytes of the words to search for.
const MAX_WORDS_BYTES: usize = 1000;

/// Fields that one list may be narrowed by.
const MAX_FILTERS: usize = 10;

/// Violations of a schema told at once.
const MAX_VIOLATIONS: usize = 5;

/// All records of one type in an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsPlace {
    pub app: String,
    pub kind: String,
}

/// A record by its app, type and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlace {
    pub of: RecordsPlace,
    pub id: RecordId,
}

/// Which records to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSearch {
    /// Words that must occur.
    pub words: Option<String>,
    /// Fields at the top level and the values they must have, as text.
    pub fields: Vec<(String, String)>,
}

/// A change of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// All of its data.
    Replace(Map<String, Value>),
    /// The fields that are named; null takes one away.
    Merge(Map<String, Value>),
}

/// The conditions of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// The version that the change is meant for. Absent means the present version.
    pub expected: Option<u64>,
    pub once: Option<IdempotencyClaim>,
}

impl Edit {
    fn data(&self) -> Value {
        let (Edit::Replace(data) | Edit::Merge(data)) = self;
        Value::Object(data.clone())
    }
}

impl Service {
    /// The record types of an app, by name.
    pub fn record_types(&self, principal: &Principal, app: &str) -> Result<Page<RecordTypeView>, Error> {
        let (_, app) = self.share_of(principal, app)?;
        let tool = |declared: &DeclaredTool, of: &str| match &declared.kind {
            ToolKind::Record(tool) if tool.record == of => {
                let (name, does) = (declared.tool.name.clone(), tool.does.name().to_owned());
                Some(RecordToolView { name, does })
            }
            ToolKind::Record(_) | ToolKind::Http(_) | ToolKind::Sandbox(_) | ToolKind::Client(_) => None,
        };
        let view = |kind: &RecordType| RecordTypeView {
            kind: kind.name.clone(),
            schema: kind.schema.clone(),
            tools: app.declared.iter().filter_map(|declared| tool(declared, &kind.name)).collect(),
        };
        Ok(Page { data: app.records.values().map(view).collect(), next: None })
    }

    pub async fn create_record(
        &self,
        principal: &Principal,
        of: &RecordsPlace,
        data: Map<String, Value>,
        once: Option<IdempotencyClaim>,
    ) -> Result<RecordView, Error> {
        let (scope, kind) = self.record_type(principal, of)?;
        let data = check_data(&kind, data)?;
        self.check_references(&scope, &kind, &data).await?;
        let (id, data) = (self.world().ids.record(), Some(data));
        let write = Write::Record { id, kind: of.kind.clone(), data, expected: 0 };
        match self.store().put_record(&scope, write, once).await {
            // Under a fresh id nothing can have changed: there is no room.
            Err(store::Error::Changed(message)) => Err(Error::Conflict { code: "records_full", message }),
            made => made?.ok_or(Error::NotFound { what: "record" }),
        }
    }

    /// Newest change first, or best match first where words are given.
    pub async fn records(
        &self,
        principal: &Principal,
        of: &RecordsPlace,
        search: RecordSearch,
        page: PageQuery,
    ) -> Result<Page<RecordView>, Error> {
        let (scope, kind) = self.record_type(principal, of)?;
        let (query, wanted) = (query(&kind, search)?, page.by_time()?);
        let page = self.store().records(&scope, &of.kind, query, wanted).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.updated_at, row.id), |row| row))
    }

    pub async fn record(&self, principal: &Principal, place: &RecordPlace) -> Result<RecordView, Error> {
        let (scope, _) = self.record_type(principal, &place.of)?;
        Ok(self.store().record_of(&scope, &place.of.kind, place.id).await?)
    }

    /// The versions of a record, the present one first.
    pub async fn record_versions(
        &self,
        principal: &Principal,
        place: &RecordPlace,
    ) -> Result<Page<RecordVersionView>, Error> {
        let (scope, _) = self.record_type(principal, &place.of)?;
        let versions = self.store().record_versions(&scope, &place.of.kind, place.id).await?;
        Ok(Page { data: versions.into_iter().map(version_view).collect(), next: None })
    }

    pub async fn change_record(
        &self,
        principal: &Principal,
        place: &RecordPlace,
        edit: Edit,
        terms: Terms,
    ) -> Result<RecordView, Error> {
        let (scope, kind) = self.record_type(principal, &place.of)?;
        let current = self.store().record_of(&scope, &place.of.kind, place.id).await?;
        let given = edit.data();
        let data = Some(check_data(&kind, apply_edit(current.data, edit))?);
        self.check_references(&scope, &kind, &given).await?;
        let expected = terms.expected.unwrap_or(current.version);
        let write = Write::Record { id: place.id, kind: place.of.kind.clone(), data, expected };
        let changed = self.store().put_record(&scope, write, terms.once).await?;
        changed.ok_or(Error::NotFound { what: "record" })
    }

    /// Under a key that was used before, a record that is gone is gone once more.
    pub async fn delete_record(
        &self,
        principal: &Principal,
        place: &RecordPlace,
        terms: Terms,
    ) -> Result<(), Error> {
        let (scope, _) = self.record_type(principal, &place.of)?;
        let current = self.store().record_of(&scope, &place.of.kind, place.id).await;
        let (expected, gone) = match current {
            Ok(current) => (terms.expected.unwrap_or(current.version), false),
            Err(store::Error::NotFound(_)) if terms.once.is_some() => (0, true),
            Err(error) => return Err(error.into()),
        };
        let write = Write::Record { id: place.id, kind: place.of.kind.clone(), data: None, expected };
        match self.store().put_record(&scope, write, terms.once).await {
            Err(store::Error::Changed(_)) if gone => Err(Error::NotFound { what: "record" }),
            done => {
                done?;
                self.world().sweeper.sweep(); // it is gone from everywhere, not from the list alone
                Ok(())
            }
        }
    }

    /// Records that are named must be there. Records that were named before may be gone since.
    async fn check_references(&self, scope: &Scope, of: &RecordType, given: &Value) -> Result<(), Error> {
        for Reference { place, kind, id } in tools::references(&of.schema, given) {
            let count = match id.parse() {
                Ok(id) => self.store().count_records(scope, kind, &[id]).await?,
                Err(_) => 0,
            };
            if count == 0 {
                return Err(Error::invalid("data", format!("{place}: there is no {kind} {id:?}")));
            }
        }
        Ok(())
    }

    fn record_type(&self, principal: &Principal, of: &RecordsPlace) -> Result<(Scope, RecordType), Error> {
        let (scope, app) = self.share_of(principal, &of.app)?;
        let kind = app.records.get(&of.kind).cloned().ok_or(Error::NotFound { what: "record type" })?;
        Ok((scope, kind))
    }
}

fn version_view(version: ThingVersion) -> RecordVersionView {
    let ThingVersion { version, contents, updated_at, action } = version;
    RecordVersionView {
        version,
        deleted: contents.is_none(),
        // Contents that cannot be read are shown as nothing.
        data: contents.map(|json| serde_json::from_str(&json).unwrap_or_default()),
        updated_at,
        action_id: action,
    }
}

fn apply_edit(current: Value, edit: Edit) -> Map<String, Value> {
    match edit {
        Edit::Replace(data) => data,
        Edit::Merge(fields) => {
            let mut data = if let Value::Object(data) = current { data } else { Map::new() };
            for (name, value) in fields {
                if value.is_null() {
                    data.remove(&name);
                } else {
                    data.insert(name, value);
                }
            }
            data
        }
    }
}

/// The data, if it fits the type's schema.
fn check_data(kind: &RecordType, data: Map<String, Value>) -> Result<Value, Error> {
    let data = Value::Object(data);
    if data.to_string().len() > MAX_RECORD_BYTES {
        return Err(Error::TooLarge { field: "data", limit: MAX_RECORD_BYTES });
    }
    let schema = kind.validator().map_err(|error| {
        tracing::error!(kind = kind.name, %error, "the schema of a record type is not a JSON Schema");
        Error::Internal
    })?;
    let violations: Vec<String> = schema
        .iter_errors(&data)
        .take(MAX_VIOLATIONS)
        .map(|error| match error.instance_path().to_string() {
            root if root.is_empty() => error.to_string(),
            pointer => format!("{pointer}: {error}"),
        })
        .collect();
    if violations.is_empty() { Ok(data) } else { Err(Error::invalid("data", violations.join("; "))) }
}

fn query(kind: &RecordType, search: RecordSearch) -> Result<RecordQuery, Error> {
    let RecordSearch { words, fields } = search;
    if words.as_ref().is_some_and(|words| words.len() > MAX_WORDS_BYTES) {
        return Err(Error::TooLarge { field: "q", limit: MAX_WORDS_BYTES });
    }
    if fields.len() > MAX_FILTERS {
        return Err(Error::invalid("field", format!("at most {MAX_FILTERS} fields can be filtered")));
    }
    let fields = fields.into_iter().map(|(name, text)| {
        let value = filter_value(kind, &name, &text)?;
        Ok((name, value))
    });
    let text = words.filter(|words| !words.trim().is_empty());
    Ok(RecordQuery { text, fields: fields.collect::<Result<_, Error>>()? })
}

/// A value as the schema has it, from how an address writes it.
fn filter_value(kind: &RecordType, name: &str, text: &str) -> Result<Value, Error> {
    let Some(property) = kind.property(name) else {
        return Err(Error::invalid("field", format!("this record type has no field {name:?}")));
    };
    let items = property.get("items").filter(|_| is_of(property, "array"));
    let of = items.unwrap_or(property);
    let plain = serde_json::from_str::<Value>(text).ok();
    let plain = plain.filter(|value| match value {
        Value::Bool(_) => is_of(of, "boolean"),
        Value::Number(_) => is_of(of, "integer") || is_of(of, "number"),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    });
    match plain {
        Some(value) => Ok(value),
        None if is_of(of, "string") || of.get("type").is_none() => Ok(Value::String(text.to_owned())),
        None => {
            Err(Error::invalid("field", format!("{name}: {text:?} is not a possible value of this field")))
        }
    }
}

/// Whether a property says that it may be of this type.
fn is_of(property: &Value, name: &str) -> bool {
    match property.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(any)) => any.iter().any(|one| one == name),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part() -> RecordType {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "age": { "type": ["integer", "null"], "minimum": 0 },
                "calm": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "scores": { "type": "array", "items": { "type": "number" } },
                "kind": { "enum": ["manager", "exile"] },
                "home": { "type": "object" },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        RecordType { name: "part".into(), schema }
    }

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn data_that_does_not_follow_the_schema_is_refused_with_its_place() {
        assert_eq!(check_data(&part(), object(json!({ "name": "Ada" }))).unwrap(), json!({ "name": "Ada" }));
        for (data, place) in [
            (json!({}), "\"name\" is a required property"),
            (json!({ "name": "" }), "/name: "),
            (json!({ "name": "x", "age": -1 }), "/age: "),
            (json!({ "name": "x", "tags": ["a", 5] }), "/tags/1: "),
            (json!({ "name": "x", "userId": "eve" }), "userId"),
        ] {
            match check_data(&part(), object(data.clone())) {
                Err(Error::Invalid { field: "data", message }) => {
                    assert!(message.contains(place), "{data}: {message}");
                }
                other => panic!("{data}: {other:?}"),
            }
        }
    }

    #[test]
    fn data_has_a_largest_size() {
        let named = |bytes: usize| object(json!({ "name": "x".repeat(bytes) }));
        let around = r#"{"name":""}"#.len();
        check_data(&part(), named(MAX_RECORD_BYTES - around)).unwrap();
        let refused = check_data(&part(), named(MAX_RECORD_BYTES - around + 1));
        assert!(matches!(refused, Err(Error::TooLarge { field: "data", .. })));
    }

    #[test]
    fn a_merge_changes_the_fields_it_names_and_null_takes_one_away() {
        let current = json!({ "name": "Ada", "age": 7, "home": { "a": 1 } });
        let fields = object(json!({ "age": null, "home": { "b": 2 }, "calm": false, "tags": null }));
        let merged = apply_edit(current.clone(), Edit::Merge(fields));
        assert_eq!(Value::Object(merged), json!({ "name": "Ada", "home": { "b": 2 }, "calm": false }));
        let replaced = apply_edit(current, Edit::Replace(object(json!({ "name": "Bo" }))));
        assert_eq!(Value::Object(replaced), json!({ "name": "Bo" }));
    }

    #[test]
    fn a_filter_is_read_as_the_schema_has_the_field() {
        for (name, text, value) in [
            ("name", "true", json!("true")),
            ("name", "7", json!("7")),
            ("name", "", json!("")),
            ("age", "7", json!(7)),
            ("calm", "false", json!(false)),
            ("tags", "5", json!("5")),
            ("scores", "0.5", json!(0.5)),
            ("kind", "exile", json!("exile")),
        ] {
            assert_eq!(filter_value(&part(), name, text).unwrap(), value, "{name}={text}");
        }
        for (name, text) in [
            ("age", "old"),
            ("age", "null"),
            ("calm", "1"),
            ("scores", "[1]"),
            ("home", "{}"),
            ("other", "x"),
        ] {
            assert!(
                matches!(filter_value(&part(), name, text), Err(Error::Invalid { field: "field", .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn a_search_is_bounded() {
        let of = |words: usize, fields: usize| {
            let fields = vec![("name".to_owned(), "x".to_owned()); fields];
            query(&part(), RecordSearch { words: Some("x".repeat(words)), fields })
        };
        assert_eq!(of(MAX_WORDS_BYTES, MAX_FILTERS).unwrap().fields.len(), MAX_FILTERS);
        assert!(matches!(of(MAX_WORDS_BYTES + 1, 0), Err(Error::TooLarge { field: "q", .. })));
        assert!(matches!(of(1, MAX_FILTERS + 1), Err(Error::Invalid { field: "field", .. })));
        let blank = RecordSearch { words: Some(" \t".into()), fields: Vec::new() };
        assert_eq!(query(&part(), blank).unwrap(), RecordQuery::default());
    }
}
