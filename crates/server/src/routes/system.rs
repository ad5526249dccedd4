//! Which apps there are, whether the server lives and takes work, and what it offers.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use protocol::{AppId, AppView, Page, Principal};

use crate::Api;
use crate::error::{Code, Document, Problem};

/// Seconds.
const READY_RETRY_AFTER: u32 = 1;

const UNWRITABLE: &str = "nothing more can be written; the server ends and must be started again";

/// The apps of this server that the user may talk to.
#[utoipa::path(
    get,
    path = "/v1/apps",
    tag = "apps",
    operation_id = "list_apps",
    responses((status = 200, description = "All apps", body = Page<AppView>))
)]
pub(super) async fn apps(State(api): State<Api>, principal: Principal) -> Answer<Page<AppView>> {
    let mut data = api.service.apps();
    data.retain(|app| principal.may_use(&AppId::new(app.id.as_str())));
    Answer(Page { data, next: None })
}

/// Says whether the process lives and can go on without a restart.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "system",
    responses(
        (status = 200, description = "It lives"),
        (
            status = 503,
            description = "It can write nothing any more, and ends",
            body = Document,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn healthz(State(api): State<Api>) -> Result<StatusCode, Problem> {
    if api.service.can_write() {
        return Ok(StatusCode::OK);
    }
    Err(Problem::new(Code::Unavailable, UNWRITABLE))
}

/// Says whether the server takes work.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "system",
    responses(
        (status = 200, description = "It takes work"),
        (
            status = 503,
            description = "It is starting or stopping, or can write nothing any more",
            body = Document,
            content_type = "application/problem+json"
        )
    )
)]
pub(super) async fn readyz(State(api): State<Api>) -> Result<StatusCode, Problem> {
    if api.shutdown.streams.is_cancelled() || !api.service.is_ready() {
        let detail = if api.service.can_write() { "the server is starting or stopping" } else { UNWRITABLE };
        return Err(Problem::new(Code::Unavailable, detail).retry_after(READY_RETRY_AFTER));
    }
    Ok(StatusCode::OK)
}

/// This description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "system",
    responses((status = 200, description = "The OpenAPI description", body = serde_json::Value))
)]
pub(super) async fn openapi(State(api): State<Api>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], api.document)
}
