//! What tools that reach outside need: the definitions that servers of tools offer, pinned by hash, and credentials.

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{AppId, Scope};
use serde_json::Value;

use crate::{Error, Once};

/// Servers of tools of one app.
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
    /// What may be used: this, and only while its hash is that of what is offered.
    pub approved: Option<Approved>,
    /// Whether the server still offers it.
    pub present: bool,
    /// When what is offered last changed.
    pub seen_at: Timestamp,
}

/// The definition that somebody said yes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    pub hash: String,
    pub definition: Value,
    pub at: Timestamp,
    /// Nobody for one that was there when its server was first seen.
    pub by: Option<String>,
}

/// A credential without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    pub name: String,
    pub updated_at: Timestamp,
}

/// Tools of servers. A definition is used only as it was approved, so that no server can change what a model is told
/// behind the operator's back.
#[async_trait]
pub trait McpTools: Send + Sync {
    /// By server, each in the order in which it offers them; those that are gone stay where they were.
    async fn mcp_tools(&self, app: &AppId) -> Result<Vec<McpToolRow>, Error>;
    /// Puts down all that a server offers now, and gives what is known of it. The tools with which a server is first seen
    /// are approved as they are; later, what is new or has changed waits. [`Error::Changed`] when it is too much. Of
    /// more than [`MAX_MCP_TOOLS_PER_SERVER`], those that are gone are forgotten, the unapproved first.
    async fn put_mcp_tools(
        &self,
        app: &AppId,
        server: &str,
        offered: Vec<McpOffer>,
    ) -> Result<Vec<McpToolRow>, Error>;
    /// Approves tools, each with the hash of the definition that was looked at. [`Error::Changed`] if one is another by
    /// now, and then none is approved. Gives what is known of the server.
    async fn approve_mcp_tools(
        &self,
        app: &AppId,
        server: &str,
        wanted: Vec<(String, String)>,
        by: &str,
    ) -> Result<Vec<McpToolRow>, Error>;
    /// Takes approvals away; what has none stays as it is. [`Error::NotFound`] if a tool is not known, and then none is
    /// taken away.
    async fn revoke_mcp_tools(&self, app: &AppId, server: &str, tools: Vec<String>) -> Result<(), Error>;
}

/// Credentials of users, sealed before they come here. Under a key ([`Once`]) a change happens once.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// By name.
    async fn credentials(&self, scope: &Scope) -> Result<Vec<CredentialRow>, Error>;
    /// As it was sealed.
    async fn credential(&self, scope: &Scope, name: &str) -> Result<Option<Vec<u8>>, Error>;
    /// Adds it or takes the place of the one of its name. [`Error::Changed`] when it is too long or there is no room.
    async fn put_credential(
        &self,
        scope: &Scope,
        name: &str,
        sealed: Vec<u8>,
        once: Option<Once>,
    ) -> Result<CredentialRow, Error>;
    /// [`Error::NotFound`] if there is none of that name.
    async fn delete_credential(&self, scope: &Scope, name: &str, once: Option<Once>) -> Result<(), Error>;
}
