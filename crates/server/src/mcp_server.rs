//! The MCP server: the agent as tools and resources of the Model Context Protocol, for clients of both its eras.
//!
//! A route has authenticated the caller before anything here looks at a message. Requests of the protocol of 2026 and
//! most of the older one are answered by themselves; only a client that can be asked for approvals in the older way
//! has a session. rmcp reads and writes the messages.

mod approvals;
mod ask;
mod calls;
mod envelope;
mod handler;
mod progress;
mod report;
mod resources;
mod sessions;
mod tool_list;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use protocol::{AppId, Principal};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use service::StreamAccess;

use self::handler::McpHandler;
use self::sessions::{OwnedSessions, SessionOwner};
use crate::Api;
use crate::auth::{ReadingCaller, check_origin};
use crate::body::read_slowly;
use crate::error::{ApiProblem, ProblemCode};
use crate::event_stream::access_end;

pub(crate) use sessions::McpSessions;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The caller of one request.
#[derive(Clone)]
struct McpCaller {
    principal: Principal,
    /// The app that the path names. The principal is then good for this one alone.
    app: Option<String>,
    /// Ends with the key, the JWT or the session of the request.
    access: Arc<StreamAccess>,
    /// Whether the request belongs to a session, in which the client can be asked something.
    in_session: bool,
}

/// Answers one HTTP request of an MCP client.
pub(crate) async fn serve_mcp(
    api: &Api,
    caller: ReadingCaller,
    app: Option<String>,
    request: Request,
) -> Result<Response, ApiProblem> {
    // The protocol wants the origin of every request to be checked, of reading ones as well.
    check_origin(api.bound, &api.proxying, &Method::POST, request.headers())?;
    let ReadingCaller { principal, access, proof } = caller;
    let principal = match &app {
        Some(app) => only_for(api, principal, app)?,
        None => principal,
    };
    let owner = SessionOwner { user: principal.user().clone(), proof };
    let (mut parts, body) = request.into_parts();
    let body = match parts.method {
        Method::POST => read_slowly(body, api, &api.limits, &mut parts).await?,
        _ => Bytes::new(),
    };
    let mut room = None;
    if parts.method == Method::POST {
        match envelope::wants_session(&body) {
            Ok(wants) => room = api.mcp_sessions.reserve().filter(|_| wants),
            Err(refusal) => return Ok(refusal.into_response()),
        }
    }
    let in_session = parts.headers.contains_key(SESSION);
    let has_session = in_session || room.is_some();
    let (access, is_stream) = (Arc::new(access), parts.method == Method::GET);
    let permit = is_stream.then(|| api.may_follow(&principal)).transpose()?;
    let caller = McpCaller { principal, app, access: Arc::clone(&access), in_session };
    parts.extensions.insert(caller);
    let sessions = OwnedSessions::new(Arc::clone(&api.mcp_sessions), owner, room);
    let handler = McpHandler { api: api.clone(), _task: api.mcp_sessions.task_token() };
    let service =
        StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(sessions), config(api, has_session));
    let response = service.handle(Request::from_parts(parts, Full::new(body))).await;
    let (parts, body) = response.into_parts();
    let body = if is_stream {
        let over = async move { access_end(&access).await };
        let chunks = body.into_data_stream().take_until(Box::pin(over));
        // The permit is given back with the body.
        Body::from_stream(chunks.map(move |chunk| (chunk, &permit).0))
    } else {
        Body::new(body)
    };
    Ok(Response::from_parts(parts, body))
}

fn config(api: &Api, has_session: bool) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        // Both were checked before, as for all routes.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_legacy_session_mode(has_session)
        .with_json_response(true)
        .with_sse_keep_alive(Some(api.limits.heartbeat))
        // An event without data would puzzle clients of the first versions.
        .with_sse_retry(None)
        .with_max_request_body_bytes(api.limits.max_body_bytes)
        // Handlers hear of the stop before, and still answer.
        .with_cancellation_token(api.shutdown.all.clone())
}

/// The principal in the app of the path alone.
fn only_for(api: &Api, principal: Principal, app: &str) -> Result<Principal, ApiProblem> {
    let id = AppId::new(app);
    let is_there = api.service.apps().iter().any(|served| served.id == app);
    if !is_there || !principal.may_use(&id) {
        return Err(ApiProblem::new(ProblemCode::NotFound, "there is no such app"));
    }
    Ok(principal.only_for_apps([id]))
}
