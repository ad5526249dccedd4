//! MCP servers: their tools, and the approval of these. For holders of an admin key, in the apps it is for.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use engine::Error;
use protocol::{AppId, McpApproval, McpServerView, Page};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::Admin;
use crate::body::{Json, OptionalJson};
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::McpServerPath;
use crate::routes::Reply;

/// An MCP server of an app, and the admin who asks about it.
pub(super) struct McpServer {
    app: String,
    server: String,
    by: String,
}

impl McpServer {
    fn names(&self) -> (&str, &str) {
        (&self.app, &self.server)
    }
}

impl FromRequestParts<Api> for McpServer {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let Admin(by) = Admin::from_request_parts(parts, api).await?;
        let McpServerPath { app, server } = McpServerPath::from_request_parts(parts, api).await?;
        if !by.may_use(&AppId::new(app.as_str())) {
            return Err(Error::NotFound { what: "app" }.into());
        }
        Ok(Self { app, server, by: by.user().to_string() })
    }
}

/// Tools that may no longer be used.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct McpRevocation {
    /// As the server calls them.
    tools: Vec<String>,
}

/// The servers of tools of all apps, with what they offer.
#[utoipa::path(
    get,
    path = "/v1/admin/mcp",
    responses((status = 200, description = "All of them; one page", body = Page<McpServerView>))
)]
pub(super) async fn list_mcp_servers(State(api): State<Api>, Admin(by): Admin) -> Reply<Page<McpServerView>> {
    let mut data = api.engine.mcp_servers().await?;
    data.retain(|server| by.may_use(&AppId::new(server.app.as_str())));
    Ok(Answer(Page { data, next: None }))
}

/// One server of tools, as it was last looked at.
#[utoipa::path(
    get,
    path = "/v1/admin/mcp/{app}/{server}",
    params(McpServerPath),
    responses((status = 200, description = "The server", body = McpServerView))
)]
pub(super) async fn get_mcp_server(State(api): State<Api>, server: McpServer) -> Reply<McpServerView> {
    Ok(Answer(api.engine.show_mcp(server.names()).await?))
}

/// Asks a server now what it offers. One that cannot be reached is an answer, too: `lastError` says why.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/refresh",
    params(McpServerPath),
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn refresh_mcp_server(
    State(api): State<Api>,
    server: McpServer,
    IdempotencyKey(_): IdempotencyKey, // looking twice changes nothing
) -> Reply<McpServerView> {
    Ok(Answer(api.engine.look_at_mcp(&server.app, &server.server).await?))
}

/// Says yes to tools as they were shown; to all that wait if none are named.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/approve",
    params(McpServerPath),
    request_body = Option<McpApproval>,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn approve_mcp_tools(
    State(api): State<Api>,
    server: McpServer,
    OptionalJson(approval, _): OptionalJson<McpApproval>, // approving twice is approving once
) -> Reply<McpServerView> {
    Ok(Answer(api.engine.approve_mcp(server.names(), approval, &server.by).await?))
}

/// Takes the approval of tools away, from the next run on.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/revoke",
    params(McpServerPath),
    request_body = McpRevocation,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn revoke_mcp_tools(
    State(api): State<Api>,
    server: McpServer,
    Json(McpRevocation { tools }, _): Json<McpRevocation>, // revoking twice is revoking once
) -> Reply<McpServerView> {
    Ok(Answer(api.engine.revoke_mcp(server.names(), tools, &server.by).await?))
}
