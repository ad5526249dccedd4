//! Pins: what the user marked as important, for one thread or for all of an app's.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{NewPin, Page, PinId, PinView, Principal, ThreadId};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{InPath, PageParams, Paging};

/// Marks a text as important in one thread. It is part of the prompt from the next run on.
#[utoipa::path(
    post,
    path = "/v1/threads/{thread}/pins",
    tag = "pins",
    operation_id = "create_pin",
    params(("thread" = ThreadId, Path)),
    request_body = NewPin,
    responses((status = 201, description = "The new pin", body = PinView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    Json(new, once): Json<NewPin>,
) -> Result<(StatusCode, Answer<PinView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.service.pin_in_thread(&principal, thread, new, once).await?)))
}

/// The pins of a thread and those of all threads, oldest first.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/pins",
    tag = "pins",
    operation_id = "list_pins",
    params(("thread" = ThreadId, Path), PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PinView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    Paging(page): Paging,
) -> Result<Answer<Page<PinView>>, Problem> {
    Ok(Answer(api.service.pins_of_thread(&principal, thread, page).await?))
}

/// Marks a text as important in all of the user's threads in an app.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/pins",
    tag = "pins",
    operation_id = "create_pin_for_all",
    params(("app" = String, Path, description = "The app's name")),
    request_body = NewPin,
    responses((status = 201, description = "The new pin", body = PinView))
)]
pub(super) async fn create_for_all(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(new, once): Json<NewPin>,
) -> Result<(StatusCode, Answer<PinView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.service.pin_in_app(&principal, &app, new, once).await?)))
}

/// The pins that are for all threads of an app, oldest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/pins",
    tag = "pins",
    operation_id = "list_pins_for_all",
    params(("app" = String, Path, description = "The app's name"), PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PinView>))
)]
pub(super) async fn list_for_all(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Paging(page): Paging,
) -> Result<Answer<Page<PinView>>, Problem> {
    Ok(Answer(api.service.pins_of_app(&principal, &app, page).await?))
}

/// Removes a pin: from the next run on it is in no prompt.
#[utoipa::path(
    delete,
    path = "/v1/pins/{pin}",
    tag = "pins",
    operation_id = "delete_pin",
    params(("pin" = PinId, Path)),
    responses((status = 204, description = "The pin is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    InPath(pin): InPath<PinId>,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.unpin(&principal, pin, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
