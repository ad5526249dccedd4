//! MCP servers: their tools, and the approval of these. For holders of an admin key, in the apps it is for.

use axum::Json as Answer;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::{AppId, McpApproval, McpServerView, Page};
use serde::Deserialize;
use service::Error;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::{Admin, Caller};
use crate::body::{Json, OptionalJson};
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::McpServerPath;
use crate::routes::JsonReply;

/// An MCP server of an app, and the admin who asks about it.
pub(super) struct McpServerRequest {
    app: String,
    server: String,
    caller: Caller,
}

impl McpServerRequest {
    fn names(&self) -> (&str, &str) {
        (&self.app, &self.server)
    }

    fn admin(&self) -> String {
        self.caller.principal.name()
    }
}

impl FromRequestParts<Api> for McpServerRequest {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let Admin(caller) = Admin::from_request_parts(parts, api).await?;
        let McpServerPath { app, server } = McpServerPath::from_request_parts(parts, api).await?;
        if !caller.principal.may_use(&AppId::new(app.as_str())) {
            return Err(Error::NotFound { what: "app" }.into());
        }
        Ok(Self { app, server, caller })
    }
}

/// Tools whose approval is revoked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct McpRevocation {
    /// The names that the MCP server uses.
    tools: Vec<String>,
}

/// Lists the MCP servers of all apps, with their tools.
#[utoipa::path(
    get,
    path = "/v1/admin/mcp",
    responses((status = 200, description = "All MCP servers, in one page", body = Page<McpServerView>))
)]
pub(super) async fn list_mcp_servers(Admin(caller): Admin) -> JsonReply<Page<McpServerView>> {
    let mut data = caller.service.mcp_servers().await?;
    data.retain(|server| caller.principal.may_use(&AppId::new(server.app.as_str())));
    Ok(Answer(Page { data, next: None }))
}

/// Returns one MCP server, with its state at the last contact.
#[utoipa::path(
    get,
    path = "/v1/admin/mcp/{app}/{server}",
    params(McpServerPath),
    responses((status = 200, description = "The server", body = McpServerView))
)]
pub(super) async fn get_mcp_server(server: McpServerRequest) -> JsonReply<McpServerView> {
    Ok(Answer(server.caller.service.show_mcp(server.names()).await?))
}

/// Asks an MCP server for its tools now. If the server cannot be reached, `lastError` says why.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/refresh",
    params(McpServerPath),
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn refresh_mcp_server(
    server: McpServerRequest,
    IdempotencyKey(_): IdempotencyKey, // looking twice changes nothing
) -> JsonReply<McpServerView> {
    Ok(Answer(server.caller.service.look_at_mcp(&server.app, &server.server).await?))
}

/// Approves tools with the definitions that were shown. Without names, it approves all tools that wait for approval.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/approve",
    params(McpServerPath),
    request_body = Option<McpApproval>,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn approve_mcp_tools(
    server: McpServerRequest,
    OptionalJson(approval, _): OptionalJson<McpApproval>, // approving twice is approving once
) -> JsonReply<McpServerView> {
    Ok(Answer(server.caller.service.approve_mcp(server.names(), approval, &server.admin()).await?))
}

/// Revokes the approval of tools, from the next run on.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/revoke",
    params(McpServerPath),
    request_body = McpRevocation,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn revoke_mcp_tools(
    server: McpServerRequest,
    Json(McpRevocation { tools }, _): Json<McpRevocation>, // revoking twice is revoking once
) -> JsonReply<McpServerView> {
    Ok(Answer(server.caller.service.revoke_mcp(server.names(), tools, &server.admin()).await?))
}
