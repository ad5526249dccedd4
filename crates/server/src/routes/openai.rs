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
use protocol::{RunId, ThreadId};

/// The response, with the run and the thread in its headers.
fn with_names(mut response: Response, run: RunId, thread: ThreadId) -> Response {
    for (name, value) in [("x-run-id", run.to_string()), ("x-thread-id", thread.to_string())] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
