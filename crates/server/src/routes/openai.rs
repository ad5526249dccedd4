//! OpenAI's API under `/openai/v1`, for clients whose base URL is set to that path.
//!
//! An app is a model there. Requests become runs as any others, and their logs are told in OpenAI's words. Every problem
//! below `/openai/` has OpenAI's form (`crate::error::openai`). The modules here are shared by Chat Completions and
//! Responses: files, tools, models, threads, and the results of calls that the client makes.

pub(super) mod chat_completions;
mod content;
pub(super) mod conversations;
pub(super) mod embeddings;
pub(super) mod models;
mod options;
mod presence;
pub(super) mod responses;
mod results;
mod stored_turns;
mod thread_place;

use axum::http::HeaderValue;
use axum::response::Response;
use protocol::{Principal, RunId, ThreadChange, ThreadId};

use crate::Api;

/// Characters of a message that name the archived thread of a request.
const MAX_TITLE_CHARS: usize = 80;

/// The response, with the run and the thread in its headers.
fn with_names(mut response: Response, run: RunId, thread: ThreadId) -> Response {
    for (name, value) in [("x-run-id", run.to_string()), ("x-thread-id", thread.to_string())] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Keeps the thread of a conversation that no client can continue out of the lists of the user. With a title, no model
/// is asked for one.
async fn archive(api: &Api, principal: &Principal, thread: ThreadId, title: Option<String>) {
    let change = ThreadChange { title, archived: Some(true), ..ThreadChange::default() };
    if let Err(error) = api.service.change_thread(principal, thread, change, None).await {
        tracing::warn!(%thread, %error, "the thread of a request that names none is not archived");
    }
}

/// The first line of a message, cut.
fn first_line(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    let printable = line.chars().filter(|letter| !letter.is_control());
    Some(printable.take(MAX_TITLE_CHARS).collect()).filter(|title: &String| !title.trim().is_empty())
}
