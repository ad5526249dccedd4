//! The MCP server at `/mcp` and `/mcp/{app}`, and the document that tells its clients who issues tokens.

use axum::Json;
use axum::extract::{OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::Api;
use crate::auth::{ReadingCaller, is_secure};
use crate::error::{ApiProblem, ProblemCode};
use crate::mcp_server::serve_mcp;
use crate::path::AppPath;

pub(super) const MCP: &str = "/mcp";
pub(super) const MCP_OF_APP: &str = "/mcp/{app}";

/// The path at which clients look for the description of a protected resource (RFC 9728). The path of the resource
/// follows.
pub(super) const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";

/// Serves all apps that the caller may use.
pub(super) async fn mcp(
    State(api): State<Api>,
    caller: Result<ReadingCaller, ApiProblem>,
    request: Request,
) -> Response {
    answer(&api, caller, None, request).await
}

/// Serves one app.
pub(super) async fn mcp_of_app(
    State(api): State<Api>,
    caller: Result<ReadingCaller, ApiProblem>,
    AppPath { app }: AppPath,
    request: Request,
) -> Response {
    answer(&api, caller, Some(app), request).await
}

async fn answer(
    api: &Api,
    caller: Result<ReadingCaller, ApiProblem>,
    app: Option<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let challenge = challenge(api, &parts);
    let answer = match caller {
        Ok(caller) => serve_mcp(api, caller, app, Request::from_parts(parts, body)).await,
        Err(problem) => Err(problem),
    };
    answer.unwrap_or_else(|problem| {
        let is_unknown = problem.code() == ProblemCode::Unauthorized;
        let mut response = problem.into_response();
        if let Some(challenge) = challenge.filter(|_| is_unknown) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    })
}

/// Tells a client where to find the issuers of tokens. None if there is no issuer.
fn challenge(api: &Api, parts: &Parts) -> Option<HeaderValue> {
    if api.issuers.is_empty() {
        return None;
    }
    let (base, path) = (base_url(api, parts), parts.uri.path());
    HeaderValue::from_str(&format!("Bearer resource_metadata=\"{base}{PROTECTED_RESOURCE}{path}\"")).ok()
}

/// Describes the MCP server as a protected resource: its address, and the issuers whose tokens it takes.
pub(super) async fn protected_resource(
    State(api): State<Api>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Result<Json<Value>, ApiProblem> {
    if api.issuers.is_empty() {
        return Err(ApiProblem::new(
            ProblemCode::NotFound,
            "no issuer of JWTs is configured; use an API key",
        ));
    }
    let (parts, _) = request.into_parts();
    let path = uri.path().strip_prefix(PROTECTED_RESOURCE).filter(|path| !path.is_empty()).unwrap_or(MCP);
    let issuers: Vec<&str> = api.issuers.names_in_tokens().collect();
    Ok(Json(json!({
        "resource": format!("{}{path}", base_url(&api, &parts)),
        "authorization_servers": issuers,
        "bearer_methods_supported": ["header"],
        "resource_name": "Rondo",
    })))
}

/// The address under which the client has reached the server, as far as it is known.
fn base_url(api: &Api, parts: &Parts) -> String {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(parts.uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    match api.proxying.public_url_of(host) {
        Some(url) => url.to_string(),
        None => {
            let scheme = if is_secure(api, parts) { "https" } else { "http" };
            format!("{scheme}://{host}{}", api.proxying.cookie_path().trim_end_matches('/'))
        }
    }
}
