//! Threads: create, list, read, rename, choose who answers, delete, and follow their log.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::{Message, NewThread, Page, Principal, ThreadChange, ThreadView};

use crate::Api;
use crate::body::{Json, OptionalJson};
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{AppPath, ThreadPath};
use crate::query::{AfterParams, LastEvent, LastEventId, PageParams, Params};
use crate::routes::Followed;

/// Creates a thread. The body may be empty.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/threads",
    params(AppPath),
    request_body = Option<NewThread>,
    responses((status = 201, description = "The new thread", body = ThreadView))
)]
pub(super) async fn create_thread(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    OptionalJson(new, once): OptionalJson<NewThread>,
) -> Result<(StatusCode, Answer<ThreadView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.create_thread(&principal, &app, new, once).await?)))
}

/// The user's threads in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/threads",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page of threads", body = Page<ThreadView>))
)]
pub(super) async fn list_threads(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<ThreadView>>, Problem> {
    Ok(Answer(api.engine.threads(&principal, &app, page.into()).await?))
}

/// One thread.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    responses((status = 200, description = "The thread", body = ThreadView))
)]
pub(super) async fn get_thread(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(api.engine.thread(&principal, thread).await?))
}

/// Renames a thread, or sets who answers in it. What is absent stays as it is; a `personaId` of null removes it.
#[utoipa::path(
    patch,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    request_body = ThreadChange,
    responses((status = 200, description = "The thread as it is now", body = ThreadView))
)]
pub(super) async fn change_thread(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Json(change, once): Json<ThreadChange>,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(api.engine.change_thread(&principal, thread, change, once).await?))
}

/// Deletes a thread. A run under way in it is cancelled.
#[utoipa::path(
    delete,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    responses((status = 204, description = "The thread is gone"))
)]
pub(super) async fn delete_thread(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.engine.delete_thread(&principal, thread, once).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What was said in a thread, with the tool calls of every answer and their results.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/messages",
    params(ThreadPath, PageParams),
    responses((status = 200, description = "A page of messages", body = Page<Message>))
)]
pub(super) async fn list_messages(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<Message>>, Problem> {
    Ok(Answer(api.engine.messages(&principal, thread, page.into()).await?))
}

/// The thread's channel: the events of all its runs after the last one seen, then the ones to come, without end.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/events",
    params(ThreadPath, AfterParams, LastEventId),
    responses((status = 200, description = "The thread's events", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn thread_events(
    State(api): State<Api>,
    principal: Principal,
    ThreadPath { thread }: ThreadPath,
    LastEvent(after): LastEvent,
) -> Result<Response, Problem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.engine.follow_thread(&principal, thread, after).await?;
    Ok(api.stream(Followed { follower, permit }))
}
