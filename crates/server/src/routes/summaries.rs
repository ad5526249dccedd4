//! Summaries: what stands for the older parts of a conversation.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Page, Principal, SummaryView};

use crate::Api;
use crate::error::Problem;
use crate::path::ThreadPath;
use crate::query::{PageParams, Params, SummaryParams};

/// What stands for the older part of a thread, in the order of the conversation.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/summaries",
    params(ThreadPath, SummaryParams, PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<SummaryView>))
)]
pub(super) async fn list_summaries(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Params(SummaryParams { all }): Params<SummaryParams>,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<SummaryView>>, Problem> {
    Ok(Answer(api.engine.summaries(&principal, thread, all.unwrap_or(false), page.into()).await?))
}
