//! `[tool.NAME]`: tools that the app declares, and changes to tools that it does not declare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use protocol::Effect;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::external_tools::{RawFlow, RawHttp, RawWasm};
use super::json::InOrder;
use super::plausible::RawPlausible;
use super::records::{check_field, known_types, record_type};
use crate::source::bounds::WholeNumber;
use crate::source::{FileText, Problem, Spanned};
use crate::{
    AdjustedTool, DeclaredRecordTool, DeclaredTool, Permission, RecordAction, RecordType, ToolKind, ToolRef,
};
use crate::{AppMcpServer, external_tools};

/// Records that one call may need as evidence.
const MAX_REQUIRED: i64 = 50;
const MAX_RESULTS: i64 = 100;
const DEFAULT_RESULTS: usize = 20;
const MAX_MARKER_CHARS: usize = 64;

/// By name, in no order: the places say which came first.
pub(super) type RawTools = BTreeMap<Spanned<String>, RawTool>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTool {
    pub(super) description: Option<Spanned<String>>,
    confirm: Option<Spanned<bool>>,
    policy: Option<Spanned<Permission>>,
    flow: Vec<RawFlow>,
    plausible: Vec<RawPlausible>,
    pub(super) marker: Option<Spanned<String>>,
    pub(super) effect: Option<Spanned<Effect>>,
    pub(super) parameters: Option<Spanned<InOrder>>,
    pub(super) parameters_file: Option<Spanned<String>>,
    pub(super) http: Option<Spanned<RawHttp>>,
    pub(super) undo: Option<Spanned<RawHttp>>,
    pub(super) wasm: Option<Spanned<RawWasm>>,
    client: Option<Spanned<bool>>,
    record: Option<Spanned<String>>,
    does: Option<Spanned<RecordAction>>,
    requires: BTreeMap<Spanned<String>, Spanned<i64>>,
    defaults: BTreeMap<Spanned<String>, toml::Value>,
    fixed: BTreeMap<Spanned<String>, toml::Value>,
    fields: Option<Spanned<Vec<Spanned<String>>>>,
    limit: Option<Spanned<i64>>,
}

/// The parts of an app that its tools refer to.
pub(super) struct ToolContext<'a> {
    pub(super) dir: &'a Path,
    pub(super) types: &'a BTreeMap<String, RecordType>,
    pub(super) listed: &'a [ToolRef],
    pub(super) servers: &'a [AppMcpServer],
}

/// One `[tool.NAME]` or `[mcp.SERVER]` that is being read.
pub(super) struct ToolTable<'a> {
    pub(super) source: FileText<'a>,
    pub(super) beside: &'a ToolContext<'a>,
    /// The full name of the table, for messages.
    pub(super) table: String,
    /// The place of its name in the file.
    pub(super) span: Range<usize>,
}

/// The keys of a table, each with its place where the file has it.
macro_rules! spans {
    ($raw:expr, $($key:ident),*) => {
        [$((stringify!($key), $raw.$key.as_ref().map(Spanned::span))),*]
    };
}

pub(super) use spans;

/// The result of reading a `[tool.NAME]`.
pub(super) enum ReadTool {
    Declared(Box<DeclaredTool>),
    Adjusted(AdjustedTool),
}

/// Reads one table; `tool` is its name and where it stands.
pub(super) fn read_tool_table(
    reading: &ToolTable<'_>,
    tool: ToolRef,
    raw: RawTool,
) -> Result<ReadTool, Problem> {
    let kinds = [
        ("record", raw.record.is_some() || raw.does.is_some()),
        ("http", raw.http.is_some()),
        ("wasm", raw.wasm.is_some()),
        ("client", raw.client.is_some()),
    ];
    let kinds: Vec<&str> = kinds.into_iter().filter(|(_, is_said)| *is_said).map(|(kind, _)| kind).collect();
    match kinds.as_slice() {
        [] => reading.adjusted_tool(tool, raw).map(ReadTool::Adjusted),
        [kind] => {
            reading.declared_tool(tool, kind, raw).map(|declared| ReadTool::Declared(Box::new(declared)))
        }
        several => {
            let message = format!("{} has several kinds: {}", reading.table, several.join(" and "));
            Err(reading.problem(message, "keep one kind, or declare two tools"))
        }
    }
}

impl<'a> ToolTable<'a> {
    /// `kind` is `tool` or `mcp`.
    pub(super) fn new(
        kind: &str,
        name: &Spanned<String>,
        source: FileText<'a>,
        beside: &'a ToolContext<'a>,
    ) -> Self {
        Self { source, beside, table: format!("{kind}.{}", name.get_ref()), span: name.span() }
    }

    fn adjusted_tool(&self, tool: ToolRef, raw: RawTool) -> Result<AdjustedTool, Problem> {
        let of_records = self.of_records(&raw);
        let beyond = spans!(raw, parameters, parameters_file, undo);
        if of_records.into_iter().chain(beyond).any(|(_, span)| span.is_some()) {
            let message = format!("{} names no record type, no request and no module", self.table);
            let remedy = "add record and does, http, wasm or client = true; or keep only description, policy, confirm, \
                effect, flow, plausible and marker";
            return Err(self.problem(message, remedy));
        }
        let effect = raw.effect.as_ref().map(|effect| self.effect_of_server(&tool, effect)).transpose()?;
        Ok(AdjustedTool {
            tool,
            description: self.source.text(&self.field("description"), raw.description)?,
            permission: self.permission(raw.policy, raw.confirm)?,
            effect,
            flows: self.flows(raw.flow)?,
            plausible: self.plausible(raw.plausible, None)?,
            marker: self.marker(raw.marker)?,
        })
    }

    /// The effect of a tool of an MCP server, which the app may have to state in place of the server.
    fn effect_of_server(&self, tool: &ToolRef, effect: &Spanned<Effect>) -> Result<Effect, Problem> {
        let at = |message: String, remedy: &str| self.source.problem(effect.span(), message, remedy);
        if external_tools::server_of(self.beside.servers, &tool.name).is_none() {
            let message =
                format!("{} is not a tool of an MCP server, so its effect is known already", self.table);
            return Err(at(message, "remove effect"));
        }
        if *effect.get_ref() == Effect::Reversible {
            let message = format!("{} is a tool of an MCP server, which cannot be undone", self.table);
            return Err(at(message, "write \"read\", \"idempotent\" or \"irreversible\""));
        }
        Ok(*effect.get_ref())
    }

    fn declared_tool(&self, tool: ToolRef, kind: &str, mut raw: RawTool) -> Result<DeclaredTool, Problem> {
        self.is_free(&tool)?;
        let description = self.source.text(&self.field("description"), raw.description.take())?;
        if description.is_none() && kind != "record" {
            let message = format!("{} has no description", self.table);
            return Err(
                self.problem(message, "add description = \"…\", which tells the model what the tool does")
            );
        }
        let permission = self.permission(raw.policy.take(), raw.confirm.take())?;
        let flows = self.flows(std::mem::take(&mut raw.flow))?;
        let plausible = std::mem::take(&mut raw.plausible);
        let kind = match (raw.http.take(), raw.wasm.take(), raw.client.take()) {
            (Some(http), _, _) => ToolKind::Http(Box::new(self.http(http, raw)?)),
            (None, Some(wasm), _) => ToolKind::Sandbox(self.sandbox(wasm, raw)?),
            (None, None, Some(client)) => ToolKind::Client(self.client(&client, raw)?),
            (None, None, None) => ToolKind::Record(self.record(raw)?),
        };
        let record = match &kind {
            ToolKind::Record(tool) => self.beside.types.get(&tool.record),
            ToolKind::Http(_) | ToolKind::Sandbox(_) | ToolKind::Client(_) => None,
        };
        let plausible = self.plausible(plausible, record)?;
        Ok(DeclaredTool { tool, description, permission, flows, plausible, kind })
    }

    fn is_free(&self, tool: &ToolRef) -> Result<(), Problem> {
        if self.beside.listed.iter().any(|other| other.name == tool.name) {
            let message = format!("the tool {:?} is listed under tools and declared here", tool.name);
            return Err(self.problem(message, "remove one, or give it another name"));
        }
        if let Some(server) = external_tools::server_of(self.beside.servers, &tool.name) {
            let message =
                format!("{:?} is the name of a tool of the MCP server {:?}", tool.name, server.name.name);
            return Err(self.problem(message, "give it another name"));
        }
        Ok(())
    }

    pub(super) fn marker(&self, raw: Option<Spanned<String>>) -> Result<Option<String>, Problem> {
        let Some(marker) = raw else { return Ok(None) };
        let text = marker.get_ref();
        if text.trim().is_empty()
            || text.chars().count() > MAX_MARKER_CHARS
            || text.chars().any(char::is_control)
        {
            let message = format!("{} is {text:?}", self.field("marker"));
            let remedy = format!("write one line of 1 to {MAX_MARKER_CHARS} characters");
            return Err(self.source.problem(marker.span(), message, remedy));
        }
        Ok(Some(marker.into_inner()))
    }

    /// Refuses keys that mean nothing here; `place` says where.
    pub(super) fn refuse<K: Display>(
        &self,
        place: &str,
        said: impl IntoIterator<Item = (K, Option<Range<usize>>)>,
    ) -> Result<(), Problem> {
        match said.into_iter().find_map(|(key, span)| Some((key, span?))) {
            None => Ok(()),
            Some((key, span)) => {
                Err(self.source.problem(span, format!("{key} has no meaning {place}"), "remove it"))
            }
        }
    }

    /// Keys that only a tool over records may have, and where they are.
    pub(super) fn of_records(&self, raw: &RawTool) -> [(&'static str, Option<Range<usize>>); 5] {
        let first = |map: &BTreeMap<Spanned<String>, toml::Value>| map.keys().next().map(Spanned::span);
        [
            ("requires", raw.requires.keys().next().map(Spanned::span)),
            ("defaults", first(&raw.defaults)),
            ("fixed", first(&raw.fixed)),
            ("fields", raw.fields.as_ref().map(Spanned::span)),
            ("limit", raw.limit.as_ref().map(Spanned::span)),
        ]
    }

    fn record(&self, raw: RawTool) -> Result<DeclaredRecordTool, Problem> {
        let Some(does) = raw.does.as_ref().map(|does| *does.get_ref()) else {
            let message = format!("{} does not say what it does", self.table);
            return Err(self.problem(message, format!("add does = {}", RecordAction::choices())));
        };
        let Some(record) = raw.record.as_ref() else {
            let message = format!("{} names no record type", self.table);
            return Err(
                self.problem(message, format!("add record = \"…\"; {}", known_types(self.beside.types)))
            );
        };
        let record = record_type(&self.source, self.beside.types, record)?;
        self.check_keys(does, &raw)?;
        let tool = DeclaredRecordTool {
            record: record.name.clone(),
            does,
            requires: self.requires(raw.requires, record)?,
            defaults: self.values("defaults", raw.defaults, record)?,
            fixed: self.values("fixed", raw.fixed, record)?,
            fields: raw.fields.map(|fields| self.fields(fields.into_inner(), record)).transpose()?,
            limit: self.whole_number("limit", raw.limit, 1..=MAX_RESULTS)?.unwrap_or(DEFAULT_RESULTS),
        };
        self.check_fields(&tool, record)?;
        Ok(tool)
    }

    /// Every key must mean something for the action of the tool.
    fn check_keys(&self, does: RecordAction, raw: &RawTool) -> Result<(), Problem> {
        let of_others = spans!(raw, effect, marker, parameters, parameters_file, undo);
        self.refuse("for a tool over records", of_others)?;
        let writes = matches!(does, RecordAction::Create | RecordAction::Update);
        let fits = |key: &str| match key {
            "defaults" => does == RecordAction::Create,
            "fields" => writes || does == RecordAction::List,
            "limit" => matches!(does, RecordAction::List | RecordAction::Search),
            _ => writes,
        };
        let unfit = self.of_records(raw).into_iter().filter(|(key, _)| !fits(key));
        self.refuse(&format!("for a tool with does = {:?}", does.name()), unfit)
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
            record_type(&self.source, self.beside.types, &kind)?;
            let stored = record.property(kind.get_ref());
            if stored.is_some_and(|field| field.get("type") != Some(&"array".into())) {
                let message =
                    format!("the field {:?} of {} is not a list of ids", kind.get_ref(), record.name);
                let remedy = "make it an array of texts, or give the field another name";
                return Err(self.source.problem(kind.span(), message, remedy));
            }
            let key = format!("requires.{}", kind.get_ref());
            let count = self.whole_number(&key, Some(count), 1..=MAX_REQUIRED)?.unwrap_or(1);
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
            check_field(&self.source, record, field.get_ref(), field.span())?;
            let Some(value) = json(value) else {
                let message = format!("{}.{} has no value in JSON", self.field(key), field.get_ref());
                return Err(self.source.problem(field.span(), message, "write a finite number"));
            };
            values.insert(field.into_inner(), value);
        }
        Ok(values)
    }

    fn fields(&self, raw: Vec<Spanned<String>>, record: &RecordType) -> Result<BTreeSet<String>, Problem> {
        let known =
            |field: &Spanned<String>| check_field(&self.source, record, field.get_ref(), field.span());
        raw.iter().try_for_each(known)?;
        Ok(raw.into_iter().map(Spanned::into_inner).collect())
    }

    /// A field has one source, and a record that is made has all it must have.
    fn check_fields(&self, declared: &DeclaredRecordTool, record: &RecordType) -> Result<(), Problem> {
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
        if let Some(name) = missing.filter(|_| declared.does == RecordAction::Create) {
            let message = format!(
                "{} does not set the field {name:?}, which is required in {}",
                self.table, record.name
            );
            return Err(self.problem(message, "add it to fields, defaults or fixed"));
        }
        Ok(())
    }

    /// A whole number that is the value of a key.
    pub(super) fn whole_number<N: WholeNumber>(
        &self,
        key: &str,
        value: Option<Spanned<i64>>,
        range: RangeInclusive<i64>,
    ) -> Result<Option<N>, Problem> {
        self.source.whole_number(&self.field(key), value, range)
    }

    pub(super) fn field(&self, key: &str) -> String {
        format!("{}.{key}", self.table)
    }

    pub(super) fn problem(&self, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        self.source.problem(self.span.clone(), message, remedy)
    }
}

/// None for a number that JSON cannot say.
pub(super) fn json(value: toml::Value) -> Option<Value> {
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
