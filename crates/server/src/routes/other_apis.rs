//! Paths at which clients of other APIs look for them. They find nothing here, but a sentence in the form that their
//! client shows.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use crate::Api;
use crate::error::openai::is_openai_path;
use crate::error::{ApiProblem, ProblemCode};

const SENTENCE: &str = "Rondo does not serve this path yet; send the message to POST /v1/apps/{app}/runs, see \
    /openapi.json";

const OPENAI_ELSEWHERE: &str =
    "OpenAI's API is at another path of this server; set the base URL of your client to {server}/openai/v1";

const NOTHING_OF_OPENAI: &str = "there is nothing at this path; set the base URL of your client to {server}/openai/v1, \
    see /openapi.json for the paths below it";

const NOTHING: &str = "there is nothing at this path; /openapi.json lists all paths";

/// The API that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignApi {
    OpenAi,
    Anthropic,
    Ollama,
}

/// The answer at every path that is not ours.
pub(super) async fn answer_unknown_path(State(api): State<Api>, uri: Uri) -> Response {
    if let Some(base_path) = api.proxying.base_path.as_ref().filter(|base| base.as_str() == uri.path()) {
        // Files of the console are below the slash.
        return Redirect::permanent(&format!("{base_path}/")).into_response();
    }
    if is_openai_path(uri.path()) {
        return ApiProblem::new(ProblemCode::NotFound, NOTHING_OF_OPENAI).into_response();
    }
    let body = match foreign_api(uri.path()) {
        None => return ApiProblem::new(ProblemCode::NotFound, NOTHING).into_response(),
        Some(ForeignApi::OpenAi) => json!({ "error": {
            "message": OPENAI_ELSEWHERE,
            "type": "invalid_request_error",
            "param": null,
            "code": "not_found",
        }}),
        Some(ForeignApi::Anthropic) => json!({
            "type": "error",
            "error": { "type": "not_found_error", "message": SENTENCE },
        }),
        Some(ForeignApi::Ollama) => json!({ "error": SENTENCE }),
    };
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

fn foreign_api(path: &str) -> Option<ForeignApi> {
    let path = path.trim_end_matches('/');
    if let Some(name) = path.strip_prefix("/api/") {
        let known = ["generate", "tags", "show", "ps", "version", "embed", "embeddings"].contains(&name);
        return known.then_some(ForeignApi::Ollama);
    }
    match path {
        "/v1/chat/completions" | "/v1/responses" | "/v1/embeddings" | "/v1/completions" => {
            Some(ForeignApi::OpenAi)
        }
        "/v1/messages" | "/v1/messages/count_tokens" => Some(ForeignApi::Anthropic),
        _ => None,
    }
}
