//! Past messages, in any of the user's threads.

use axum::Json as Answer;
use protocol::{MessageHit, Page};

use crate::auth::Caller;
use crate::path::AppPath;
use crate::query::{MessageParams, Params};
use crate::routes::Reply;

/// Past messages of all your threads in an app, best first. Times that the question names, such as "last Tuesday", are
/// understood.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/search",
    params(AppPath, MessageParams),
    responses((status = 200, description = "What was found; one page", body = Page<MessageHit>))
)]
pub(super) async fn search_messages(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(query): Params<MessageParams>,
) -> Reply<Page<MessageHit>> {
    Ok(Answer(caller.service.search_messages(&caller.principal, &app, query.into()).await?))
}
