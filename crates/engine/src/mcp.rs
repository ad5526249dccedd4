//! Servers of tools: what they offer, what of it is approved, and how they are.

use std::sync::Arc;

use futures_util::future::join_all;
use protocol::{
    AppId, CallId, McpApproval, McpServerView, McpToolState, McpToolView, McpTransport, Scope, UserId,
};
use serde_json::json;
use store::McpToolRow;
use tokio_util::sync::CancellationToken;
use tools::{Failed, McpHub, McpServerHandle, mcp_tool_name};

use crate::apps::Serving;
use crate::{Engine, Error};

/// Whom a server is looked at for when it is everybody's.
const NOBODY: &str = "";

impl Engine {
    /// Offers what was approved before, so that no start waits for anybody else's server.
    pub(crate) async fn read_pinned_tools(&self) -> Result<(), Error> {
        for serving in self.shared.apps.all().values().filter(|serving| !serving.app.mcp.is_empty()) {
            self.offer_again(serving).await?;
        }
        Ok(())
    }

    /// Looks at every server once, so that what is new or has changed is known.
    pub(crate) async fn look_at_servers(self) {
        let all = self.shared.apps.all();
        join_all(all.values().map(|serving| self.clone().look_at_servers_of(Arc::clone(serving)))).await;
    }

    /// The same for those of one app.
    pub(crate) async fn look_at_servers_of(self, serving: Arc<Serving>) {
        let scope = Scope { app: serving.app.id.clone(), user: UserId::new(NOBODY) };
        self.look_at_all(&serving, &scope, |server| !server.is_personal()).await;
    }

    /// The same for those that need what one user has given.
    pub(crate) async fn look_at_personal_servers(self, scope: Scope) {
        let Some(serving) = self.shared.apps.get(&scope.app) else { return };
        self.look_at_all(&serving, &scope, McpServerHandle::is_personal).await;
    }

    /// Looks at those of an app's servers that are meant, side by side: one that never answers holds up no other.
    async fn look_at_all(&self, serving: &Serving, scope: &Scope, meant: impl Fn(&McpServerHandle) -> bool) {
        let servers = self.shared.catalog.servers(&serving.app);
        let meant = servers.iter().filter(|server| meant(server));
        join_all(meant.map(|server| self.look_at(serving, server, scope))).await;
    }

    /// Takes in what calls have noticed.
    pub(crate) async fn look_after_servers(self, hub: Arc<McpHub>) {
        loop {
            for app in hub.changed_apps().await {
                let Some(serving) = self.shared.apps.get(&app) else { continue };
                if let Err(error) = self.offer_again(&serving).await {
                    tracing::error!(%app, %error, "the tools of an app's servers could not be read");
                }
            }
        }
    }

    async fn look_at(&self, serving: &Serving, server: &McpServerHandle, scope: &Scope) {
        if let Err(failed) = self.try_look_at(serving, server, scope).await {
            tracing::warn!(app = %serving.app.id, server = server.name(), reason = failed.message, "a server of tools could not be looked at");
        }
    }

    async fn try_look_at(
        &self,
        serving: &Serving,
        server: &McpServerHandle,
        scope: &Scope,
    ) -> Result<(), Failed> {
        let (stop, vault) = (CancellationToken::new(), self.vault());
        let calling = self.calling((CallId::new(self.fresh_id()), scope), json!({}), (&vault, &stop));
        let offers = server.offers(&calling).await?;
        let kept = async {
            self.store().put_mcp_tools(&serving.app.id, server.name(), offers).await?;
            self.offer_again(serving).await
        };
        kept.await.map_err(|error| Failed::new("unavailable", error.to_string()))
    }

    /// Makes an app's tools anew of what is approved now.
    pub(crate) async fn offer_again(&self, serving: &Serving) -> Result<(), Error> {
        let _turn = serving.offering().await; // or older rows could be put over newer ones
        let pinned = self.store().mcp_tools(&serving.app.id).await?;
        match self.shared.catalog.registry(&serving.app, &pinned) {
            Ok(tools) => serving.set_tools(tools),
            Err(problem) => {
                tracing::error!(app = %serving.app.id, %problem, "the tools of an app's servers cannot be offered")
            }
        }
        Ok(())
    }

    /// All servers of all apps, with what they offer.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerView>, Error> {
        let mut views = Vec::new();
        for serving in self.shared.apps.all().values() {
            let rows = self.store().mcp_tools(&serving.app.id).await?;
            for server in self.shared.catalog.servers(&serving.app) {
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
        let scope = Scope { app: serving.app.id.clone(), user: UserId::new(NOBODY) };
        let looked = self.try_look_at(&serving, &server, &scope).await;
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
        tracing::info!(app, server = server.name(), by, "tools of a server were approved");
        self.offer_again(&serving).await?;
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
        tracing::info!(app, server = server.name(), by, ?tools, "tools of a server are no longer approved");
        self.store().revoke_mcp_tools(&serving.app.id, server.name(), tools).await?;
        self.offer_again(&serving).await?;
        self.mcp_view(&serving, &server).await
    }

    fn mcp_server(&self, app: &str, name: &str) -> Result<(Arc<Serving>, Arc<McpServerHandle>), Error> {
        let missing = || Error::NotFound { what: "server" };
        let serving = self.shared.apps.get(&AppId::new(app)).ok_or(Error::NotFound { what: "app" })?;
        let servers = self.shared.catalog.servers(&serving.app);
        Ok((serving, servers.into_iter().find(|server| server.name() == name).ok_or_else(missing)?))
    }

    async fn mcp_view(&self, serving: &Serving, server: &McpServerHandle) -> Result<McpServerView, Error> {
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
