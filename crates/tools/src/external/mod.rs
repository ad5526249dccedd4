//! Tools that reach beyond this process, and the border they cross.

mod border;
mod egress;
mod http;
mod mcp;
mod search;
mod secrets;
mod wasm;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

pub use egress::{Allowed, Egress, NotAllowable};
pub use mcp::{McpHealth, McpHub, McpServerHandle, mcp_tool_name};
pub use search::{TavilyConfig, WebSearchConfig};
pub use secrets::{Secrets, Vault};
pub use webhook::{UndeliveredWebhook, WebhookMessage, deliver_webhook};

pub(crate) use border::{Hidden, clean};
pub(crate) use http::http_tool;
pub(crate) use mcp::McpTool;
pub(crate) use search::{SearchEngine, WebSearch};
pub(crate) use wasm::WasmTool;

/// The handles that external tools share. Cheap to clone.
#[derive(Clone)]
pub struct ExternalAccess {
    pub egress: Egress,
    pub secrets: Arc<Secrets>,
    pub search: WebSearchConfig,
    pub mcp: Arc<McpHub>,
}

/// Ends when the time is over, if there is a limit.
async fn wait_for_limit(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
