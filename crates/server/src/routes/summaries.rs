//! Summaries: what stands for the older parts of a conversation.

use axum::Json as Answer;
use protocol::{Page, SummaryView};

use crate::auth::Caller;
use crate::path::ThreadPath;
use crate::query::{PageParams, Params, SummaryParams};
use crate::routes::JsonReply;

/// Lists the summaries that replace the older part of a thread in the prompt, in the order of the conversation.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/summaries",
    params(ThreadPath, SummaryParams, PageParams),
    responses((status = 200, description = "A page; short lists are complete", body = Page<SummaryView>))
)]
pub(super) async fn list_summaries(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Params(SummaryParams { all }): Params<SummaryParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<SummaryView>> {
    Ok(Answer(caller.service.summaries(&caller.principal, thread, all.unwrap_or(false), page.into()).await?))
}
