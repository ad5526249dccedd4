//! A user's Markdown files: list them, read, write and delete one.

use axum::Json as Answer;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{FileVersionView, FileView, Page};
use service::Terms;

use crate::auth::Caller;
use crate::body::TextBody;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, FilePath};
use crate::query::{ExpectedVersion, IfMatch, VersionParams};
use crate::routes::JsonReply;

const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Lists the files of the user in an app by path, without their contents.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/files",
    params(AppPath),
    responses((status = 200, description = "All files", body = Page<FileView>))
)]
pub(super) async fn list_files(caller: Caller, AppPath { app }: AppPath) -> JsonReply<Page<FileView>> {
    Ok(Answer(caller.service.files(&caller.principal, &app).await?))
}

/// Returns the content of a file; with `Accept: application/json`, as an object.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/files/{*path}",
    params(FilePath),
    responses((
        status = 200,
        description = "The file",
        content((String = "text/markdown"), (FileView = "application/json")),
        headers(("etag" = String, description = "The version of the file, in quotes"))
    ))
)]
pub(super) async fn get_file(
    caller: Caller,
    FilePath { app, path }: FilePath,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let mut file = caller.service.file(&caller.principal, (&app, &path)).await?;
    let tag = (header::ETAG, format!("\"{}\"", file.version));
    let vary = (header::VARY, "accept".to_owned());
    if wants_json(&headers) {
        return Ok(([tag, vary], Answer(file)).into_response());
    }
    let content = file.content.take().unwrap_or_default();
    // A text of a user is never to be run as a page of ours.
    let plain = (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned());
    Ok(([tag, vary, plain, (header::CONTENT_TYPE, MARKDOWN.to_owned())], content).into_response())
}

/// Lists the versions of a file, the present one first: at most 50 earlier ones.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/file-versions/{*path}",
    params(FilePath),
    responses((status = 200, description = "The versions, in one page", body = Page<FileVersionView>))
)]
pub(super) async fn file_versions(
    caller: Caller,
    FilePath { app, path }: FilePath,
) -> JsonReply<Page<FileVersionView>> {
    Ok(Answer(caller.service.file_versions(&caller.principal, (&app, &path)).await?))
}

/// Creates a file, or replaces all of it. The body is the content.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/files/{*path}",
    params(FilePath, VersionParams, IfMatch),
    request_body(content = String, content_type = "text/markdown"),
    responses((status = 200, description = "The file as it is now, without its content", body = FileView))
)]
pub(super) async fn put_file(
    caller: Caller,
    FilePath { app, path }: FilePath,
    ExpectedVersion(expected): ExpectedVersion,
    TextBody(content, once): TextBody,
) -> JsonReply<FileView> {
    let file =
        caller.service.put_file(&caller.principal, (&app, &path), content, Terms { expected, once }).await?;
    Ok(Answer(FileView { content: None, ..file }))
}

/// Deletes a file.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/files/{*path}",
    params(FilePath, VersionParams, IfMatch),
    responses((status = 204, description = "The file is deleted"))
)]
pub(super) async fn delete_file(
    caller: Caller,
    FilePath { app, path }: FilePath,
    ExpectedVersion(expected): ExpectedVersion,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_file(&caller.principal, (&app, &path), Terms { expected, once }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether the client names JSON among what it takes, and no Markdown.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = |wanted: &str| {
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = lines.flat_map(|line| line.split(','));
        types.any(|one| one.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted))
    };
    accepts("application/json") && !accepts("text/markdown")
}
