//! What was said before, in any of the user's threads.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{MessageHit, Page, Principal};

use crate::Api;
use crate::error::Problem;
use crate::path::AppPath;
use crate::query::{MessageParams, Params};

/// Past messages of all your threads in an app, best first. Times that the question names, such as "last Tuesday", are
/// understood.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/search",
    params(AppPath, MessageParams),
    responses((status = 200, description = "What was found; one page", body = Page<MessageHit>))
)]
pub(super) async fn search_messages(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(query): Params<MessageParams>,
) -> Result<Answer<Page<MessageHit>>, Problem> {
    Ok(Answer(api.engine.search_messages(&principal, &app, query.into()).await?))
}
