//! Which apps there are, whether the server lives and takes work, and what it offers.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use protocol::{AppId, AppView, Page, Principal};

use crate::Api;
use crate::error::{ApiProblem, ProblemCode, ProblemDocument};

/// Seconds.
const READY_RETRY_AFTER: u32 = 1;

const UNWRITABLE: &str = "the server can no longer write and stops; start it again";

/// Lists the apps that the user can use.
#[utoipa::path(
    get,
    path = "/v1/apps",
    responses((status = 200, description = "All apps", body = Page<AppView>))
)]
pub(super) async fn list_apps(State(api): State<Api>, principal: Principal) -> Answer<Page<AppView>> {
    let mut data = api.service.apps();
    data.retain(|app| principal.may_use(&AppId::new(app.id.as_str())));
    Answer(Page { data, next: None })
}

/// Reports whether the process is alive and needs no restart (liveness).
#[utoipa::path(
    get,
    path = "/healthz",
    responses(
        (status = 200, description = "The process is alive"),
        (
            status = 503,
            description = "The server can no longer write, and stops",
            body = ProblemDocument,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn healthz(State(api): State<Api>) -> Result<StatusCode, ApiProblem> {
    if api.service.can_write() {
        return Ok(StatusCode::OK);
    }
    Err(ApiProblem::new(ProblemCode::Unavailable, UNWRITABLE))
}

/// Reports whether the server accepts requests (readiness).
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "The server accepts requests"),
        (
            status = 503,
            description = "The server is starting or stopping, or can no longer write",
            body = ProblemDocument,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn readyz(State(api): State<Api>) -> Result<StatusCode, ApiProblem> {
    if api.shutdown.streams.is_cancelled() || !api.service.is_ready() {
        let detail = if api.service.can_write() { "the server is starting or stopping" } else { UNWRITABLE };
        return Err(ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(READY_RETRY_AFTER));
    }
    Ok(StatusCode::OK)
}

/// Returns this OpenAPI description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses((status = 200, description = "The OpenAPI description", body = serde_json::Value))
)]
pub(super) async fn openapi(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], Bytes::clone(&api.document))
}
