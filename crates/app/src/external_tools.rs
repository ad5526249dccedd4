//! External tools, as an app declares them: requests over HTTP, code in a sandbox and MCP servers.

mod address;
mod request;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::Effect;
use serde_json::{Map, Value};

pub use address::UrlTemplate;
pub use request::{BodyTemplate, HttpMethod, Rendered, RenderedBody, RequestTemplate, header_values};
pub(crate) use template::Writing;
pub use template::{JsonTemplate, Names, TextTemplate};

use crate::ToolRef;

/// Stands between an MCP server's name and its tool's.
const BETWEEN: &str = "__";

/// A rule that allows a call after external text came into the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRule {
    /// Tools whose words they were, or `documents`; any when absent.
    pub from: Option<Vec<String>>,
    /// Arguments that must be exactly so, or, where it is a list, one of these.
    pub input: Map<String, Value>,
}

impl FlowRule {
    pub fn allows(&self, source: &str, input: &Value) -> bool {
        let is_from = self.from.as_ref().is_none_or(|names| names.iter().any(|name| name == source));
        let fits = |(name, wanted): (&String, &Value)| match (input.get(name), wanted) {
            (Some(given), Value::Array(choices)) => choices.contains(given),
            (Some(given), wanted) => given == wanted,
            (None, _) => false,
        };
        is_from && self.input.iter().all(fits)
    }
}

/// A tool that is one request.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpTool {
    pub effect: Effect,
    /// Shown in the answer while a call is made.
    pub marker: Option<String>,
    /// A JSON Schema of a closed object.
    pub parameters: Value,
    pub request: RequestTemplate,
    /// The request that undoes a call; present for reversible tools, and only for them.
    pub undo: Option<RequestTemplate>,
    pub answer: AnswerPart,
    /// Whether a request that failed is made again.
    pub retry: bool,
    /// Statuses beside 2xx that are answers and not failures.
    pub accept_status: Vec<u16>,
}

impl HttpTool {
    pub fn secrets(&self) -> BTreeSet<&str> {
        [&self.request].into_iter().chain(&self.undo).flat_map(RequestTemplate::secrets).collect()
    }
}

/// The part of an answer that the model gets.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerPart {
    Whole,
    /// A JSON pointer.
    Pointer(String),
    Text(TextTemplate),
}

/// A tool that is code of the app's, able to compute and nothing else.
#[derive(Clone, PartialEq)]
pub struct SandboxTool {
    /// A JSON Schema of a closed object.
    pub parameters: Value,
    /// WebAssembly.
    pub module: Arc<[u8]>,
    pub fuel: u64,
    pub memory_bytes: usize,
    pub timeout: Duration,
}

impl std::fmt::Debug for SandboxTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxTool")
            .field("parameters", &self.parameters)
            .field("module_bytes", &self.module.len())
            .field("fuel", &self.fuel)
            .field("memory_bytes", &self.memory_bytes)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// A server whose tools an app has.
#[derive(Debug, Clone, PartialEq)]
pub struct AppMcpServer {
    /// Its name, and the place that names it.
    pub name: ToolRef,
    pub transport: AppMcpTransport,
    /// Only these of its tools; all when absent.
    pub tools: Option<BTreeSet<String>>,
    /// Of one request to it.
    pub timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum AppMcpTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, TextTemplate)>, cwd: Option<PathBuf> },
    Http { url: String, headers: Vec<(String, TextTemplate)> },
}

impl AppMcpServer {
    pub fn secrets(&self) -> BTreeSet<&str> {
        self.templates().flat_map(TextTemplate::secrets).map(String::as_str).collect()
    }

    pub fn credentials(&self) -> BTreeSet<&str> {
        self.templates().flat_map(TextTemplate::credentials).map(String::as_str).collect()
    }

    /// Whether each user needs a connection of their own.
    pub fn is_per_user(&self) -> bool {
        self.templates().any(TextTemplate::is_per_user)
    }

    fn templates(&self) -> impl Iterator<Item = &TextTemplate> {
        let named = match &self.transport {
            AppMcpTransport::Stdio { env, .. } => env,
            AppMcpTransport::Http { headers, .. } => headers,
        };
        named.iter().map(|(_, template)| template)
    }
}

/// A server's name has no two underscores in a row and none at its end, so the first two end it.
pub(crate) fn server_of<'a>(servers: &'a [AppMcpServer], tool: &str) -> Option<&'a AppMcpServer> {
    let (name, _) = tool.split_once(BETWEEN)?;
    servers.iter().find(|server| server.name.name == name)
}
