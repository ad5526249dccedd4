//! Threads: create, list, read, change, delete, and follow their log.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::{ImportedThread, NewThread, Page, ThreadChange, ThreadToImport, ThreadView};

use crate::Api;
use crate::auth::{Caller, StreamCaller};
use crate::body::{Json, OptionalJson};
use crate::contracts::ChatKey;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, ThreadPath};
use crate::query::{AfterParams, LastEvent, LastEventId, PageParams, Params, ThreadParams};
use crate::routes::{Created, FollowedEvents, JsonReply, created};
use crate::upload::JsonWithFiles;

/// Creates a thread. The body may be empty.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/threads",
    params(AppPath),
    request_body = Option<NewThread>,
    responses((status = 201, description = "The new thread", body = ThreadView))
)]
pub(super) async fn create_thread(
    caller: Caller,
    AppPath { app }: AppPath,
    OptionalJson(new, once): OptionalJson<NewThread>,
) -> Created<ThreadView> {
    Ok(created(caller.service.create_thread(&caller.principal, &app, new, once).await?))
}

/// Imports a conversation of another system. A second import of the same `sourceId` changes nothing.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/threads/import",
    params(AppPath),
    request_body = ThreadToImport,
    responses(
        (status = 200, description = "The conversation was imported before", body = ImportedThread),
        (status = 201, description = "The new thread", body = ImportedThread)
    )
)]
pub(super) async fn import_thread(
    caller: Caller,
    AppPath { app }: AppPath,
    JsonWithFiles { value: import, room, .. }: JsonWithFiles<ThreadToImport>,
) -> Created<ImportedThread> {
    let thread = ChatKey::of_import(&caller.principal, &app, &import.source_id).thread();
    let imported = caller.service.import_thread(&caller.principal, &app, thread, import).await?;
    drop(room);
    let status = if imported.already_there { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(imported)))
}

/// Lists the threads of the user in an app, the most recently used first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/threads",
    params(AppPath, ThreadParams, PageParams),
    responses((status = 200, description = "A page of threads", body = Page<ThreadView>))
)]
pub(super) async fn list_threads(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(query): Params<ThreadParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ThreadView>> {
    Ok(Answer(caller.service.threads(&caller.principal, &app, query.into(), page.into()).await?))
}

/// Lists the threads of the user in all apps, the most recently used first.
#[utoipa::path(
    get,
    path = "/v1/threads",
    params(ThreadParams, PageParams),
    responses((status = 200, description = "A page of threads", body = Page<ThreadView>))
)]
pub(super) async fn list_all_threads(
    caller: Caller,
    Params(query): Params<ThreadParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ThreadView>> {
    let page = caller.service.threads_of_all_apps(&caller.principal, query.into(), page.into()).await?;
    Ok(Answer(page))
}

/// Returns a thread.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    responses((status = 200, description = "The thread", body = ThreadView))
)]
pub(super) async fn get_thread(caller: Caller, ThreadPath { thread }: ThreadPath) -> JsonReply<ThreadView> {
    Ok(Answer(caller.service.thread(&caller.principal, thread).await?))
}

/// Renames, pins or archives a thread, or sets its persona. Absent fields stay as they are. A `personaId` of null removes
/// the persona.
#[utoipa::path(
    patch,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    request_body = ThreadChange,
    responses((status = 200, description = "The thread as it is now", body = ThreadView))
)]
pub(super) async fn change_thread(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Json(change, once): Json<ThreadChange>,
) -> JsonReply<ThreadView> {
    Ok(Answer(caller.service.change_thread(&caller.principal, thread, change, once).await?))
}

/// Deletes a thread. Its active run is cancelled.
#[utoipa::path(
    delete,
    path = "/v1/threads/{thread}",
    params(ThreadPath),
    responses((status = 204, description = "The thread is deleted"))
)]
pub(super) async fn delete_thread(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_thread(&caller.principal, thread, once).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Streams the events of all runs of a thread after the last seen event. The stream does not end.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/events",
    params(ThreadPath, AfterParams, LastEventId),
    responses((status = 200, description = "The thread's events", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn thread_events(
    State(api): State<Api>,
    StreamCaller { principal, access }: StreamCaller,
    ThreadPath { thread }: ThreadPath,
    LastEvent(after): LastEvent,
) -> Result<Response, ApiProblem> {
    let permit = api.may_follow(&principal)?;
    let follower = api.service.follow_thread(&principal, thread, after).await?;
    Ok(api.stream(FollowedEvents { follower, permit, access }))
}
