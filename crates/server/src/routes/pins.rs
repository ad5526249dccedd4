//! Pins: what the user marked as important, for one thread or for all of an app's.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{NewPin, Page, PinView};

use crate::auth::Caller;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, PinPath, ThreadPath};
use crate::query::{PageParams, Params};
use crate::routes::{Created, JsonReply, created};

/// Marks a text as important in one thread. The text is part of the prompt from the next run on.
#[utoipa::path(
    post,
    path = "/v1/threads/{thread}/pins",
    params(ThreadPath),
    request_body = NewPin,
    responses((status = 201, description = "The new pin", body = PinView))
)]
pub(super) async fn create_pin(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Json(new, once): Json<NewPin>,
) -> Created<PinView> {
    Ok(created(caller.service.pin_in_thread(&caller.principal, thread, new, once).await?))
}

/// Lists the pins of a thread and the pins for all threads of the app, oldest first.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/pins",
    params(ThreadPath, PageParams),
    responses((status = 200, description = "A page; short lists are complete", body = Page<PinView>))
)]
pub(super) async fn list_pins(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<PinView>> {
    Ok(Answer(caller.service.pins_of_thread(&caller.principal, thread, page.into()).await?))
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
    caller: Caller,
    AppPath { app }: AppPath,
    Json(new, once): Json<NewPin>,
) -> Created<PinView> {
    Ok(created(caller.service.pin_in_app(&caller.principal, &app, new, once).await?))
}

/// Lists the pins for all threads of an app, oldest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/pins",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page; short lists are complete", body = Page<PinView>))
)]
pub(super) async fn list_pins_for_all(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<PinView>> {
    Ok(Answer(caller.service.pins_of_app(&caller.principal, &app, page.into()).await?))
}

/// Deletes a pin. From the next run on, no prompt has it.
#[utoipa::path(
    delete,
    path = "/v1/pins/{pin}",
    params(PinPath),
    responses((status = 204, description = "The pin is deleted"))
)]
pub(super) async fn delete_pin(
    caller: Caller,
    PinPath { pin }: PinPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.unpin(&caller.principal, pin, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
