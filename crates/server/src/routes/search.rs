//! Searches over what was said: past messages, and the threads they are in.

use axum::Json as Answer;
use protocol::{MessageHit, Page, ThreadHit};

use crate::auth::Caller;
use crate::path::AppPath;
use crate::query::{MessageParams, Params, ThreadSearchParams};
use crate::routes::JsonReply;

/// Searches the messages of all threads of the user in an app, best match first. The question can name a time, such as
/// "last Tuesday".
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/search",
    params(AppPath, MessageParams),
    responses((status = 200, description = "The matches, in one page", body = Page<MessageHit>))
)]
pub(super) async fn search_messages(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(query): Params<MessageParams>,
) -> JsonReply<Page<MessageHit>> {
    Ok(Answer(caller.service.search_messages(&caller.principal, &app, query.into()).await?))
}

/// Searches the threads of the user in an app by their titles and messages. Threads with a matching title come first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/threads/search",
    params(AppPath, ThreadSearchParams),
    responses((status = 200, description = "The threads, in one page", body = Page<ThreadHit>))
)]
pub(super) async fn search_threads(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(ThreadSearchParams { q, limit }): Params<ThreadSearchParams>,
) -> JsonReply<Page<ThreadHit>> {
    Ok(Answer(caller.service.search_threads(&caller.principal, &app, &q, limit).await?))
}
