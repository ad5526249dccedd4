//! Memories: add, list, look for, read, edit, forget and restore them; take them along; switch memory off.

use axum::Json as Answer;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{
    ImportReport, MemoryHistoryView, MemoryHit, MemoryPatch, MemoryQuery, MemorySettings, MemoryView,
    NewMemory, Page,
};
use service::{Added, ExchangeFormat, Service};

use crate::auth::Caller;
use crate::body::{FileBody, Json};
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, MemoryPath};
use crate::query::{ExportParams, MemoryParams, PageParams, Params, PurgeParams};
use crate::routes::{Created, JsonReply, created};

/// Adds a memory of the user. The memory can be in the prompt from the next run on, if the app uses memories.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories",
    params(AppPath),
    request_body = NewMemory,
    responses(
        (status = 201, description = "The new memory", body = MemoryView),
        (status = 200, description = "The existing memory with the same content", body = MemoryView)
    )
)]
pub(super) async fn create_memory(
    caller: Caller,
    AppPath { app }: AppPath,
    Json(new, once): Json<NewMemory>,
) -> Created<MemoryView> {
    Ok(match caller.service.create_memory(&caller.principal, &app, new, once).await? {
        Added::New(memory) => created(memory),
        Added::Known(memory) => (StatusCode::OK, Answer(memory)),
    })
}

/// Lists the memories of the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories",
    params(AppPath, MemoryParams, PageParams),
    responses((status = 200, description = "A page of memories", body = Page<MemoryView>))
)]
pub(super) async fn list_memories(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(MemoryParams { status }): Params<MemoryParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<MemoryView>> {
    Ok(Answer(caller.service.memories(&caller.principal, &app, status.as_deref(), page.into()).await?))
}

/// Searches the active memories for a question, best match first.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories/search",
    params(AppPath),
    request_body = MemoryQuery,
    responses((status = 200, description = "The matches, in one page", body = Page<MemoryHit>))
)]
pub(super) async fn search_memories(
    caller: Caller,
    AppPath { app }: AppPath,
    Json(query, _): Json<MemoryQuery>,
) -> JsonReply<Page<MemoryHit>> {
    Ok(Answer(caller.service.search_memories(&caller.principal, &app, query).await?))
}

/// Returns a memory, with any status.
#[utoipa::path(
    get,
    path = "/v1/memories/{memory}",
    params(MemoryPath),
    responses((status = 200, description = "The memory", body = MemoryView))
)]
pub(super) async fn get_memory(caller: Caller, MemoryPath { memory }: MemoryPath) -> JsonReply<MemoryView> {
    Ok(Answer(caller.service.memory(&caller.principal, memory).await?))
}

/// Changes an active memory. The change makes a new version.
#[utoipa::path(
    patch,
    path = "/v1/memories/{memory}",
    params(MemoryPath),
    request_body = MemoryPatch,
    responses((status = 200, description = "The memory as it is now", body = MemoryView))
)]
pub(super) async fn edit_memory(
    caller: Caller,
    MemoryPath { memory }: MemoryPath,
    Json(patch, once): Json<MemoryPatch>,
) -> JsonReply<MemoryView> {
    Ok(Answer(caller.service.edit_memory(&caller.principal, memory, patch, once).await?))
}

/// Forgets a memory and the words that it came from. From the next run on, no prompt has them. With `purge`, the memory
/// is deleted permanently.
#[utoipa::path(
    delete,
    path = "/v1/memories/{memory}",
    params(MemoryPath, PurgeParams),
    responses((status = 204, description = "The memory is forgotten or deleted"))
)]
pub(super) async fn forget_memory(
    caller: Caller,
    MemoryPath { memory }: MemoryPath,
    Params(PurgeParams { purge }): Params<PurgeParams>,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    match purge.unwrap_or(false) {
        true => caller.service.purge_memory(&caller.principal, memory, once).await?,
        false => caller.service.forget_memory(&caller.principal, memory, once).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a memory active again.
#[utoipa::path(
    post,
    path = "/v1/memories/{memory}/restore",
    params(MemoryPath),
    responses((status = 200, description = "The memory as it is now", body = MemoryView))
)]
pub(super) async fn restore_memory(
    caller: Caller,
    MemoryPath { memory }: MemoryPath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<MemoryView> {
    Ok(Answer(caller.service.restore_memory(&caller.principal, memory, once).await?))
}

/// Returns the history of a memory: all versions, and the words that it came from.
#[utoipa::path(
    get,
    path = "/v1/memories/{memory}/history",
    params(MemoryPath),
    responses((status = 200, description = "The memory with its history", body = MemoryHistoryView))
)]
pub(super) async fn memory_history(
    caller: Caller,
    MemoryPath { memory }: MemoryPath,
) -> JsonReply<MemoryHistoryView> {
    Ok(Answer(caller.service.memory_history(&caller.principal, memory).await?))
}

/// Exports all active memories, as a file for `import`.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories/export",
    params(AppPath, ExportParams),
    responses((
        status = 200,
        description = "The file",
        content((serde_json::Value = "application/json"), (String = "text/markdown"))
    ))
)]
pub(super) async fn export_memories(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(ExportParams { format }): Params<ExportParams>,
) -> Result<Response, ApiProblem> {
    let format = Service::export_format(format.as_deref())?;
    let file = caller.service.export_memories(&caller.principal, &app, format).await?;
    let (kind, name) = match format {
        ExchangeFormat::Json | ExchangeFormat::Mem0 => ("application/json", "memories.json"),
        ExchangeFormat::Markdown => ("text/markdown; charset=utf-8", "memories.md"),
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        // A text of a user is never to be run as a page of ours.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, file).into_response())
}

/// Imports memories from a file: an export of this server or of mem0, or a Markdown list. Known memories are skipped.
/// Secrets and instructions are refused.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/memories/import",
    params(AppPath),
    request_body(content((serde_json::Value = "application/json"), (String = "text/markdown"))),
    responses((status = 200, description = "The numbers of imported, skipped and refused memories", body = ImportReport))
)]
pub(super) async fn import_memories(
    caller: Caller,
    AppPath { app }: AppPath,
    FileBody(file, once): FileBody,
) -> JsonReply<ImportReport> {
    Ok(Answer(caller.service.import_memories(&caller.principal, &app, file, once).await?))
}

/// Returns whether memory is on for the user in this app.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/memories/settings",
    params(AppPath),
    responses((status = 200, description = "The settings", body = MemorySettings))
)]
pub(super) async fn get_memory_settings(
    caller: Caller,
    AppPath { app }: AppPath,
) -> JsonReply<MemorySettings> {
    Ok(Answer(caller.service.memory_settings(&caller.principal, &app).await?))
}

/// Switches memory off or on for the user in this app. While it is off, nothing is recalled, extracted or remembered.
/// Stored memories stay.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/memories/settings",
    params(AppPath),
    request_body = MemorySettings,
    responses((status = 200, description = "The settings as they are now", body = MemorySettings))
)]
pub(super) async fn put_memory_settings(
    caller: Caller,
    AppPath { app }: AppPath,
    Json(settings, once): Json<MemorySettings>,
) -> JsonReply<MemorySettings> {
    Ok(Answer(caller.service.set_memory(&caller.principal, &app, settings, once).await?))
}
