//! `[tool.NAME]`: tools over records that the app declares, and what it says about tools it lists.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::records::known;
use crate::source::{Problem, Source, Spanned};
use crate::types::{Adjusted, Declared, Does, Permission, RecordType, ToolRef};

/// Records that one call may need as evidence.
const MAX_REQUIRED: i64 = 50;
const MAX_RESULTS: i64 = 100;
const DEFAULT_RESULTS: usize = 20;

/// By name, in no order: the places say which came first.
pub(super) type RawTools = BTreeMap<Spanned<String>, RawTool>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTool {
    record: Option<Spanned<String>>,
    does: Option<Spanned<Does>>,
    description: Option<Spanned<String>>,
    requires: BTreeMap<Spanned<String>, Spanned<i64>>,
    confirm: Option<Spanned<bool>>,
    policy: Option<Spanned<Permission>>,
    defaults: BTreeMap<Spanned<String>, toml::Value>,
    fixed: BTreeMap<Spanned<String>, toml::Value>,
    fields: Option<Spanned<Vec<Spanned<String>>>>,
    limit: Option<Spanned<i64>>,
}

/// What a `[tool.NAME]` is read against.
struct Reading<'a> {
    source: &'a Source<'a>,
    types: &'a BTreeMap<String, RecordType>,
    /// The full name of the table, for messages.
    table: String,
    /// Where its name stands.
    span: Range<usize>,
}

pub(super) fn declared(
    source: &Source<'_>,
    raw: RawTools,
    types: &BTreeMap<String, RecordType>,
    listed: &[ToolRef],
) -> Result<(Vec<Declared>, Vec<Adjusted>), Problem> {
    let mut in_order: Vec<(Spanned<String>, RawTool)> = raw.into_iter().collect();
    in_order.sort_by_key(|(name, _)| name.span().start);
    let (mut declared, mut adjusted) = (Vec::new(), Vec::new());
    for (name, tool) in in_order {
        let place = super::tool_ref(source, &name)?;
        let reading = Reading { source, types, table: format!("tool.{}", place.name), span: name.span() };
        if tool.record.is_none() && tool.does.is_none() {
            adjusted.push(reading.adjusted(place, tool)?);
        } else if listed.iter().any(|other| other.name == place.name) {
            let message = format!("the tool {:?} is listed under tools and declared here", place.name);
            return Err(source.problem(reading.span, message, "remove one, or give it another name"));
        } else {
            declared.push(reading.declared(place, tool)?);
        }
    }
    Ok((declared, adjusted))
}

impl Reading<'_> {
    fn adjusted(&self, tool: ToolRef, raw: RawTool) -> Result<Adjusted, Problem> {
        let beyond = !raw.requires.is_empty()
            || !raw.defaults.is_empty()
            || !raw.fixed.is_empty()
            || raw.fields.is_some()
            || raw.limit.is_some();
        if beyond {
            let message = format!("{} names no record type", self.table);
            return Err(self.problem(message, "add record and does, or keep only policy and description"));
        }
        Ok(Adjusted {
            tool,
            description: self.source.text(&self.field("description"), raw.description)?,
            permission: self.permission(raw.policy, raw.confirm)?,
        })
    }

    fn declared(&self, tool: ToolRef, raw: RawTool) -> Result<Declared, Problem> {
        let Some(does) = raw.does.as_ref().map(|does| *does.get_ref()) else {
            let message = format!("{} does not say what it does", self.table);
            return Err(self.problem(message, format!("add does = {}", Does::choices())));
        };
        let Some(record) = raw.record.as_ref() else {
            let message = format!("{} names no record type", self.table);
            return Err(self.problem(message, format!("add record = \"…\"; {}", known(self.types))));
        };
        let record = self.record_type(record)?;
        self.fits(does, &raw)?;
        let declared = Declared {
            tool,
            record: record.name.clone(),
            does,
            description: self.source.text(&self.field("description"), raw.description)?,
            permission: self.permission(raw.policy, raw.confirm)?,
            requires: self.requires(raw.requires, record)?,
            defaults: self.values("defaults", raw.defaults, record)?,
            fixed: self.values("fixed", raw.fixed, record)?,
            fields: raw.fields.map(|fields| self.fields(fields.into_inner(), record)).transpose()?,
            limit: self
                .source
                .whole(&self.field("limit"), raw.limit, 1..=MAX_RESULTS)?
                .unwrap_or(DEFAULT_RESULTS),
        };
        self.consistent(&declared, record)?;
        Ok(declared)
    }

    fn record_type(&self, name: &Spanned<String>) -> Result<&RecordType, Problem> {
        self.types.get(name.get_ref()).ok_or_else(|| {
            let message = format!("there is no record type {:?}", name.get_ref());
            self.source.problem(name.span(), message, known(self.types))
        })
    }

    /// What is said must mean something for what the tool does.
    fn fits(&self, does: Does, raw: &RawTool) -> Result<(), Problem> {
        let first = |map: &BTreeMap<Spanned<String>, toml::Value>| map.keys().next().map(Spanned::span);
        let writes = matches!(does, Does::Create | Does::Update);
        let finds = matches!(does, Does::List | Does::Search);
        let said = [
            ("requires", raw.requires.keys().next().map(Spanned::span), writes),
            ("defaults", first(&raw.defaults), does == Does::Create),
            ("fixed", first(&raw.fixed), writes),
            ("fields", raw.fields.as_ref().map(Spanned::span), writes || does == Does::List),
            ("limit", raw.limit.as_ref().map(Spanned::span), finds),
        ];
        for (key, span, fits) in said {
            if let Some(span) = span.filter(|_| !fits) {
                let message = format!("{key} means nothing for a tool that does {:?}", does.name());
                return Err(self.source.problem(span, message, "remove it"));
            }
        }
        Ok(())
    }

    fn permission(
        &self,
        policy: Option<Spanned<Permission>>,
        confirm: Option<Spanned<bool>>,
    ) -> Result<Option<Permission>, Problem> {
        match (policy, confirm) {
            (Some(_), Some(confirm)) => {
                let message = format!("{} has both policy and confirm", self.table);
                Err(self.source.problem(
                    confirm.span(),
                    message,
                    "keep one; confirm = true is policy = \"ask\"",
                ))
            }
            (policy, None) => Ok(policy.map(Spanned::into_inner)),
            (None, Some(confirm)) => Ok(confirm.into_inner().then_some(Permission::Ask)),
        }
    }

    fn requires(
        &self,
        raw: BTreeMap<Spanned<String>, Spanned<i64>>,
        record: &RecordType,
    ) -> Result<BTreeMap<String, usize>, Problem> {
        let mut requires = BTreeMap::new();
        for (kind, count) in raw {
            self.record_type(&kind)?;
            let stored = record.property(kind.get_ref());
            if stored.is_some_and(|field| field.get("type") != Some(&"array".into())) {
                let message = format!("the field {:?} of {} is no list of ids", kind.get_ref(), record.name);
                let remedy = "make it an array of texts, or give the field another name";
                return Err(self.source.problem(kind.span(), message, remedy));
            }
            let field = self.field(&format!("requires.{}", kind.get_ref()));
            let count = self.source.whole(&field, Some(count), 1..=MAX_REQUIRED)?.unwrap_or(1);
            requires.insert(kind.into_inner(), count);
        }
        Ok(requires)
    }

    fn values(
        &self,
        key: &str,
        raw: BTreeMap<Spanned<String>, toml::Value>,
        record: &RecordType,
    ) -> Result<Map<String, Value>, Problem> {
        let mut values = Map::new();
        for (field, value) in raw {
            self.known_field(&field, record)?;
            let Some(value) = json(value) else {
                let message = format!("{}.{} has no value in JSON", self.field(key), field.get_ref());
                return Err(self.source.problem(field.span(), message, "write a finite number"));
            };
            values.insert(field.into_inner(), value);
        }
        Ok(values)
    }

    fn fields(&self, raw: Vec<Spanned<String>>, record: &RecordType) -> Result<BTreeSet<String>, Problem> {
        raw.iter().try_for_each(|field| self.known_field(field, record))?;
        Ok(raw.into_iter().map(Spanned::into_inner).collect())
    }

    fn known_field(&self, field: &Spanned<String>, record: &RecordType) -> Result<(), Problem> {
        if record.property(field.get_ref()).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = record.properties().map(|(name, _)| name.as_str()).collect();
        let message = format!("records of the type {:?} have no field {:?}", record.name, field.get_ref());
        Err(self.source.problem(field.span(), message, format!("use one of {}", names.join(", "))))
    }

    /// A field has one source, and a record that is made has all it must have.
    fn consistent(&self, declared: &Declared, record: &RecordType) -> Result<(), Problem> {
        let given = |name: &String| declared.fields.as_ref().is_none_or(|fields| fields.contains(name));
        let sources = |name: &String| {
            let named = declared.fields.as_ref().is_some_and(|fields| fields.contains(name));
            [
                declared.fixed.contains_key(name) && (named || declared.defaults.contains_key(name)),
                declared.requires.contains_key(name)
                    && (declared.fixed.contains_key(name) || declared.defaults.contains_key(name)),
            ]
        };
        let names = || record.properties().map(|(name, _)| name);
        if let Some(name) = names().find(|name| sources(name).contains(&true)) {
            let message = format!("{} gives the field {name:?} more than one source", self.table);
            return Err(self.problem(message, "keep one of fixed, defaults, requires and fields for it"));
        }
        let supplied = |name: &String| {
            given(name)
                || declared.defaults.contains_key(name)
                || declared.fixed.contains_key(name)
                || declared.requires.contains_key(name)
        };
        let missing = names().find(|name| record.requires(name) && !supplied(name));
        if let Some(name) = missing.filter(|_| declared.does == Does::Create) {
            let message =
                format!("{} leaves out the field {name:?}, which every {} has", self.table, record.name);
            return Err(self.problem(message, "add it to fields, defaults or fixed"));
        }
        Ok(())
    }

    fn field(&self, key: &str) -> String {
        format!("{}.{key}", self.table)
    }

    fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        self.source.problem(self.span.clone(), message, remedy)
    }
}

/// None for a number that JSON cannot say.
fn json(value: toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        toml::Value::Table(table) => Value::Object(
            table.into_iter().map(|(key, value)| Some((key, json(value)?))).collect::<Option<_>>()?,
        ),
    })
}
