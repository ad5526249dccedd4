//! An OpenAPI description as declarations of HTTP tools. A description is foreign text. Nothing of it becomes a
//! template, all of it is written by a serialiser, and what cannot be said is left out and told.

mod address;
mod arguments;
mod body;
mod document;
mod operation;
mod parameter;
mod schema;
mod security;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use app::source::MAX_FILE_BYTES;
use app::{HttpMethod, MAX_TOOLS};
use serde_json::Value;

use crate::CommandResult;
use crate::terminal_text::first_lines;

use address::{BaseAddress, server};
pub(crate) use document::OpenApiDocument;
pub(crate) use operation::ToolDeclaration;
use operation::{FoundOperation, declare};
use security::Credential;

/// Operations that are named when one has to be chosen.
const MAX_NAMED: usize = 500;

/// The choice of operations of a description.
#[derive(Default, clap::Args)]
pub(crate) struct ImportChoice {
    /// Only these operations, by id or as "GET /path"; may be repeated
    #[arg(long, value_name = "OPERATION", num_args = 1..)]
    pub(crate) only: Vec<String>,
    /// Only operations with one of these tags; may be repeated
    #[arg(long = "tag", value_name = "TAG", num_args = 1.., conflicts_with = "only")]
    pub(crate) tags: Vec<String>,
    /// The base URL of the service, instead of the one in the description
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The prefix of the names of tools and secrets, and the name of the file
    #[arg(long, value_name = "NAME")]
    pub(crate) prefix: Option<String>,
}

/// The tools that a description came to.
pub(crate) struct ImportedTools {
    /// A name for the file, without its ending.
    pub(crate) file_name: String,
    pub(crate) toml: String,
    pub(crate) tools: Vec<ToolDeclaration>,
    /// Operations, and why there is no tool for them.
    pub(crate) left_out: Vec<(String, String)>,
}

impl ImportedTools {
    /// By name: what each secret has to hold, and where it is sent.
    pub(crate) fn secrets(&self) -> BTreeMap<&str, (&str, BTreeSet<&str>)> {
        let mut secrets: BTreeMap<&str, (&str, BTreeSet<&str>)> = BTreeMap::new();
        for tool in &self.tools {
            for Credential { name, holds, .. } in &tool.credentials {
                let (_, origins) = secrets.entry(name).or_insert((holds, BTreeSet::new()));
                origins.insert(&tool.origin);
            }
        }
        secrets
    }

    pub(crate) fn origins(&self) -> BTreeSet<&str> {
        self.tools.iter().map(|tool| tool.origin.as_str()).collect()
    }

    /// Notes on what could not be declared, by tool.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools.iter().flat_map(|tool| tool.notes.iter().map(|note| (tool.name.as_str(), note.as_str())))
    }
}

pub(crate) fn import(document: &OpenApiDocument, wanted: &ImportChoice) -> CommandResult<ImportedTools> {
    let all = operations(document)?;
    let (chosen, mut left_out) = choose(&all, wanted)?;
    let base_address = |url: &str| BaseAddress::new(url, wanted.prefix.as_deref());
    let given = wanted.base_url.as_deref().map(base_address).transpose()?;
    let mut tools: Vec<ToolDeclaration> = Vec::new();
    for found in chosen {
        let name = words::free_name(&name(&found, wanted), |name| tools.iter().any(|tool| tool.name == name));
        let base = match &given {
            Some(base) => Ok(base.clone()),
            None => base_address(&server(document, found.item, found.operation)),
        };
        match base.and_then(|base| declare(document, found, &base, name)) {
            Ok(tool) => tools.push(tool),
            Err(reason) => left_out.push((operation_name(&found), words::line(&reason))),
        }
    }
    let title = words::line(document.text("/info/title").unwrap_or_default());
    if tools.is_empty() {
        return Err(no_tool_reason(&left_out).into());
    }
    let version = document.text("/info/version").unwrap_or_default();
    let source = words::line(&format!("{title} {version}"));
    let head = format!("# {source}, as `rondo tools import openapi` read it.\n");
    let toml = text::file(&head, &tools)?;
    if toml.len() as u64 > MAX_FILE_BYTES {
        let most = MAX_FILE_BYTES / 1024;
        let remedy = "choose fewer operations with --only or --tag";
        return Err(format!("the tools are larger than {most} KiB, the maximum of one file; {remedy}").into());
    }
    let file_name = words::file_name(wanted.prefix.as_deref().unwrap_or(&title));
    Ok(ImportedTools { file_name, toml, tools, left_out })
}

/// All operations in the order of the description.
fn operations(document: &OpenApiDocument) -> CommandResult<Vec<FoundOperation<'_>>> {
    let Some(paths) = document.get("paths").and_then(Value::as_object).filter(|paths| !paths.is_empty())
    else {
        return Err("the description has no paths, so there is nothing to call".into());
    };
    let mut all = Vec::new();
    for (path, item) in paths {
        let item = document.follow(item)?;
        for method in HttpMethod::ALL {
            let operation = item.get(method.name().to_lowercase());
            if let Some(operation) = operation.filter(|operation| operation.is_object()) {
                all.push(FoundOperation { path, method, item, operation });
            }
        }
    }
    Ok(all)
}

type Choice<'a> = (Vec<FoundOperation<'a>>, Vec<(String, String)>);

/// The operations that are chosen, and the others with the reason.
fn choose<'a>(all: &[FoundOperation<'a>], wanted: &ImportChoice) -> CommandResult<Choice<'a>> {
    let is_called = |found: &FoundOperation<'_>, text: &str| {
        found.id() == Some(text) || found.line() == text || name(found, wanted) == text
    };
    if let Some(unknown) = wanted.only.iter().find(|text| !all.iter().any(|found| is_called(found, text))) {
        return Err(format!("there is no operation {unknown:?}; there is {}", list(all)).into());
    }
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for found in all {
        let is_named = wanted.only.iter().any(|text| is_called(found, text));
        let is_meant =
            is_named || wanted.only.is_empty() && (wanted.tags.is_empty() || found.has_tag(&wanted.tags));
        if is_meant && found.is_deprecated() && !is_named {
            left_out
                .push((operation_name(found), "it is deprecated; name it with --only to include it".into()));
        } else if is_meant {
            chosen.push(*found);
        }
    }
    if chosen.is_empty() && left_out.is_empty() {
        return Err(format!("no operation has such a tag; there is {}", list(all)).into());
    }
    if chosen.len() > MAX_TOOLS {
        let message =
            format!("there are {} operations, and an app has at most {MAX_TOOLS} tools", chosen.len());
        return Err(format!("{message}; choose with --only or --tag among {}", list(&chosen)).into());
    }
    Ok((chosen, left_out))
}

fn list(all: &[FoundOperation<'_>]) -> String {
    first_lines(all.iter().map(operation_name).collect(), MAX_NAMED).join(", ")
}

/// The name of an operation for people.
fn operation_name(found: &FoundOperation<'_>) -> String {
    found.id().map_or_else(|| found.line(), words::line)
}

fn name(found: &FoundOperation<'_>, wanted: &ImportChoice) -> String {
    let unnamed = || format!("{} {}", found.method.name().to_lowercase(), found.path);
    let own = found.id().map_or_else(unnamed, str::to_owned);
    let prefix = wanted.prefix.as_ref().map(|prefix| format!("{prefix}_")).unwrap_or_default();
    words::tool_name(&format!("{prefix}{own}"))
}

fn no_tool_reason(left_out: &[(String, String)]) -> String {
    match left_out {
        [] => "the description has no operations".into(),
        [(name, reason), rest @ ..] if rest.iter().all(|(_, other)| other == reason) => {
            format!("no operation can be a tool; {name}: {reason}")
        }
        several => {
            let lines: Vec<String> =
                several.iter().map(|(name, reason)| format!("\n  {name}: {reason}")).collect();
            format!("no operation can be a tool:{}", lines.concat())
        }
    }
}
