//! Documents: uploaded, listed, read, searched and deleted. Documents of apps are listed, read and searched.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{DocumentHit, DocumentQuery, DocumentText, DocumentView, Page};

use crate::auth::Caller;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, DocumentPath};
use crate::query::{NameParams, PageParams, Params, PieceParams};
use crate::routes::{Created, JsonReply, created};
use crate::upload::{Upload, UploadForm};

/// Uploads a document: text, Markdown, HTML, PDF, DOCX, XLSX or CSV, up to 20 MiB, as the whole body or as the only
/// file of a form. Searches find it by its words at once, and by its meaning when its `status` is `ready`.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/documents",
    params(AppPath, NameParams),
    request_body(content((Vec<u8> = "application/octet-stream"), (UploadForm = "multipart/form-data"))),
    responses((status = 201, description = "The new document", body = DocumentView))
)]
pub(super) async fn create_document(
    caller: Caller,
    AppPath { app }: AppPath,
    Upload { name, declared, bytes, once, room }: Upload,
) -> Created<DocumentView> {
    let made = caller.service.add_document(&caller.principal, &app, (name, declared, bytes), once).await;
    drop(room);
    Ok(created(made?))
}

/// Lists the documents of the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/documents",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page of documents", body = Page<DocumentView>))
)]
pub(super) async fn list_documents(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<DocumentView>> {
    Ok(Answer(caller.service.documents(&caller.principal, &app, page.into()).await?))
}

/// Lists the documents of an app by name. All users of the app read them, and its runs answer from them.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/knowledge",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page of documents", body = Page<DocumentView>))
)]
pub(super) async fn list_knowledge(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<DocumentView>> {
    Ok(Answer(caller.service.knowledge(&caller.principal, &app, page.into()).await?))
}

/// Searches the pieces of the user's documents and of the app's for a question, best match first.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/documents/search",
    params(AppPath),
    request_body = DocumentQuery,
    responses((status = 200, description = "The matches, in one page", body = Page<DocumentHit>))
)]
pub(super) async fn search_documents(
    caller: Caller,
    AppPath { app }: AppPath,
    Json(query, _): Json<DocumentQuery>,
) -> JsonReply<Page<DocumentHit>> {
    Ok(Answer(caller.service.search_documents(&caller.principal, &app, query).await?))
}

/// Returns a document, without its text.
#[utoipa::path(
    get,
    path = "/v1/documents/{document}",
    params(DocumentPath),
    responses((status = 200, description = "The document", body = DocumentView))
)]
pub(super) async fn get_document(
    caller: Caller,
    DocumentPath { document }: DocumentPath,
) -> JsonReply<DocumentView> {
    Ok(Answer(caller.service.document(&caller.principal, document).await?))
}

/// Returns the text of a document, one part at a time.
#[utoipa::path(
    get,
    path = "/v1/documents/{document}/text",
    params(DocumentPath, PieceParams),
    responses((status = 200, description = "A part of its text", body = DocumentText))
)]
pub(super) async fn get_document_text(
    caller: Caller,
    DocumentPath { document }: DocumentPath,
    Params(PieceParams { from }): Params<PieceParams>,
) -> JsonReply<DocumentText> {
    Ok(Answer(caller.service.document_text(&caller.principal, document, from.unwrap_or(0)).await?))
}

/// Deletes a document: no search finds it any more, and from the next run on it is in no prompt.
#[utoipa::path(
    delete,
    path = "/v1/documents/{document}",
    params(DocumentPath),
    responses((status = 204, description = "The document is deleted"))
)]
pub(super) async fn delete_document(
    caller: Caller,
    DocumentPath { document }: DocumentPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_document(&caller.principal, document, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
