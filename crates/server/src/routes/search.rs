//! Past messages, in any of the user's threads.

use axum::Json as Answer;
use protocol::{MessageHit, Page};

use crate::auth::Caller;
use crate::path::AppPath;
use crate::query::{MessageParams, Params};
use crate::routes::Reply;

/// Searches the messages of all your threads in an app, best match first. It understands times in the question, such as
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
) -> Reply<Page<MessageHit>> {
    Ok(Answer(caller.service.search_messages(&caller.principal, &app, query.into()).await?))
}
