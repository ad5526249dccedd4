//! Calls that the client makes: list them, read one, send its result.

use axum::Json as Answer;
use protocol::{ClientCallView, NewCallResult, Page};

use crate::auth::Caller;
use crate::body::Json;
use crate::path::{AppPath, CallPath};
use crate::query::{OpenParams, PageParams, Params};
use crate::routes::JsonReply;

/// Lists the calls that clients of the user make in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/calls",
    params(AppPath, OpenParams, PageParams),
    responses((status = 200, description = "A page of calls", body = Page<ClientCallView>))
)]
pub(super) async fn list_calls(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(OpenParams { open }): Params<OpenParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ClientCallView>> {
    let calls = caller.service.client_calls(&caller.principal, &app, open.unwrap_or(false), page.into());
    Ok(Answer(calls.await?))
}

/// Returns a call that the client makes.
#[utoipa::path(
    get,
    path = "/v1/calls/{call}",
    params(CallPath),
    responses((status = 200, description = "The call", body = ClientCallView))
)]
pub(super) async fn get_call(caller: Caller, CallPath { call }: CallPath) -> JsonReply<ClientCallView> {
    Ok(Answer(caller.service.client_call(&caller.principal, call).await?))
}

/// Sends the result of a call that the client made, once. The run that waits for it continues.
#[utoipa::path(
    post,
    path = "/v1/calls/{call}/result",
    params(CallPath),
    request_body = NewCallResult,
    responses((status = 200, description = "The call as it is now", body = ClientCallView))
)]
pub(super) async fn answer_call(
    caller: Caller,
    CallPath { call }: CallPath,
    Json(answer, once): Json<NewCallResult>,
) -> JsonReply<ClientCallView> {
    Ok(Answer(caller.service.answer_client_call(&caller.principal, call, answer, once).await?))
}
