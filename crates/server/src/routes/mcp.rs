//! Servers of tools: what they offer, and which of it may be used. For holders of an admin key, in the apps it is for.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use protocol::{AppId, McpApproval, McpServerView, Page};
use serde::Deserialize;
use service::Error;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::Admin;
use crate::body::{Json, OptionalJson};
use crate::error::Problem;
use crate::once::Key;

/// A server of tools in an app, and the admin who asks about it.
pub(super) struct Place {
    app: String,
    server: String,
    by: String,
}

impl Place {
    fn names(&self) -> (&str, &str) {
        (&self.app, &self.server)
    }
}

impl FromRequestParts<Api> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let Admin(by) = Admin::from_request_parts(parts, api).await?;
        let names = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((app, server)) = names.map_err(|_| Error::NotFound { what: "server" })?;
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
    tag = "admin",
    operation_id = "list_mcp_servers",
    responses((status = 200, description = "All of them; one page", body = Page<McpServerView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    Admin(by): Admin,
) -> Result<Answer<Page<McpServerView>>, Problem> {
    let mut data = api.service.mcp_servers().await?;
    data.retain(|server| by.may_use(&AppId::new(server.app.as_str())));
    Ok(Answer(Page { data, next: None }))
}

/// One server of tools, as it was last looked at.
#[utoipa::path(
    get,
    path = "/v1/admin/mcp/{app}/{server}",
    tag = "admin",
    operation_id = "get_mcp_server",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("server" = String, Path, description = "Its name in the app")
    ),
    responses((status = 200, description = "The server", body = McpServerView))
)]
pub(super) async fn show(State(api): State<Api>, place: Place) -> Result<Answer<McpServerView>, Problem> {
    Ok(Answer(api.service.show_mcp(place.names()).await?))
}

/// Asks a server now what it offers. One that cannot be reached is an answer, too: `lastError` says why.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/refresh",
    tag = "admin",
    operation_id = "refresh_mcp_server",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("server" = String, Path, description = "Its name in the app")
    ),
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn refresh(
    State(api): State<Api>,
    place: Place,
    Key(_): Key, // looking twice changes nothing
) -> Result<Answer<McpServerView>, Problem> {
    Ok(Answer(api.service.look_at_mcp(&place.app, &place.server).await?))
}

/// Says yes to tools as they were shown; to all that wait if none are named.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/approve",
    tag = "admin",
    operation_id = "approve_mcp_tools",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("server" = String, Path, description = "Its name in the app")
    ),
    request_body = Option<McpApproval>,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn approve(
    State(api): State<Api>,
    place: Place,
    OptionalJson(approval, _): OptionalJson<McpApproval>, // approving twice is approving once
) -> Result<Answer<McpServerView>, Problem> {
    Ok(Answer(api.service.approve_mcp(place.names(), approval, &place.by).await?))
}

/// Takes the approval of tools away, from the next run on.
#[utoipa::path(
    post,
    path = "/v1/admin/mcp/{app}/{server}/revoke",
    tag = "admin",
    operation_id = "revoke_mcp_tools",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("server" = String, Path, description = "Its name in the app")
    ),
    request_body = McpRevocation,
    responses((status = 200, description = "The server as it is now", body = McpServerView))
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    place: Place,
    Json(McpRevocation { tools }, _): Json<McpRevocation>, // revoking twice is revoking once
) -> Result<Answer<McpServerView>, Problem> {
    Ok(Answer(api.service.revoke_mcp(place.names(), tools, &place.by).await?))
}
