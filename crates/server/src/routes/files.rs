//! A user's Markdown files: list them, read, write and delete one.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{FileView, Page, Principal};
use service::{FilePlace, Terms};

use crate::Api;
use crate::body::Text;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{At, Expected, InPath, VersionParams};

const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// The user's files in an app by path, without their contents.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/files",
    tag = "files",
    operation_id = "list_files",
    params(("app" = String, Path, description = "The app's name")),
    responses((status = 200, description = "All files", body = Page<FileView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
) -> Result<Answer<Page<FileView>>, Problem> {
    Ok(Answer(api.service.files(&principal, &app).await?))
}

/// A file as it is; with `Accept: application/json`, as an object.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/files/{*path}",
    tag = "files",
    operation_id = "get_file",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("path" = String, Path, description = "The file's path, with its slashes")
    ),
    responses((
        status = 200,
        description = "The file",
        content((String = "text/markdown"), (FileView = "application/json")),
        headers(("etag" = String, description = "Its version, in quotes"))
    ))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<FilePlace>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut file = api.service.file(&principal, &place).await?;
    let tag = (header::ETAG, format!("\"{}\"", file.version));
    let vary = (header::VARY, "accept".to_owned());
    if wants_json(&headers) {
        return Ok(([tag, vary], Answer(file)).into_response());
    }
    let content = file.content.take().unwrap_or_default();
    // What a user has written is never to be run as a page of ours.
    let plain = (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned());
    Ok(([tag, vary, plain, (header::CONTENT_TYPE, MARKDOWN.to_owned())], content).into_response())
}

/// Makes a file, or replaces all of it. The body is its content.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/files/{*path}",
    tag = "files",
    operation_id = "put_file",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("path" = String, Path, description = "The file's path, with its slashes"),
        VersionParams,
        ("If-Match" = Option<String>, Header, description = "The version this is meant for, such as \"3\"")
    ),
    request_body(content = String, content_type = "text/markdown"),
    responses((status = 200, description = "The file as it is now, without its content", body = FileView))
)]
pub(super) async fn put(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<FilePlace>,
    Expected(expected): Expected,
    Text(content, once): Text,
) -> Result<Answer<FileView>, Problem> {
    let file = api.service.put_file(&principal, &place, content, Terms { expected, once }).await?;
    Ok(Answer(FileView { content: None, ..file }))
}

/// Deletes a file.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/files/{*path}",
    tag = "files",
    operation_id = "delete_file",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("path" = String, Path, description = "The file's path, with its slashes"),
        VersionParams,
        ("If-Match" = Option<String>, Header, description = "The version this is meant for, such as \"3\"")
    ),
    responses((status = 204, description = "The file is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    At(place): At<FilePlace>,
    Expected(expected): Expected,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_file(&principal, &place, Terms { expected, once }).await?;
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
