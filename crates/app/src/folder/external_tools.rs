//! `[tool.NAME.http]`, `[tool.NAME.wasm]` and `[[tool.NAME.flow]]`: HTTP tools, tools in a sandbox, and
//! rules for calls after external text.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use protocol::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::declared_tools::{RawTool, ToolTable, spans};
use super::json::InOrder;
use super::{is_tool_name, schema};
use crate::external_tools::Writing;
use crate::source::{Problem, Spanned, read_file};
use crate::template::Mistake;
use crate::{
    AnswerPart, BodyTemplate, DeclaredClientTool, FlowRule, HttpMethod, HttpTool, JsonTemplate, Names,
    RequestTemplate, SandboxTool, TextTemplate, UrlTemplate,
};

/// Of a request, or of a connection to a server.
pub(super) const MAX_TIMEOUT_SECONDS: i64 = 600;
/// Parameters, headers or fields of one request.
const MAX_FIELDS: usize = 64;
const MAX_ACCEPTED: usize = 20;
const MAX_FLOWS: usize = 50;
const MAX_SOURCES: usize = 128;
const MAX_MODULE_BYTES: u64 = 8 * 1024 * 1024;
/// The first bytes of every WebAssembly module.
const MAGIC: &[u8] = b"\0asm";
const FUEL: std::ops::RangeInclusive<i64> = 1_000..=10_000_000_000;
const DEFAULT_FUEL: u64 = 100_000_000;
const MAX_MEMORY_MB: i64 = 256;
const DEFAULT_MEMORY_MB: usize = 16;
const MEGABYTE: usize = 1024 * 1024;
const MAX_SANDBOX_SECONDS: i64 = 60;
const DEFAULT_SANDBOX_SECONDS: std::time::Duration = std::time::Duration::from_secs(5);
/// Headers that say how a message is sent, which is not for an app to choose.
const FORBIDDEN_HEADERS: &[&str] = &["host", "content-length", "transfer-encoding", "connection"];

/// Templates by name, in no order: the places say which came first.
pub(super) type RawTexts = BTreeMap<Spanned<String>, Spanned<String>>;

/// Templates by name, in the order of the file.
type NamedTemplates = Vec<(String, TextTemplate)>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawHttp {
    method: HttpMethod,
    url: Option<Spanned<String>>,
    query: RawTexts,
    headers: RawTexts,
    body: Option<Spanned<InOrder>>,
    form: Option<Spanned<RawTexts>>,
    text: Option<Spanned<String>>,
    timeout_seconds: Option<Spanned<i64>>,
    result: Option<Spanned<String>>,
    result_template: Option<Spanned<String>>,
    retry: Option<Spanned<bool>>,
    accept_status: Option<Spanned<Vec<Spanned<i64>>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawWasm {
    module: Option<Spanned<String>>,
    fuel: Option<Spanned<i64>>,
    memory_mb: Option<Spanned<i64>>,
    timeout_seconds: Option<Spanned<i64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFlow {
    from: Option<Spanned<Vec<Spanned<String>>>>,
    input: Option<Spanned<InOrder>>,
}

impl ToolTable<'_> {
    pub(super) fn http(&self, http: Spanned<RawHttp>, raw: RawTool) -> Result<HttpTool, Problem> {
        self.refuse("for an HTTP tool", self.of_records(&raw))?;
        let span = http.span();
        let mut http = http.into_inner();
        let effect = raw.effect.map_or_else(|| usual_effect(http.method), Spanned::into_inner);
        let undo = match (raw.undo, effect == Effect::Reversible) {
            (Some(undo), true) => Some(self.undo(undo)?),
            (None, false) => None,
            (Some(undo), false) => {
                let message = format!("{} has an undo, and its effect is {:?}", self.table, effect.name());
                return Err(self.source.problem(
                    undo.span(),
                    message,
                    "write effect = \"reversible\", or remove the undo",
                ));
            }
            (None, true) => {
                let message = format!("{} is reversible, and has no undo", self.table);
                return Err(
                    self.problem(message, format!("add [{}.undo], or write another effect", self.table))
                );
            }
        };
        let retry = self.retry(http.retry.take(), effect)?;
        let answer = self.answer(http.result.take(), http.result_template.take())?;
        let accept_status = self.accepted_statuses(http.accept_status.take())?;
        Ok(HttpTool {
            effect,
            marker: self.marker(raw.marker)?,
            parameters: self.parameters(raw.parameters, raw.parameters_file)?,
            request: self.request("http", span, http, Names::Call)?,
            undo,
            answer,
            retry,
            accept_status,
        })
    }

    fn undo(&self, raw: Spanned<RawHttp>) -> Result<RequestTemplate, Problem> {
        let span = raw.span();
        let raw = raw.into_inner();
        self.refuse("for an undo", spans!(raw, result, result_template, retry, accept_status))?;
        self.request("undo", span, raw, Names::Undo)
    }

    fn retry(&self, raw: Option<Spanned<bool>>, effect: Effect) -> Result<bool, Problem> {
        let may = matches!(effect, Effect::Read | Effect::Idempotent);
        match raw {
            Some(retry) if *retry.get_ref() && !may => {
                let message = format!("a call that is {} cannot be made twice", effect.name());
                let remedy = "remove retry, or write effect = \"idempotent\" if it can";
                Err(self.source.problem(retry.span(), message, remedy))
            }
            Some(retry) => Ok(retry.into_inner()),
            None => Ok(may),
        }
    }

    fn answer(
        &self,
        pointer: Option<Spanned<String>>,
        template: Option<Spanned<String>>,
    ) -> Result<AnswerPart, Problem> {
        match (pointer, template) {
            (None, None) => Ok(AnswerPart::Whole),
            (Some(pointer), None) => {
                let text = pointer.get_ref();
                let escapes = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
                if !text.starts_with('/') || !escapes {
                    let message = format!("{} is {text:?}", self.field("http.result"));
                    let remedy = "write a JSON pointer, such as \"/ticket/id\"";
                    return Err(self.source.problem(pointer.span(), message, remedy));
                }
                Ok(AnswerPart::Pointer(pointer.into_inner()))
            }
            (None, Some(template)) => {
                Ok(AnswerPart::Text(self.template("http.result_template", &template, Names::Answer)?))
            }
            (Some(_), Some(template)) => {
                let message = format!("{} has both result and result_template", self.field("http"));
                Err(self.source.problem(template.span(), message, "keep one"))
            }
        }
    }

    fn accepted_statuses(&self, raw: Option<Spanned<Vec<Spanned<i64>>>>) -> Result<Vec<u16>, Problem> {
        let Some(raw) = raw else { return Ok(Vec::new()) };
        if raw.get_ref().len() > MAX_ACCEPTED {
            let field = self.field("http.accept_status");
            let message = format!("{field} names more than {MAX_ACCEPTED} statuses");
            return Err(self.source.problem(raw.span(), message, "name fewer"));
        }
        let mut accepted = Vec::new();
        for status in raw.into_inner() {
            accepted.extend(self.whole_number::<u16>("http.accept_status", Some(status), 300..=599)?);
        }
        Ok(accepted)
    }

    fn request(
        &self,
        key: &str,
        span: Range<usize>,
        raw: RawHttp,
        names: Names,
    ) -> Result<RequestTemplate, Problem> {
        let inner = |name: &str| format!("{key}.{name}");
        let Some(url) = raw.url else {
            let message = format!("{} has no url", self.field(key));
            return Err(self.source.problem(span, message, "add url = \"https://…\""));
        };
        let at_url = |mistake| self.template_problem(url.span(), &inner("url"), &mistake);
        let body = match (raw.body, raw.form, raw.text) {
            (None, None, None) => None,
            (Some(body), None, None) => {
                let at_body = |mistake| self.template_problem(body.span(), &inner("body"), &mistake);
                Some(BodyTemplate::Json(JsonTemplate::read(&body.get_ref().0, names).map_err(at_body)?))
            }
            (None, Some(form), None) => {
                Some(BodyTemplate::Form(self.texts(&inner("form"), form.into_inner(), names)?))
            }
            (None, None, Some(text)) => {
                Some(BodyTemplate::Text(self.template(&inner("text"), &text, names)?))
            }
            _ => {
                let message = format!("{} has more than one of body, form and text", self.field(key));
                return Err(self.source.problem(span, message, "keep one"));
            }
        };
        if body.is_some() && matches!(raw.method, HttpMethod::Get | HttpMethod::Head) {
            let message = format!("{} is a {} request with a body", self.field(key), raw.method.name());
            return Err(self.source.problem(span, message, "remove the body, or add method = \"POST\""));
        }
        Ok(RequestTemplate {
            method: raw.method,
            url: UrlTemplate::read(url.get_ref(), names).map_err(at_url)?,
            query: self.texts(&inner("query"), raw.query, names)?,
            headers: self.headers(&inner("headers"), raw.headers, names)?,
            body,
            timeout: self.whole_number(
                &inner("timeout_seconds"),
                raw.timeout_seconds,
                1..=MAX_TIMEOUT_SECONDS,
            )?,
        })
    }

    /// The schema of the arguments, which are none where nothing is said.
    fn parameters(
        &self,
        inline: Option<Spanned<InOrder>>,
        file: Option<Spanned<String>>,
    ) -> Result<Value, Problem> {
        match (inline, file) {
            (None, None) => Ok(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
            (Some(inline), None) => {
                let span = inline.span();
                schema::tool_arguments(inline.into_inner().0).map_err(|(message, remedy)| {
                    self.source.problem(span, format!("{}: {message}", self.field("parameters")), remedy)
                })
            }
            (None, Some(name)) => {
                let file = self.app_path("parameters_file", &name)?;
                let schema = schema::parse(&file, &read_file(&file, "create it")?)?;
                schema::tool_arguments(schema)
                    .map_err(|(message, remedy)| Problem::of(&file, message, remedy))
            }
            (Some(_), Some(file)) => {
                let message = format!("{} has both parameters and parameters_file", self.table);
                Err(self.source.problem(file.span(), message, "keep one"))
            }
        }
    }

    pub(super) fn sandbox(&self, wasm: Spanned<RawWasm>, raw: RawTool) -> Result<SandboxTool, Problem> {
        if let Some(effect) = &raw.effect {
            let message = format!("{} runs in a sandbox, so its effect is always read", self.table);
            return Err(self.source.problem(effect.span(), message, "remove effect"));
        }
        let beyond = spans!(raw, marker, undo);
        self.refuse("for a tool in a sandbox", self.of_records(&raw).into_iter().chain(beyond))?;
        let span = wasm.span();
        let wasm = wasm.into_inner();
        let Some(module) = wasm.module else {
            let message = format!("{} has no module", self.field("wasm"));
            return Err(self.source.problem(span, message, "add module = \"tools/….wasm\""));
        };
        let file = self.app_path("wasm.module", &module)?;
        let memory_mb: Option<usize> =
            self.whole_number("wasm.memory_mb", wasm.memory_mb, 1..=MAX_MEMORY_MB)?;
        let timeout =
            self.whole_number("wasm.timeout_seconds", wasm.timeout_seconds, 1..=MAX_SANDBOX_SECONDS)?;
        Ok(SandboxTool {
            parameters: self.parameters(raw.parameters, raw.parameters_file)?,
            fuel: self.whole_number("wasm.fuel", wasm.fuel, FUEL)?.unwrap_or(DEFAULT_FUEL),
            memory_bytes: memory_mb.unwrap_or(DEFAULT_MEMORY_MB) * MEGABYTE,
            timeout: timeout.unwrap_or(DEFAULT_SANDBOX_SECONDS),
            module: module_bytes(&file)?.into(),
        })
    }

    /// A tool whose calls the client makes.
    pub(super) fn client(&self, client: &Spanned<bool>, raw: RawTool) -> Result<DeclaredClientTool, Problem> {
        if !client.get_ref() {
            let message = format!("{} is false", self.field("client"));
            return Err(self.source.problem(client.span(), message, "write client = true, or remove it"));
        }
        let beyond = spans!(raw, marker, undo);
        self.refuse("for a tool of the client", self.of_records(&raw).into_iter().chain(beyond))?;
        let effect = match &raw.effect {
            Some(effect) if *effect.get_ref() == Effect::Reversible => {
                let message = format!("{} is a tool of the client, which cannot be undone", self.table);
                let remedy = "write \"read\", \"idempotent\" or \"irreversible\"";
                return Err(self.source.problem(effect.span(), message, remedy));
            }
            effect => effect.as_ref().map_or(Effect::Read, |effect| *effect.get_ref()),
        };
        Ok(DeclaredClientTool { effect, parameters: self.parameters(raw.parameters, raw.parameters_file)? })
    }

    pub(super) fn flows(&self, raw: Vec<RawFlow>) -> Result<Vec<FlowRule>, Problem> {
        if raw.len() > MAX_FLOWS {
            let message = format!("{} has more than {MAX_FLOWS} flows", self.table);
            return Err(self.problem(message, "combine some of them"));
        }
        raw.into_iter().map(|flow| self.flow(flow)).collect()
    }

    fn flow(&self, raw: RawFlow) -> Result<FlowRule, Problem> {
        let from = raw.from.map(|from| self.flow_sources(&from)).transpose()?;
        let Some(input) = raw.input else { return Ok(FlowRule { from, input: serde_json::Map::new() }) };
        let field = self.field("flow.input");
        let span = input.span();
        let at = |message: String, remedy: &str| self.source.problem(span, message, remedy);
        let Value::Object(input) = input.into_inner().0 else {
            return Err(at(format!("{field} is not a table"), "write { ARGUMENT = VALUE }"));
        };
        match input.iter().find(|(_, wanted)| wanted.as_array().is_some_and(Vec::is_empty)) {
            Some((name, _)) => Err(at(format!("{field}.{name} allows no value"), "list the allowed values")),
            None => Ok(FlowRule { from, input }),
        }
    }

    fn flow_sources(&self, raw: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<String>, Problem> {
        let field = self.field("flow.from");
        let names = raw.get_ref();
        if names.is_empty() || names.len() > MAX_SOURCES {
            let message = format!("{field} names {} sources", names.len());
            let remedy = format!("name 1 to {MAX_SOURCES}, or remove the line to allow any");
            return Err(self.source.problem(raw.span(), message, remedy));
        }
        if let Some(odd) = names.iter().find(|name| !is_tool_name(name.get_ref())) {
            let message = format!("{field} names {:?}", odd.get_ref());
            return Err(self.source.problem(odd.span(), message, "write names of tools, or \"documents\""));
        }
        Ok(names.iter().map(|name| name.get_ref().clone()).collect())
    }

    /// Headers in the order of the file.
    pub(super) fn headers(&self, key: &str, raw: RawTexts, names: Names) -> Result<NamedTemplates, Problem> {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        for name in raw.keys() {
            let text = name.get_ref();
            let at = |message: String, remedy: &str| self.source.problem(name.span(), message, remedy);
            if text.is_empty() || !text.chars().all(is_token) {
                let message = format!("{text:?} cannot be a header's name");
                return Err(at(message, "write letters, digits and dashes"));
            }
            if FORBIDDEN_HEADERS.contains(&text.to_ascii_lowercase().as_str()) {
                return Err(at(format!("the server sets the header {text} itself"), "remove it"));
            }
            let same = |other: &&Spanned<String>| other.get_ref().eq_ignore_ascii_case(text);
            if raw.keys().filter(same).count() > 1 {
                return Err(at(format!("the header {text} is given twice"), "remove one"));
            }
        }
        self.texts(key, raw, names)
    }

    /// Named templates in the order of the file.
    pub(super) fn texts(&self, key: &str, raw: RawTexts, names: Names) -> Result<NamedTemplates, Problem> {
        let mut in_order: Vec<(Spanned<String>, Spanned<String>)> = raw.into_iter().collect();
        in_order.sort_by_key(|(name, _)| name.span().start);
        if let Some((beyond, _)) = in_order.get(MAX_FIELDS) {
            let message = format!("{} has more than {MAX_FIELDS} entries", self.field(key));
            return Err(self.source.problem(beyond.span(), message, "name fewer"));
        }
        let read = |(name, text): (Spanned<String>, Spanned<String>)| {
            let template = self.template(&format!("{key}.{}", name.get_ref()), &text, names)?;
            Ok((name.into_inner(), template))
        };
        in_order.into_iter().map(read).collect()
    }

    fn template(&self, key: &str, text: &Spanned<String>, names: Names) -> Result<TextTemplate, Problem> {
        TextTemplate::read(text.get_ref(), names, Writing::Plain)
            .map_err(|mistake| self.template_problem(text.span(), key, &mistake))
    }

    pub(super) fn template_problem(&self, span: Range<usize>, key: &str, mistake: &Mistake) -> Problem {
        self.source.problem(span, format!("{}: {mistake}", self.field(key)), mistake.remedy.clone())
    }
}

/// The effect of a method where the app does not say.
fn usual_effect(method: HttpMethod) -> Effect {
    match method {
        HttpMethod::Get | HttpMethod::Head => Effect::Read,
        HttpMethod::Put | HttpMethod::Delete => Effect::Idempotent,
        HttpMethod::Post | HttpMethod::Patch => Effect::Irreversible,
    }
}

fn module_bytes(file: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    File::open(file).and_then(|open| open.take(MAX_MODULE_BYTES + 1).read_to_end(&mut bytes)).map_err(
        |error| Problem::of(file, format!("cannot be read: {error}"), "check the path and its permissions"),
    )?;
    if bytes.len() as u64 > MAX_MODULE_BYTES {
        let message = format!("the module is larger than {} MiB", MAX_MODULE_BYTES / 1024 / 1024);
        return Err(Problem::of(file, message, "build it for size, without debug information"));
    }
    if !bytes.starts_with(MAGIC) {
        let remedy = "build it for a WebAssembly target, and name the .wasm file";
        return Err(Problem::of(file, "this is not a WebAssembly module", remedy));
    }
    Ok(bytes)
}
