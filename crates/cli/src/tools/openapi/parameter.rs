//! The parameters of an operation: what of a request each of them fills, and how.

use serde_json::{Map, Value};

use super::arguments::{json, list_template, value_template};
use super::operation::OperationDraft;
use super::schema;

/// Headers that say how a message is sent or what it is, which are not for a call to choose; and the key that is sent
/// with every call anyway.
const OWN_HEADERS: &str = "accept authorization connection content-length content-type cookie host idempotency-key \
                           transfer-encoding";

/// The name of an object that would have to be taken apart and cannot be.
const APART: &str = "is an object whose fields cannot be told apart";

/// One parameter, after its reference was followed.
struct Parameter<'a> {
    name: &'a str,
    required: bool,
    style: Option<&'a str>,
    explode: Option<bool>,
    schema: Map<String, Value>,
    is_json: bool,
}

/// How a value is written.
enum ParameterKind {
    Json,
    Single,
    List,
    Object,
}

impl ParameterKind {
    /// The template of an argument. The items of a list have `between` between them.
    fn template(&self, argument: &str, between: char) -> String {
        match self {
            ParameterKind::Single | ParameterKind::Object => value_template(argument),
            ParameterKind::List => list_template(argument, between),
            ParameterKind::Json => json(argument),
        }
    }
}

impl Parameter<'_> {
    fn kind(&self) -> ParameterKind {
        if self.is_json {
            ParameterKind::Json
        } else if schema::is_of(&self.schema, "array") {
            ParameterKind::List
        } else if schema::is_of(&self.schema, "object") {
            ParameterKind::Object
        } else {
            ParameterKind::Single
        }
    }
}

impl<'a> OperationDraft<'a> {
    /// The parameters of the path and the operation; those of the operation replace others of the same name and place.
    pub(super) fn parameters(&mut self, lists: [Option<&'a Value>; 2]) -> Result<(), String> {
        let mut all: Vec<(&str, &str, &'a Value)> = Vec::new();
        for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
            let parameter = self.document.follow(parameter)?;
            let text = |key: &str| parameter.get(key).and_then(Value::as_str);
            let (Some(name), Some(place)) = (text("name"), text("in")) else {
                return Err("a parameter has no name or no location (\"in\")".into());
            };
            all.retain(|(other, where_, _)| (*other, *where_) != (name, place));
            all.push((name, place, parameter));
        }
        for (name, place, raw) in all {
            let read = self.read(name, raw);
            match place {
                "path" => self.in_path(read)?,
                "query" => self.in_query(read)?,
                "header" => self.in_header(read)?,
                "cookie" => self.note(format!("the cookie {name:?} is left out")),
                other => return Err(format!("the parameter {name:?} is in {other:?}")),
            }
        }
        Ok(())
    }

    fn read(&mut self, name: &'a str, raw: &'a Value) -> Parameter<'a> {
        let content = raw.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
        let described = content.map_or(Some(raw), |(_, media)| Some(media)).and_then(|of| of.get("schema"));
        let mut schema = described.map(|schema| self.schemas.convert(schema)).unwrap_or_default();
        schema.extend(raw.as_object().and_then(schema::description));
        Parameter {
            name,
            required: raw.get("required") == Some(&Value::Bool(true)),
            style: raw.get("style").and_then(Value::as_str),
            explode: raw.get("explode").and_then(Value::as_bool),
            schema,
            is_json: content.is_some_and(|(media, _)| media.contains("json")),
        }
    }

    fn in_path(&mut self, parameter: Parameter<'a>) -> Result<(), String> {
        if !self.has_placeholder(parameter.name) {
            return Ok(());
        }
        let name = parameter.name;
        if let Some(style) = parameter.style.filter(|style| *style != "simple") {
            return Err(format!("the path writes {name:?} in the style {style:?}"));
        }
        let kind = parameter.kind();
        if matches!(kind, ParameterKind::Object) {
            return Err(format!("the parameter {name:?} of the path {APART}"));
        }
        let argument = self.arguments.add(name, "path", parameter.schema, true)?;
        self.filled.insert(name, kind.template(&argument, ','));
        Ok(())
    }

    fn in_query(&mut self, parameter: Parameter<'a>) -> Result<(), String> {
        let name = parameter.name;
        if self.query.iter().any(|(other, _)| other == name) {
            return Ok(()); // a secret is sent there
        }
        let explode = parameter.explode.unwrap_or(matches!(parameter.style, None | Some("form")));
        let template = match parameter.kind() {
            ParameterKind::Object => return self.add_fields(&parameter, explode),
            ParameterKind::List if explode => {
                value_template(&self.one_of(name, "query", parameter.schema, parameter.required)?)
            }
            kind @ (ParameterKind::Single | ParameterKind::Json | ParameterKind::List) => {
                let between = match parameter.style {
                    Some("spaceDelimited") => ' ',
                    Some("pipeDelimited") => '|',
                    _ => ',',
                };
                let argument = self.arguments.add(name, "query", parameter.schema, parameter.required)?;
                kind.template(&argument, between)
            }
        };
        self.query.push((name.to_owned(), template));
        Ok(())
    }

    /// A request has each name once, so of a list whose name is repeated one value can be given.
    fn one_of(
        &mut self,
        name: &str,
        place: &str,
        mut schema: Map<String, Value>,
        is_required: bool,
    ) -> Result<String, String> {
        let mut item = match schema.shift_remove("items") {
            Some(Value::Object(item)) => item,
            _ => Map::new(),
        };
        item.extend(schema.shift_remove_entry("description"));
        self.note(format!("{name:?} takes one value, since a name cannot be repeated"));
        self.arguments.add(name, place, item, is_required)
    }

    /// Each field of an object is a parameter of its own.
    fn add_fields(&mut self, parameter: &Parameter<'a>, explode: bool) -> Result<(), String> {
        let Parameter { name, required, schema, .. } = parameter;
        let is_deep = parameter.style == Some("deepObject");
        if !(is_deep || explode) || schema::properties(schema).next().is_none() {
            return self.leave_out(*required, format!("the parameter {name:?} {APART}"));
        }
        for (field, of, is_required) in schema::properties(schema) {
            let must = *required && is_required;
            let written = if is_deep { format!("{name}[{field}]") } else { field.clone() };
            if schema::is_of(&of, "array") || schema::is_of(&of, "object") {
                self.leave_out(must, format!("{written:?} is more than one value"))?;
                continue;
            }
            if self.query.iter().any(|(other, _)| *other == written) {
                continue;
            }
            let template = value_template(&self.arguments.add(&written, "query", of, must)?);
            self.query.push((written, template));
        }
        Ok(())
    }

    fn in_header(&mut self, parameter: Parameter<'a>) -> Result<(), String> {
        let name = parameter.name;
        let mut taken = self.headers.iter().map(|(other, _)| other.as_str()).chain(OWN_HEADERS.split(' '));
        if taken.any(|other| other.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return self.leave_out(parameter.required, format!("{name:?} cannot be a header's name"));
        }
        let kind = parameter.kind();
        if matches!(kind, ParameterKind::Object) {
            return self.leave_out(parameter.required, format!("the header {name} {APART}"));
        }
        let argument = self.arguments.add(name, "header", parameter.schema, parameter.required)?;
        self.headers.push((name.to_owned(), kind.template(&argument, ',')));
        Ok(())
    }

    /// A required part cannot be left out of a call.
    pub(super) fn leave_out(&mut self, is_required: bool, reason: String) -> Result<(), String> {
        if is_required {
            return Err(reason);
        }
        self.note(format!("{reason}, and is left out"));
        Ok(())
    }

    /// The fields of a form, of which each name stands once.
    pub(super) fn form(&mut self, schema: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
        let mut form = Vec::new();
        for (name, of, is_required) in schema::properties(schema) {
            if schema::is_of(&of, "object") {
                self.leave_out(is_required, format!("the field {name:?} {APART}"))?;
                continue;
            }
            let argument = if schema::is_of(&of, "array") {
                self.one_of(name, "body", of, is_required)?
            } else {
                self.arguments.add(name, "body", of, is_required)?
            };
            form.push((name.clone(), value_template(&argument)));
        }
        Ok(form)
    }
}
