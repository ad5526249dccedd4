//! The messages of a thread: the branch that is shown, the tree of all branches, the choice of a branch, and all of it as a
//! file.

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use protocol::{HeadChoice, Message, Page, QueuedMessage, ThreadTree, ThreadView};
use service::{Service, ThreadExport, ThreadFormat};

use crate::Api;
use crate::auth::Caller;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::path::ThreadPath;
use crate::query::{PageParams, Params, ThreadExportParams};
use crate::routes::JsonReply;
use crate::stream_permits::StreamPermit;

/// Lists the messages of a thread from the first to its head, with the tool calls of every answer and their results.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/messages",
    params(ThreadPath, PageParams),
    responses((status = 200, description = "A page of messages", body = Page<Message>))
)]
pub(super) async fn list_messages(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<Message>> {
    Ok(Answer(caller.service.messages(&caller.principal, thread, page.into()).await?))
}

/// Lists the messages that wait until the thread is free, the next one first.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/queue",
    params(ThreadPath),
    responses((status = 200, description = "The messages; `next` is always null", body = Page<QueuedMessage>))
)]
pub(super) async fn list_queued_messages(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
) -> JsonReply<Page<QueuedMessage>> {
    Ok(Answer(caller.service.queued_messages(&caller.principal, thread).await?))
}

/// Lists the messages of all branches of a thread, oldest first, with the beginnings of their texts.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/tree",
    params(ThreadPath, PageParams),
    responses((status = 200, description = "A page of messages", body = ThreadTree))
)]
pub(super) async fn thread_tree(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Params(page): Params<PageParams>,
) -> JsonReply<ThreadTree> {
    Ok(Answer(caller.service.thread_tree(&caller.principal, thread, page.into()).await?))
}

/// Shows the branch through a message, up to its newest message. Refused while the thread has an active run.
#[utoipa::path(
    put,
    path = "/v1/threads/{thread}/head",
    params(ThreadPath),
    request_body = HeadChoice,
    responses((status = 200, description = "The thread as it is now", body = ThreadView))
)]
pub(super) async fn choose_head(
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Json(choice, once): Json<HeadChoice>,
) -> JsonReply<ThreadView> {
    Ok(Answer(caller.service.choose_head(&caller.principal, thread, choice, once).await?))
}

/// Exports a thread as a file: JSON with the messages of all branches, or Markdown of the branch that is shown.
#[utoipa::path(
    get,
    path = "/v1/threads/{thread}/export",
    params(ThreadPath, ThreadExportParams),
    responses((
        status = 200,
        description = "The file",
        content((serde_json::Value = "application/json"), (String = "text/markdown"))
    ))
)]
pub(super) async fn export_thread(
    State(api): State<Api>,
    caller: Caller,
    ThreadPath { thread }: ThreadPath,
    Params(ThreadExportParams { format }): Params<ThreadExportParams>,
) -> Result<Response, ApiProblem> {
    let format = Service::thread_format(format.as_deref())?;
    let permit = api.may_follow(&caller.principal)?;
    let export = caller.service.export_thread(&caller.principal, thread, format).await?;
    let kind = match format {
        ThreadFormat::Json => "application/json",
        ThreadFormat::Markdown => "text/markdown; charset=utf-8",
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", export.file_name())),
        // A text of a user is never to be run as a page of ours.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, file_body(export, permit)).into_response())
}

/// The file part by part. It breaks off if the thread is deleted meanwhile.
fn file_body(export: ThreadExport, permit: StreamPermit) -> Body {
    Body::from_stream(stream::try_unfold((export, permit), |(mut export, permit)| async move {
        let part = export.next_part().await?;
        Ok::<_, service::Error>(part.map(|part| (part, (export, permit))))
    }))
}
