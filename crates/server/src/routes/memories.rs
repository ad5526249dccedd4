//! Memories: add, list, read, forget.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{MemoryId, MemoryView, NewMemory, Page, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{InPath, PageParams, Paging};

/// Remembers something about the user. It is part of the prompt from the next run on, if the app uses memories.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories",
    tag = "memories",
    operation_id = "create_memory",
    params(("app" = String, Path, description = "The app's name")),
    request_body = NewMemory,
    responses((status = 201, description = "The new memory", body = MemoryView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(new, once): Json<NewMemory>,
) -> Result<(StatusCode, Answer<MemoryView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.create_memory(&principal, &app, new, once).await?)))
}

/// What an app remembers of the user, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories",
    tag = "memories",
    operation_id = "list_memories",
    params(("app" = String, Path, description = "The app's name"), PageParams),
    responses((status = 200, description = "A page of memories", body = Page<MemoryView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Paging(page): Paging,
) -> Result<Answer<Page<MemoryView>>, Problem> {
    Ok(Answer(api.engine.memories(&principal, &app, page).await?))
}

/// One memory, forgotten or not.
#[utoipa::path(
    get,
    path = "/v1/memories/{memory}",
    tag = "memories",
    operation_id = "get_memory",
    params(("memory" = MemoryId, Path)),
    responses((status = 200, description = "The memory", body = MemoryView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
) -> Result<Answer<MemoryView>, Problem> {
    Ok(Answer(api.engine.memory(&principal, memory).await?))
}

/// Forgets a memory: it is in no list and, from the next run on, in no prompt.
#[utoipa::path(
    delete,
    path = "/v1/memories/{memory}",
    tag = "memories",
    operation_id = "forget_memory",
    params(("memory" = MemoryId, Path)),
    responses((status = 204, description = "The memory is forgotten"))
)]
pub(super) async fn forget(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.engine.forget_memory(&principal, memory, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
