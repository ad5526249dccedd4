//! What was said before, in any of the user's threads.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{MessageHit, Page, Principal};

use crate::Api;
use crate::error::Problem;
use crate::query::{InPath, MessageParams, WhichMessages};

/// Past messages of all your threads in an app, best first. Times that the question names, such as "last Tuesday", are
/// understood.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/search",
    tag = "threads",
    operation_id = "search_messages",
    params(("app" = String, Path, description = "The app's name"), MessageParams),
    responses((status = 200, description = "What was found; one page", body = Page<MessageHit>))
)]
pub(super) async fn messages(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    WhichMessages(query): WhichMessages,
) -> Result<Answer<Page<MessageHit>>, Problem> {
    Ok(Answer(api.service.search_messages(&principal, &app, query).await?))
}
