//! Pins: what the user marked as important, for one thread or for all of an app's.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{NewPin, Page, PinView, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{AppPath, PinPath, ThreadPath};
use crate::query::{PageParams, Params};

/// Marks a text as important in one thread. It is part of the prompt from the next run on.
#[utoipa::path(
    post,
    path = "/v1/threads/{thread}/pins",
    params(ThreadPath),
    request_body = NewPin,
    responses((status = 201, description = "The new pin", body = PinView))
)]
pub(super) async fn create_pin(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Json(new, once): Json<NewPin>,
) -> Result<(StatusCode, Answer<PinView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.pin_in_thread(&principal, thread, new, once).await?)))
}

/// The pins of a thread and those of all threads, oldest first.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/pins",
    params(ThreadPath, PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PinView>))
)]
pub(super) async fn list_pins(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<PinView>>, Problem> {
    Ok(Answer(api.engine.pins_of_thread(&principal, thread, page.into()).await?))
}

/// Marks a text as important in all of the user's threads in an app.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/pins",
    params(AppPath),
    request_body = NewPin,
    responses((status = 201, description = "The new pin", body = PinView))
)]
pub(super) async fn create_pin_for_all(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Json(new, once): Json<NewPin>,
) -> Result<(StatusCode, Answer<PinView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.pin_in_app(&principal, &app, new, once).await?)))
}

/// The pins that are for all threads of an app, oldest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/pins",
    params(AppPath, PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PinView>))
)]
pub(super) async fn list_pins_for_all(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<PinView>>, Problem> {
    Ok(Answer(api.engine.pins_of_app(&principal, &app, page.into()).await?))
}

/// Removes a pin: from the next run on it is in no prompt.
#[utoipa::path(
    delete,
    path = "/v1/pins/{pin}",
    params(PinPath),
    responses((status = 204, description = "The pin is gone"))
)]
pub(super) async fn delete_pin(
    State(api): State<Api>,
    principal: Principal,
    PinPath { pin }: PinPath,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.engine.unpin(&principal, pin, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
