//! One operation as the declaration of a tool.

use std::collections::{BTreeMap, BTreeSet};

use app::{HttpMethod, Names, UrlTemplate};
use protocol::Effect;
use serde_json::{Map, Value};

use super::address::BaseAddress;
use super::arguments::{Arguments, value_template};
use super::document::OpenApiDocument;
use super::schema::SchemaReader;
use super::security::{Credential, CredentialLocation, credentials};
use super::words;

/// Parameters, headers or fields of one request, as an app may have them.
const MAX_FIELDS: usize = 64;

/// An operation where it stands in the description.
#[derive(Clone, Copy)]
pub(super) struct FoundOperation<'a> {
    pub(super) path: &'a str,
    pub(super) method: HttpMethod,
    pub(super) item: &'a Value,
    pub(super) operation: &'a Value,
}

impl<'a> FoundOperation<'a> {
    pub(super) fn id(&self) -> Option<&'a str> {
        self.operation.get("operationId").and_then(Value::as_str).filter(|id| !id.trim().is_empty())
    }

    /// Method and path.
    pub(super) fn line(&self) -> String {
        words::line(&format!("{} {}", self.method.name(), self.path))
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.operation.get("deprecated") == Some(&Value::Bool(true))
    }

    pub(super) fn has_tag(&self, tags: &[String]) -> bool {
        super::schema::names(self.operation.get("tags")).any(|tag| tags.iter().any(|wanted| wanted == tag))
    }

    fn description(&self) -> String {
        let text = |key: &str| self.operation.get(key).and_then(Value::as_str).map(words::line);
        let (summary, description) =
            (text("summary").unwrap_or_default(), text("description").unwrap_or_default());
        let both = match (summary.as_str(), description.as_str()) {
            ("", _) => description,
            (_, "") => summary,
            _ if description.starts_with(&summary) => description,
            _ if summary.ends_with(['.', '!', '?']) => format!("{summary} {description}"),
            _ => format!("{summary}. {description}"),
        };
        if both.is_empty() { self.line() } else { words::line(&both) }
    }

    fn effect(&self) -> Effect {
        match self.method {
            HttpMethod::Get | HttpMethod::Head => Effect::Read,
            HttpMethod::Put | HttpMethod::Delete => Effect::Idempotent,
            HttpMethod::Post | HttpMethod::Patch => Effect::Irreversible,
        }
    }
}

/// A tool that can be declared.
pub(crate) struct ToolDeclaration {
    pub(crate) name: String,
    /// Method and path.
    pub(crate) line: String,
    pub(crate) effect: Effect,
    pub(super) credentials: Vec<Credential>,
    /// Scheme, host and port.
    pub(super) origin: String,
    /// As the table of the tool.
    pub(super) table: Map<String, Value>,
    pub(super) notes: BTreeSet<String>,
}

/// A tool that is being made of an operation.
pub(super) struct OperationDraft<'a> {
    pub(super) document: &'a OpenApiDocument,
    pub(super) schemas: SchemaReader<'a>,
    pub(super) arguments: Arguments,
    /// The texts of the path, each with the name of the placeholder behind it.
    path: Vec<(&'a str, Option<&'a str>)>,
    /// The templates that stand for placeholders.
    pub(super) filled: BTreeMap<&'a str, String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, String)>,
}

/// The declaration, or why there can be none.
pub(super) fn declare(
    document: &OpenApiDocument,
    found: FoundOperation<'_>,
    base: &BaseAddress,
    name: String,
) -> Result<ToolDeclaration, String> {
    let credentials = credentials(document, found.operation, &base.owner)?;
    let mut draft = OperationDraft {
        document,
        schemas: SchemaReader::new(document),
        arguments: Arguments::default(),
        path: pieces(found.path)?,
        filled: BTreeMap::new(),
        query: Vec::new(),
        headers: Vec::new(),
    };
    for Credential { place, entry, .. } in &credentials {
        match place {
            CredentialLocation::Header => draft.headers.push(entry.clone()),
            CredentialLocation::Query => draft.query.push(entry.clone()),
        }
    }
    draft.parameters([found.item.get("parameters"), found.operation.get("parameters")])?;
    draft.fill_rest()?;
    let can_have_body = !matches!(found.method, HttpMethod::Get | HttpMethod::Head);
    let body = match found.operation.get("requestBody") {
        Some(raw) => draft.body(raw, can_have_body)?,
        None => None,
    };
    let url = draft.url(&base.url)?;
    let mut http = Map::new();
    http.insert("method".into(), found.method.name().into());
    http.insert("url".into(), url.into());
    let OperationDraft { schemas, arguments, query, headers, .. } = draft;
    http.extend(table("query", query)?);
    http.extend(table("headers", headers)?);
    http.extend(body);
    let effect = found.effect();
    let mut declaration = Map::new();
    declaration.insert("description".into(), found.description().into());
    declaration.insert("effect".into(), effect.name().into());
    if let Some(parameters) = arguments.schema() {
        jsonschema::validator_for(&parameters).map_err(|error| format!("its arguments: {error}"))?;
        declaration.insert("parameters".into(), parameters);
    }
    declaration.insert("http".into(), http.into());
    let (origin, notes) = (base.origin.clone(), schemas.notes);
    Ok(ToolDeclaration { name, line: found.line(), effect, credentials, origin, table: declaration, notes })
}

pub(super) fn object(fields: Vec<(String, String)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, template)| (name, template.into())).collect())
}

/// The fields as an entry of a request; none when there are none.
pub(super) fn table(key: &str, fields: Vec<(String, String)>) -> Result<Option<(String, Value)>, String> {
    if fields.len() > MAX_FIELDS {
        return Err(format!("it has more than {MAX_FIELDS} entries in its {key}"));
    }
    Ok((!fields.is_empty()).then(|| (key.to_owned(), object(fields))))
}

impl<'a> OperationDraft<'a> {
    pub(super) fn note(&mut self, note: String) {
        self.schemas.notes.insert(note);
    }

    fn placeholders(&self) -> impl Iterator<Item = &'a str> {
        self.path.iter().filter_map(|(_, name)| *name)
    }

    pub(super) fn has_placeholder(&self, name: &str) -> bool {
        self.placeholders().any(|other| other == name)
    }

    /// A name in the path that no parameter describes is a text.
    fn fill_rest(&mut self) -> Result<(), String> {
        let names: BTreeSet<&'a str> =
            self.placeholders().filter(|name| !self.filled.contains_key(name)).collect();
        for name in names {
            let schema = Map::from_iter([("type".to_owned(), "string".into())]);
            let argument = self.arguments.add(name, "path", schema, true)?;
            self.filled.insert(name, value_template(&argument));
        }
        Ok(())
    }

    /// Checked as an app checks it.
    fn url(&self, base: &str) -> Result<String, String> {
        let mut url = base.trim_end_matches('/').to_owned();
        for (text, name) in &self.path {
            url.push_str(&percent_encoded(text));
            url.extend(name.and_then(|name| self.filled.get(name)).map(String::as_str));
        }
        UrlTemplate::new(&url, Names::Call).map_err(|mistake| format!("its address: {mistake}"))?;
        Ok(url)
    }
}

/// Cuts a path at its `{placeholders}`.
fn pieces(path: &str) -> Result<Vec<(&str, Option<&str>)>, String> {
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err("its path does not begin with a slash, or has a query in it".into());
    }
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((text, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}').filter(|(name, _)| !name.contains('{')) else {
            return Err("its path has braces that name nothing".into());
        };
        pieces.push((text, Some(name)));
        rest = after;
    }
    pieces.push((rest, None));
    Ok(pieces)
}

/// Percent-encodes every character that could mean something in an address or a template; what is encoded stays so.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let is_escape = || {
            let digits = text.as_bytes().get(at + 1..at + 3);
            byte == b'%' && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) || is_escape() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
