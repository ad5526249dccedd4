//! Rows of MCP tools, whose definitions are pinned by hash, and of credentials.

use jiff::Timestamp;
use serde_json::Value;

/// MCP servers of one app.
pub const MAX_MCP_SERVERS_PER_APP: usize = 64;
/// Tools of one server, those it no longer offers included.
pub const MAX_MCP_TOOLS_PER_SERVER: usize = 512;
/// Bytes of one tool's definition as JSON.
pub const MAX_MCP_DEFINITION_BYTES: usize = 64 * 1024;
/// Bytes of the name of a server or of a tool.
pub const MAX_MCP_NAME_BYTES: usize = 256;
/// Credentials of one user in one app.
pub const MAX_CREDENTIALS_PER_SCOPE: usize = 64;
/// Bytes of a credential's name.
pub const MAX_CREDENTIAL_NAME_BYTES: usize = 64;
/// Bytes of a sealed credential.
pub const MAX_CREDENTIAL_BYTES: usize = 16 * 1024;

/// A tool as its server offers it now.
#[derive(Debug, Clone, PartialEq)]
pub struct McpOffer {
    pub tool: String,
    pub definition: Value,
    /// Of the definition.
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct McpToolRow {
    pub server: String,
    pub tool: String,
    /// As it was last offered.
    pub definition: Value,
    pub hash: String,
    /// The definition that may be used, and only while its hash is that of the offered one.
    pub approved: Option<Approved>,
    /// Whether the server still offers it.
    pub present: bool,
    /// When what is offered last changed.
    pub seen_at: Timestamp,
}

/// The definition that an admin approved.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    pub hash: String,
    pub definition: Value,
    pub at: Timestamp,
    /// The admin. None for a tool that was there when its server was first seen.
    pub by: Option<String>,
}
