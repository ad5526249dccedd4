//! Threads: create, list, read, rename, choose who answers, delete, and follow their log.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::{Message, NewThread, Page, Principal, ThreadChange, ThreadId, ThreadView};

use crate::Api;
use crate::body::{Json, OptionalJson};
use crate::error::Problem;
use crate::once::Key;
use crate::query::{After, AfterParams, InPath, PageParams, Paging};

/// Creates a thread. The body may be empty.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/threads",
    tag = "threads",
    operation_id = "create_thread",
    params(("app" = String, Path, description = "The app's name")),
    request_body = Option<NewThread>,
    responses((status = 201, description = "The new thread", body = ThreadView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    OptionalJson(new, once): OptionalJson<NewThread>,
) -> Result<(StatusCode, Answer<ThreadView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.service.create_thread(&principal, &app, new, once).await?)))
}

/// The user's threads in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/threads",
    tag = "threads",
    operation_id = "list_threads",
    params(("app" = String, Path, description = "The app's name"), PageParams),
    responses((status = 200, description = "A page of threads", body = Page<ThreadView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Paging(page): Paging,
) -> Result<Answer<Page<ThreadView>>, Problem> {
    Ok(Answer(api.service.threads(&principal, &app, page).await?))
}

/// One thread.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}",
    tag = "threads",
    operation_id = "get_thread",
    params(("thread" = ThreadId, Path)),
    responses((status = 200, description = "The thread", body = ThreadView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(api.service.thread(&principal, thread).await?))
}

/// Renames a thread, or sets who answers in it. What is absent stays as it is; a `personaId` of null removes it.
#[utoipa::path(
    patch,
    path = "/v1/threads/{thread}",
    tag = "threads",
    operation_id = "change_thread",
    params(("thread" = ThreadId, Path)),
    request_body = ThreadChange,
    responses((status = 200, description = "The thread as it is now", body = ThreadView))
)]
pub(super) async fn change(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    Json(change, once): Json<ThreadChange>,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(api.service.change_thread(&principal, thread, change, once).await?))
}

/// Deletes a thread. A run under way in it is cancelled.
#[utoipa::path(
    delete,
    path = "/v1/threads/{thread}",
    tag = "threads",
    operation_id = "delete_thread",
    params(("thread" = ThreadId, Path)),
    responses((status = 204, description = "The thread is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_thread(&principal, thread, once).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What was said in a thread, with the tool calls of every answer and their results.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/messages",
    tag = "threads",
    operation_id = "list_messages",
    params(("thread" = ThreadId, Path), PageParams),
    responses((status = 200, description = "A page of messages", body = Page<Message>))
)]
pub(super) async fn messages(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    Paging(page): Paging,
) -> Result<Answer<Page<Message>>, Problem> {
    Ok(Answer(api.service.messages(&principal, thread, page).await?))
}

/// The thread's channel: the events of all its runs after the last one seen, then the ones to come, without end.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/events",
    tag = "threads",
    operation_id = "thread_events",
    params(
        ("thread" = ThreadId, Path),
        AfterParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event seen")
    ),
    responses((status = 200, description = "The thread's events", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(api): State<Api>,
    principal: Principal,
    InPath(thread): InPath<ThreadId>,
    After(after): After,
) -> Result<Response, Problem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_thread(&principal, thread, after).await?;
    Ok(api.stream(follower, permit))
}
