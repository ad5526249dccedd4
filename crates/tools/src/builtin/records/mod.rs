//! Tools over the records of an app, as its folder declares them: one type of record, one thing to do with it.
//!
//! The arguments of a call are made from the record's JSON Schema, and the new record is checked against the whole schema
//! again. Evidence counts only as ids of records that exist; what the model says about them does not.

mod arguments;
mod references;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use app::{App, Problem, RecordAction, RecordType, ToolKind, ToolRef};
use async_trait::async_trait;
use jsonschema::Validator;
use protocol::{Effect, RecordId, RecordView};
use serde_json::{Map, Value, json};
use store::{MAX_RECORD_BYTES, RecordQuery, Write};

pub use references::{Reference, references};

use super::{count, found_or_none, object, store_failure, text};
use crate::registry::{MAX_OUTPUT_BYTES, validate};
use crate::{Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput, ToolSpec};

const ID: &str = "id";
const LIMIT: &str = "limit";
const QUERY: &str = "query";
const MAX_QUERY_CHARS: usize = 500;
/// Ids that one call can name as evidence.
const MAX_EVIDENCE: usize = 100;
/// Other records that one record may name.
const MAX_REFERENCES: usize = 200;
/// Bytes of a list, so that it fits into a result.
const MAX_LIST_BYTES: usize = MAX_OUTPUT_BYTES - 1024;
/// Calls that change records are made one after the other.
const RECORDS: &str = "records";

pub(crate) struct RecordTypeTool {
    declared: app::DeclaredRecordTool,
    record: RecordType,
    whole: Validator,
    requirements: Vec<Requirement>,
}

/// Records that must exist before a call can be made.
struct Requirement {
    kind: String,
    count: usize,
    /// The app's tool that makes such records.
    made_by: Option<String>,
}

/// The record that a call would write.
struct Plan {
    id: RecordId,
    data: Map<String, Value>,
    /// The version the record has now; 0 for a new one.
    version: u64,
    changed: bool,
}

impl RecordTypeTool {
    /// The tool, or what is wrong with the schema or the values it is made from.
    pub(crate) fn new(
        tool: &ToolRef,
        declared: &app::DeclaredRecordTool,
        app: &App,
    ) -> Result<Self, Problem> {
        let unknown = || {
            tool.problem(format!("there is no record type {:?}", declared.record), "add it under records/")
        };
        let record = app.records.get(&declared.record).ok_or_else(unknown)?;
        let unfit = |error: &dyn std::fmt::Display| {
            let message = format!("records/{}.json is not a JSON Schema: {error}", record.name);
            tool.problem(message, "correct the schema")
        };
        let whole = record.validator().map_err(|error| unfit(&error))?;
        check_values(tool, declared, record)?;
        let made_by = |kind: &str| {
            let makes = |other: &ToolKind| match other {
                ToolKind::Record(other) => other.does == RecordAction::Create && other.record == kind,
                ToolKind::Http(_) | ToolKind::Sandbox(_) | ToolKind::Client(_) => false,
            };
            app.declared.iter().find(|other| makes(&other.kind)).map(|other| other.tool.name.clone())
        };
        let requirement = |(kind, count): (&String, &usize)| Requirement {
            kind: kind.clone(),
            count: *count,
            made_by: made_by(kind),
        };
        Ok(Self {
            requirements: declared.requires.iter().map(requirement).collect(),
            declared: declared.clone(),
            record: record.clone(),
            whole,
        })
    }

    /// The tool with its spec and its facts.
    pub(crate) fn into_offered_tool(self, name: &str) -> OfferedTool {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: arguments::description(&self.declared, &self.record),
            parameters: arguments::parameters(&self.declared, &self.record),
        };
        let facts = match self.declared.does {
            RecordAction::Search | RecordAction::Get | RecordAction::List => ToolFacts::default(),
            RecordAction::Create | RecordAction::Update | RecordAction::Delete => {
                ToolFacts { effect: Effect::Reversible, exclusive: Some(RECORDS), ..ToolFacts::default() }
            }
        };
        OfferedTool::new(spec, self, facts)
    }

    async fn plan(&self, calling: &Calling<'_>) -> Result<Plan, Failed> {
        let mut given = object(&calling.input);
        given.remove(ID);
        self.check_evidence(calling, &given).await?;
        given.retain(|name, _| self.record.property(name).is_some());
        let plan = if self.declared.does == RecordAction::Update {
            self.plan_update(&self.find_record(calling).await?, given.clone())?
        } else {
            self.plan_create(calling, given.clone())
        };
        let data = Value::Object(plan.data.clone());
        validate(&self.whole, &data)?;
        if data.to_string().len() > MAX_RECORD_BYTES {
            let message = format!("a record holds at most {} KiB; write less", MAX_RECORD_BYTES / 1024);
            return Err(Failed::new("too_large", message));
        }
        self.check_references(calling, &Value::Object(given)).await?;
        Ok(plan)
    }

    fn plan_create(&self, calling: &Calling<'_>, mut data: Map<String, Value>) -> Plan {
        for (name, value) in &self.declared.defaults {
            data.entry(name.clone()).or_insert_with(|| value.clone());
        }
        data.extend(self.declared.fixed.clone());
        Plan { id: calling.ids.record(), data, version: 0, changed: true }
    }

    fn plan_update(&self, row: &RecordView, given: Map<String, Value>) -> Result<Plan, Failed> {
        if given.is_empty() {
            return Err(Failed::new("nothing_to_change", "give at least one field beside the id"));
        }
        let before = object(&row.data);
        let mut data = before.clone();
        for (name, value) in given {
            if value.is_null() && !self.record.requires(&name) {
                data.remove(&name);
            } else {
                data.insert(name, value);
            }
        }
        data.extend(self.declared.fixed.clone());
        Ok(Plan { id: row.id, changed: data != before, data, version: row.version })
    }

    /// The record that the call names.
    async fn find_record(&self, calling: &Calling<'_>) -> Result<RecordView, Failed> {
        let kind = &self.record.name;
        let id = text(&calling.input, ID).unwrap_or_default();
        let missing = || Failed::new("not_found", format!("there is no {kind} record with the id {id}"));
        let id: RecordId = id.parse().map_err(|_| missing())?;
        found_or_none(calling.store.record_of(calling.scope, kind, id).await)?.ok_or_else(missing)
    }

    async fn check_evidence(&self, calling: &Calling<'_>, given: &Map<String, Value>) -> Result<(), Failed> {
        for Requirement { kind, count, made_by } in &self.requirements {
            let named = given.get(kind).and_then(Value::as_array).into_iter().flatten();
            let texts: BTreeSet<&str> = named.filter_map(Value::as_str).collect();
            let ids: Vec<RecordId> = texts.iter().filter_map(|id| id.parse().ok()).collect();
            let exist =
                calling.store.count_records(calling.scope, kind, &ids).await.map_err(store_failure)?;
            if exist < *count {
                let how = made_by.as_ref().map(|tool| format!(" with {tool}")).unwrap_or_default();
                let message = format!(
                    "{count} distinct {kind} records are needed, {exist} of the ids given exist; \
                     add {kind} first{how}"
                );
                return Err(Failed::new("evidence_required", message));
            }
            if exist < texts.len() {
                let message = format!("{kind}: {} of the ids do not exist", texts.len() - exist);
                return Err(Failed::new("not_found", message));
            }
        }
        Ok(())
    }

    async fn check_references(&self, calling: &Calling<'_>, given: &Value) -> Result<(), Failed> {
        let named = references(&self.record.schema, given);
        if named.len() > MAX_REFERENCES {
            let message = format!("a call can name at most {MAX_REFERENCES} other records");
            return Err(Failed::new("too_large", message));
        }
        for Reference { place, kind, id } in named {
            let exists = match id.parse() {
                Ok(id) => {
                    calling.store.count_records(calling.scope, kind, &[id]).await.map_err(store_failure)? == 1
                }
                Err(_) => false,
            };
            if !exists {
                return Err(Failed::new("not_found", format!("{place}: there is no {kind} record {id}")));
            }
        }
        Ok(())
    }

    async fn write(&self, calling: &Calling<'_>) -> Result<ToolOutput, Failed> {
        let Plan { id, data, version, changed } = self.plan(calling).await?;
        let kind = self.record.name.clone();
        let data = Value::Object(data);
        if !changed {
            return Ok(json!({ "id": id, "type": kind, "version": version, "data": data }).into());
        }
        let output = json!({ "id": id, "type": kind, "version": version + 1, "data": data });
        Ok(ToolOutput::with_write(output, Write::Record { id, kind, data: Some(data), expected: version }))
    }

    async fn delete(&self, calling: &Calling<'_>) -> Result<ToolOutput, Failed> {
        let RecordView { id, kind, version, .. } = self.find_record(calling).await?;
        let output = json!({ "id": id, "type": kind, "deleted": true });
        Ok(ToolOutput::with_write(output, Write::Record { id, kind, data: None, expected: version }))
    }

    async fn find(&self, calling: &Calling<'_>) -> Result<ToolOutput, Failed> {
        let mut fields = object(&calling.input);
        let limit = count(&calling.input, LIMIT).unwrap_or(self.declared.limit).min(self.declared.limit);
        fields.remove(LIMIT);
        let query = if self.declared.does == RecordAction::Search {
            let words = text(&calling.input, QUERY).unwrap_or_default();
            RecordQuery { text: Some(words.to_owned()), fields: Vec::new() }
        } else {
            RecordQuery { text: None, fields: fields.into_iter().collect() }
        };
        let name = &self.record.name;
        let rows = store::newest_records(calling.store, calling.scope, name, query, limit + 1)
            .await
            .map_err(store_failure)?;
        let mut records = Vec::new();
        let mut bytes = 0;
        for record in rows.iter().take(limit).map(view) {
            bytes += record.to_string().len() + 1;
            if bytes > MAX_LIST_BYTES {
                break;
            }
            records.push(record);
        }
        let more = records.len() < rows.len();
        Ok(json!({ "records": records, "more": more }).into())
    }
}

#[async_trait]
impl Tool for RecordTypeTool {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        match self.declared.does {
            RecordAction::Create | RecordAction::Update => self.plan(calling).await.map(drop),
            RecordAction::Delete | RecordAction::Get => self.find_record(calling).await.map(drop),
            RecordAction::Search | RecordAction::List => Ok(()),
        }
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        match self.declared.does {
            RecordAction::Create | RecordAction::Update => self.write(&calling).await,
            RecordAction::Delete => self.delete(&calling).await,
            RecordAction::Get => self.find_record(&calling).await.map(|row| view(&row).into()),
            RecordAction::Search | RecordAction::List => self.find(&calling).await,
        }
    }
}

fn view(row: &RecordView) -> Value {
    json!({
        "id": row.id,
        "type": row.kind,
        "version": row.version,
        "updatedAt": row.updated_at,
        "data": row.data,
    })
}

/// Values that the app sets by itself must fit their fields.
fn check_values(
    tool: &ToolRef,
    declared: &app::DeclaredRecordTool,
    record: &RecordType,
) -> Result<(), Problem> {
    let mut loose = record.schema.clone();
    if let Some(schema) = loose.as_object_mut() {
        schema.remove("required");
    }
    let unfit = |what: String| tool.problem(what, "write values that fit the record's schema");
    let fields = app::record_validator(&loose).map_err(|error| unfit(error.to_string()))?;
    for (key, values) in [("defaults", &declared.defaults), ("fixed", &declared.fixed)] {
        validate(&fields, &Value::Object(values.clone())).map_err(|failed| {
            unfit(format!("{key} does not fit records/{}.json: {}", record.name, failed.message))
        })?;
    }
    Ok(())
}
