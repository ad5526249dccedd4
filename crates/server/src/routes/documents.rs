//! Documents: uploaded, listed, read, searched and deleted.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{DocumentHit, DocumentId, DocumentQuery, DocumentText, DocumentView, Page, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{FromPiece, InPath, NameParams, PageParams, Paging, PieceParams};
use crate::upload::{Upload, UploadForm};

/// Uploads a document: text, Markdown, HTML, PDF or DOCX, up to 20 MiB, as the whole body or as the first file of a
/// form. It is found by its words at once, and by its meaning when its `status` is `ready`.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/documents",
    tag = "documents",
    operation_id = "create_document",
    params(("app" = String, Path, description = "The app's name"), NameParams),
    request_body(content((Vec<u8> = "application/octet-stream"), (UploadForm = "multipart/form-data"))),
    responses((status = 201, description = "The new document", body = DocumentView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Upload { name, declared, bytes, once, room }: Upload,
) -> Result<(StatusCode, Answer<DocumentView>), Problem> {
    let made = api.service.add_document(&principal, &app, (name, declared, bytes), once).await;
    drop(room);
    Ok((StatusCode::CREATED, Answer(made?)))
}

/// The user's documents in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/documents",
    tag = "documents",
    operation_id = "list_documents",
    params(("app" = String, Path, description = "The app's name"), PageParams),
    responses((status = 200, description = "A page of documents", body = Page<DocumentView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Paging(page): Paging,
) -> Result<Answer<Page<DocumentView>>, Problem> {
    Ok(Answer(api.service.documents(&principal, &app, page).await?))
}

/// The pieces of documents nearest to a question, best first.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/documents/search",
    tag = "documents",
    operation_id = "search_documents",
    params(("app" = String, Path, description = "The app's name")),
    request_body = DocumentQuery,
    responses((status = 200, description = "What was found; one page", body = Page<DocumentHit>))
)]
pub(super) async fn search(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(query, _): Json<DocumentQuery>,
) -> Result<Answer<Page<DocumentHit>>, Problem> {
    Ok(Answer(api.service.search_documents(&principal, &app, query).await?))
}

/// One document, without its text.
#[utoipa::path(
    get,
    path = "/v1/documents/{document}",
    tag = "documents",
    operation_id = "get_document",
    params(("document" = DocumentId, Path)),
    responses((status = 200, description = "The document", body = DocumentView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(document): InPath<DocumentId>,
) -> Result<Answer<DocumentView>, Problem> {
    Ok(Answer(api.service.document(&principal, document).await?))
}

/// The text of a document, a part at a time.
#[utoipa::path(
    get,
    path = "/v1/documents/{document}/text",
    tag = "documents",
    operation_id = "get_document_text",
    params(("document" = DocumentId, Path), PieceParams),
    responses((status = 200, description = "A part of its text", body = DocumentText))
)]
pub(super) async fn text(
    State(api): State<Api>,
    principal: Principal,
    InPath(document): InPath<DocumentId>,
    FromPiece(from): FromPiece,
) -> Result<Answer<DocumentText>, Problem> {
    Ok(Answer(api.service.document_text(&principal, document, from).await?))
}

/// Deletes a document: no search finds it any more, and from the next run on it is in no prompt.
#[utoipa::path(
    delete,
    path = "/v1/documents/{document}",
    tag = "documents",
    operation_id = "delete_document",
    params(("document" = DocumentId, Path)),
    responses((status = 204, description = "The document is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    InPath(document): InPath<DocumentId>,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_document(&principal, document, once).await?;
    Ok(StatusCode::NO_CONTENT)
}
