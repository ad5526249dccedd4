//! `[mcp.SERVER]`: servers whose tools the app has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::declared_tools::{ToolTable, spans};
use super::external_tools::{MAX_TIMEOUT_SECONDS, RawTexts};
use super::{MAX_TOOLS, tool_ref_at};
use crate::source::{Problem, Spanned};
use crate::template::Mistake;
use crate::{AppMcpServer, AppMcpTransport, Names, ToolRef, UrlTemplate};

const MAX_NAME_CHARS: usize = 24;
const MAX_ARGUMENTS: usize = 64;
const MAX_TOOL_NAME_CHARS: usize = 128;

/// By name, in no order: the places say which came first.
pub(super) type RawServers = BTreeMap<Spanned<String>, RawServer>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawServer {
    command: Option<Spanned<String>>,
    args: Option<Spanned<Vec<String>>>,
    env: Option<Spanned<RawTexts>>,
    cwd: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    headers: Option<Spanned<RawTexts>>,
    tools: Option<Spanned<Vec<Spanned<String>>>>,
    timeout_seconds: Option<Spanned<i64>>,
}

impl ToolTable<'_> {
    pub(super) fn server(&self, name: &Spanned<String>, mut raw: RawServer) -> Result<AppMcpServer, Problem> {
        let name = self.name(name)?;
        let tools = raw.tools.take().map(|tools| self.tools(&tools)).transpose()?;
        let seconds = raw.timeout_seconds.take();
        let timeout = self.whole_number("timeout_seconds", seconds, 1..=MAX_TIMEOUT_SECONDS)?;
        Ok(AppMcpServer { name, transport: self.transport(raw)?, tools, timeout })
    }

    fn name(&self, name: &Spanned<String>) -> Result<ToolRef, Problem> {
        let text = name.get_ref();
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_plain = !text.is_empty() && text.len() <= MAX_NAME_CHARS && text.chars().all(letters);
        if !is_plain || text.contains("__") || text.ends_with('_') {
            let remedy = format!(
                "write 1 to {MAX_NAME_CHARS} letters, digits, dashes or single underscores, none at the end"
            );
            return Err(self.problem(format!("{text:?} cannot be a server's name"), remedy));
        }
        Ok(tool_ref_at(&self.source, name))
    }

    fn tools(&self, raw: &Spanned<Vec<Spanned<String>>>) -> Result<BTreeSet<String>, Problem> {
        let names = raw.get_ref();
        if names.is_empty() || names.len() > MAX_TOOLS {
            let message = format!("{} names {} tools", self.field("tools"), names.len());
            let remedy = format!("name 1 to {MAX_TOOLS}, or remove the line to have all");
            return Err(self.source.problem(raw.span(), message, remedy));
        }
        let is_odd = |name: &str| name.trim().is_empty() || name.chars().count() > MAX_TOOL_NAME_CHARS;
        if let Some(odd) = names.iter().find(|name| is_odd(name.get_ref())) {
            let message = format!("{:?} cannot be a tool's name", odd.get_ref());
            return Err(self.source.problem(odd.span(), message, "write it as the server does"));
        }
        Ok(names.iter().map(|name| name.get_ref().clone()).collect())
    }

    fn transport(&self, raw: RawServer) -> Result<AppMcpTransport, Problem> {
        match (raw.command, raw.url) {
            (Some(command), None) => {
                let full_key = |(key, span)| (self.field(key), span);
                self.refuse("together with command", spans!(raw, headers).map(full_key))?;
                let command = self.source.text(&self.field("command"), Some(command))?.unwrap_or_default();
                Ok(AppMcpTransport::Stdio {
                    command,
                    args: self.arguments(raw.args)?,
                    env: self.env(raw.env.map(Spanned::into_inner).unwrap_or_default())?,
                    cwd: raw.cwd.map(|cwd| self.app_path("cwd", &cwd)).transpose()?,
                })
            }
            (None, Some(url)) => {
                let full_key = |(key, span)| (self.field(key), span);
                self.refuse("together with url", spans!(raw, args, env, cwd).map(full_key))?;
                let raw_headers = raw.headers.map(Spanned::into_inner).unwrap_or_default();
                Ok(AppMcpTransport::Http {
                    url: self.url(&url)?,
                    headers: self.headers("headers", raw_headers, Names::Connection)?,
                })
            }
            (Some(_), Some(url)) => {
                let message = format!("{} has both command and url", self.table);
                Err(self.source.problem(url.span(), message, "keep one"))
            }
            (None, None) => {
                let message = format!("{} does not say how to reach the server", self.table);
                Err(self.problem(message, "add command = \"…\" to start it, or url = \"https://…\""))
            }
        }
    }

    fn arguments(&self, raw: Option<Spanned<Vec<String>>>) -> Result<Vec<String>, Problem> {
        match raw {
            Some(args) if args.get_ref().len() > MAX_ARGUMENTS => {
                let message = format!("{} has more than {MAX_ARGUMENTS} entries", self.field("args"));
                Err(self.source.problem(args.span(), message, "put them into a file that the server reads"))
            }
            args => Ok(args.map(Spanned::into_inner).unwrap_or_default()),
        }
    }

    fn env(&self, raw: RawTexts) -> Result<Vec<(String, crate::TextTemplate)>, Problem> {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_odd = |name: &str| {
            name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(letters)
        };
        if let Some(odd) = raw.keys().find(|name| is_odd(name.get_ref())) {
            let message = format!("{:?} cannot be the name of an environment variable", odd.get_ref());
            return Err(self.source.problem(odd.span(), message, "write letters, digits and underscores"));
        }
        self.texts("env", raw, Names::Connection)
    }

    fn url(&self, url: &Spanned<String>) -> Result<String, Problem> {
        let at = |mistake: &Mistake| self.template_problem(url.span(), "url", mistake);
        if url.get_ref().contains("{{") {
            let remedy = "write it literally; only headers may contain {{ … }}";
            return Err(at(&Mistake::new("the url is a template", remedy)));
        }
        let read = UrlTemplate::read(url.get_ref(), Names::Connection).map_err(|mistake| at(&mistake))?;
        read.render(&serde_json::Value::Null).map_err(|error| at(&Mistake::new(error, "correct the address")))
    }
}
