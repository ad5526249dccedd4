//! Summaries: what stands for the older parts of a conversation.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Page, Principal, SummaryView, ThreadId};

use crate::Api;
use crate::error::Problem;
use crate::query::{All, AllParams, InPath, PageParams, Paging};

/// What stands for the older part of a thread, in the order of the conversation.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/summaries",
    tag = "threads",
    operation_id = "list_summaries",
    params(("thread" = ThreadId, Path), AllParams, PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<SummaryView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    All(all): All,
    Paging(page): Paging,
) -> Result<Answer<Page<SummaryView>>, Problem> {
    Ok(Answer(api.service.summaries(&principal, thread, all, page).await?))
}
