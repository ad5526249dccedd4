//! Memories: add, list, look for, read, edit, forget and restore them; take them along; switch memory off.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{
    ImportReport, MemoryHistoryView, MemoryHit, MemoryId, MemoryPatch, MemoryQuery, MemorySettings,
    MemoryView, NewMemory, Page, Principal,
};
use service::Added;

use crate::Api;
use crate::body::{File, Json};
use crate::error::Problem;
use crate::once::Key;
use crate::query::{
    ForGood, FormatParams, InFormat, InPath, MemoryParams, OfStatus, PageParams, Paging, PurgeParams,
};

/// Remembers something about the user. It can be part of the prompt from the next run on, if the app uses memories.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories",
    tag = "memories",
    operation_id = "create_memory",
    params(("app" = String, Path, description = "The app's name")),
    request_body = NewMemory,
    responses(
        (status = 201, description = "The new memory", body = MemoryView),
        (status = 200, description = "The memory that says so already", body = MemoryView)
    )
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(new, once): Json<NewMemory>,
) -> Result<(StatusCode, Answer<MemoryView>), Problem> {
    Ok(match api.service.create_memory(&principal, &app, new, once).await? {
        Added::New(memory) => (StatusCode::CREATED, Answer(memory)),
        Added::Known(memory) => (StatusCode::OK, Answer(memory)),
    })
}

/// What an app remembers of the user, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories",
    tag = "memories",
    operation_id = "list_memories",
    params(("app" = String, Path, description = "The app's name"), MemoryParams, PageParams),
    responses((status = 200, description = "A page of memories", body = Page<MemoryView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    OfStatus(status): OfStatus,
    Paging(page): Paging,
) -> Result<Answer<Page<MemoryView>>, Problem> {
    Ok(Answer(api.service.memories(&principal, &app, status.as_deref(), page).await?))
}

/// The active memories nearest to a question, best first.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories/search",
    tag = "memories",
    operation_id = "search_memories",
    params(("app" = String, Path, description = "The app's name")),
    request_body = MemoryQuery,
    responses((status = 200, description = "What was found; one page", body = Page<MemoryHit>))
)]
pub(super) async fn search(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(query, _): Json<MemoryQuery>,
) -> Result<Answer<Page<MemoryHit>>, Problem> {
    Ok(Answer(api.service.search_memories(&principal, &app, query).await?))
}

/// One memory, whatever its status.
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
    Ok(Answer(api.service.memory(&principal, memory).await?))
}

/// Changes an active memory, as a new version of it.
#[utoipa::path(
    patch,
    path = "/v1/memories/{memory}",
    tag = "memories",
    operation_id = "edit_memory",
    params(("memory" = MemoryId, Path)),
    request_body = MemoryPatch,
    responses((status = 200, description = "The memory as it is now", body = MemoryView))
)]
pub(super) async fn edit(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
    Json(patch, once): Json<MemoryPatch>,
) -> Result<Answer<MemoryView>, Problem> {
    Ok(Answer(api.service.edit_memory(&principal, memory, patch, once).await?))
}

/// Forgets a memory and the words it rests on: from the next run on they are in no prompt. With `purge` it is removed from
/// the disk for good.
#[utoipa::path(
    delete,
    path = "/v1/memories/{memory}",
    tag = "memories",
    operation_id = "forget_memory",
    params(("memory" = MemoryId, Path), PurgeParams),
    responses((status = 204, description = "The memory is forgotten, or gone"))
)]
pub(super) async fn forget(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
    ForGood(purge): ForGood,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    match purge {
        true => api.service.purge_memory(&principal, memory, once).await?,
        false => api.service.forget_memory(&principal, memory, once).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a memory active again.
#[utoipa::path(
    post,
    path = "/v1/memories/{memory}/restore",
    tag = "memories",
    operation_id = "restore_memory",
    params(("memory" = MemoryId, Path)),
    responses((status = 200, description = "The memory as it is now", body = MemoryView))
)]
pub(super) async fn restore(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
    Key(once): Key,
) -> Result<Answer<MemoryView>, Problem> {
    Ok(Answer(api.service.restore_memory(&principal, memory, once).await?))
}

/// Why this is known: every version of a memory, and the words it rests on.
#[utoipa::path(
    get,
    path = "/v1/memories/{memory}/history",
    tag = "memories",
    operation_id = "memory_history",
    params(("memory" = MemoryId, Path)),
    responses((status = 200, description = "The memory with its past", body = MemoryHistoryView))
)]
pub(super) async fn history(
    State(api): State<Api>,
    principal: Principal,
    InPath(memory): InPath<MemoryId>,
) -> Result<Answer<MemoryHistoryView>, Problem> {
    Ok(Answer(api.service.memory_history(&principal, memory).await?))
}

/// All active memories as a file that `import` takes back.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories/export",
    tag = "memories",
    operation_id = "export_memories",
    params(("app" = String, Path, description = "The app's name"), FormatParams),
    responses((
        status = 200,
        description = "The file",
        content((serde_json::Value = "application/json"), (String = "text/markdown"))
    ))
)]
pub(super) async fn export(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    InFormat(format): InFormat,
) -> Result<Response, Problem> {
    let file = api.service.export_memories(&principal, &app, format).await?;
    let (kind, name) = if format.is_json() {
        ("application/json", "memories.json")
    } else {
        ("text/markdown; charset=utf-8", "memories.md")
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        // What a user has written is never to be run as a page of ours.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, file).into_response())
}

/// Adds the memories of a file: this server's JSON, a Markdown list, or what mem0 exports. What is known already is
/// skipped; secrets and orders are refused.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories/import",
    tag = "memories",
    operation_id = "import_memories",
    params(("app" = String, Path, description = "The app's name")),
    request_body(content((serde_json::Value = "application/json"), (String = "text/markdown"))),
    responses((status = 200, description = "What has become of them", body = ImportReport))
)]
pub(super) async fn import(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    File(file, once): File,
) -> Result<Answer<ImportReport>, Problem> {
    Ok(Answer(api.service.import_memories(&principal, &app, file, once).await?))
}

/// Whether anything is remembered of the user in this app.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories/settings",
    tag = "memories",
    operation_id = "get_memory_settings",
    params(("app" = String, Path, description = "The app's name")),
    responses((status = 200, description = "The settings", body = MemorySettings))
)]
pub(super) async fn settings(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
) -> Result<Answer<MemorySettings>, Problem> {
    Ok(Answer(api.service.memory_settings(&principal, &app).await?))
}

/// Switches memory off or on for the user in this app. While it is off, nothing is recalled, extracted or remembered;
/// what is there stays.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/memories/settings",
    tag = "memories",
    operation_id = "put_memory_settings",
    params(("app" = String, Path, description = "The app's name")),
    request_body = MemorySettings,
    responses((status = 200, description = "The settings as they are now", body = MemorySettings))
)]
pub(super) async fn set(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(settings, once): Json<MemorySettings>,
) -> Result<Answer<MemorySettings>, Problem> {
    Ok(Answer(api.service.set_memory(&principal, &app, settings, once).await?))
}
