//! MCP servers as admins ask for them: what they offer, what of it is approved, and how they are.

use std::sync::Arc;

use agent::{ServedApp, look_at_server, offer_again};
use protocol::{AppId, McpApproval, McpServerView, McpToolState, McpToolView, McpTransport};
use store::McpToolRow;
use tools::{McpServerHandle, mcp_tool_name};

use crate::{Error, Service};

impl Service {
    /// All servers of all apps, with what they offer.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerView>, Error> {
        let mut views = Vec::new();
        for serving in self.world().apps.all().values() {
            let rows = self.store().mcp_tools(&serving.app.id).await?;
            for server in self.world().catalog.servers(&serving.app) {
                views.push(view(&serving.app.id, &server, &rows));
            }
        }
        Ok(views)
    }

    /// One server, as it was last looked at.
    pub async fn show_mcp(&self, (app, server): (&str, &str)) -> Result<McpServerView, Error> {
        let (serving, server) = self.mcp_server(app, server)?;
        self.mcp_view(&serving, &server).await
    }

    /// Looks at a server now, and says what it offers, or why it could not be looked at. One with a line for each user is
    /// looked at when a user gives what it needs.
    pub async fn look_at_mcp(&self, app: &str, server: &str) -> Result<McpServerView, Error> {
        let (serving, server) = self.mcp_server(app, server)?;
        if server.is_personal() {
            return self.mcp_view(&serving, &server).await;
        }
        let looked = look_at_server(self.world(), &serving, &server).await;
        let view = self.mcp_view(&serving, &server).await?;
        Ok(McpServerView {
            last_error: view.last_error.or(looked.err().map(|failed| failed.message)),
            ..view
        })
    }

    /// Approves tools as they were looked at; all that wait if none are named.
    pub async fn approve_mcp(
        &self,
        (app, server): (&str, &str),
        approval: McpApproval,
        by: &str,
    ) -> Result<McpServerView, Error> {
        let (serving, server) = self.mcp_server(app, server)?;
        let wanted = match approval.tools {
            Some(tools) => tools.into_iter().map(|tool| (tool.tool, tool.hash)).collect(),
            None => {
                let rows = self.store().mcp_tools(&serving.app.id).await?;
                let waits =
                    |row: &&McpToolRow| matches!(state(row), McpToolState::New | McpToolState::Changed);
                let ours = rows.iter().filter(|row| row.server == server.name());
                ours.filter(waits).map(|row| (row.tool.clone(), row.hash.clone())).collect()
            }
        };
        match self.store().approve_mcp_tools(&serving.app.id, server.name(), wanted, by).await {
            Ok(_) => {}
            Err(store::Error::Changed(message)) => {
                return Err(Error::Conflict { code: "definition_changed", message });
            }
            Err(error) => return Err(error.into()),
        }
        tracing::info!(app, server = server.name(), by, "tools of an MCP server were approved");
        offer_again(self.world(), &serving).await?;
        self.mcp_view(&serving, &server).await
    }

    /// Takes the approval of tools away.
    pub async fn revoke_mcp(
        &self,
        (app, server): (&str, &str),
        tools: Vec<String>,
        by: &str,
    ) -> Result<McpServerView, Error> {
        let (serving, server) = self.mcp_server(app, server)?;
        tracing::info!(
            app,
            server = server.name(),
            by,
            ?tools,
            "the approval of tools of an MCP server was revoked"
        );
        self.store().revoke_mcp_tools(&serving.app.id, server.name(), tools, by).await?;
        offer_again(self.world(), &serving).await?;
        self.mcp_view(&serving, &server).await
    }

    fn mcp_server(&self, app: &str, name: &str) -> Result<(Arc<ServedApp>, Arc<McpServerHandle>), Error> {
        let missing = || Error::NotFound { what: "server" };
        let serving = self.world().apps.get(&AppId::new(app)).ok_or_else(|| self.unknown_app(None))?;
        let servers = self.world().catalog.servers(&serving.app);
        Ok((serving, servers.into_iter().find(|server| server.name() == name).ok_or_else(missing)?))
    }

    async fn mcp_view(&self, serving: &ServedApp, server: &McpServerHandle) -> Result<McpServerView, Error> {
        let rows = self.store().mcp_tools(&serving.app.id).await?;
        Ok(view(&serving.app.id, server, &rows))
    }
}

fn view(app: &AppId, server: &McpServerHandle, rows: &[McpToolRow]) -> McpServerView {
    let health = server.health();
    McpServerView {
        app: app.to_string(),
        server: server.name().to_owned(),
        transport: if server.is_process() { McpTransport::Stdio } else { McpTransport::Http },
        state: health.state,
        last_error: health.last_error,
        tools: rows.iter().filter(|row| row.server == server.name()).map(tool).collect(),
    }
}

fn tool(row: &McpToolRow) -> McpToolView {
    let approved = row.approved.clone();
    McpToolView {
        name: mcp_tool_name(&row.server, &row.tool),
        tool: row.tool.clone(),
        state: state(row),
        hash: row.hash.clone(),
        definition: row.definition.clone(),
        approved_hash: approved.as_ref().map(|approved| approved.hash.clone()),
        approved_at: approved.as_ref().map(|approved| approved.at),
        approved_by: approved.as_ref().and_then(|approved| approved.by.clone()),
        approved_definition: approved.map(|approved| approved.definition),
    }
}

fn state(row: &McpToolRow) -> McpToolState {
    match &row.approved {
        _ if !row.present => McpToolState::Gone,
        Some(approved) if approved.hash == row.hash => McpToolState::Approved,
        Some(_) => McpToolState::Changed,
        None => McpToolState::New,
    }
}
