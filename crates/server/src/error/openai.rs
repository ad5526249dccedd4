//! Problems in the form that clients of OpenAI's API read: `{"error": {"message", "type", "param", "code"}}`.
//!
//! The status is the one that these clients expect. Their libraries send some failed requests again by themselves, so
//! `x-should-retry: false` says where that is pointless.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use protocol::{Failure, RunEnd, RunStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ApiProblem, ProblemCode};

/// Paths below this one are answered in OpenAI's form.
const PREFIX: &str = "/openai/";

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Seconds that client libraries wait at most before they send a request again.
const MAX_CLIENT_WAIT: u32 = 60;

/// Whether problems at this path have OpenAI's form.
pub(crate) fn is_openai_path(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// An error as clients of OpenAI's API read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct OpenAiErrorBody {
    pub(crate) error: OpenAiError,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct OpenAiError {
    /// A sentence on the error, and on the remedy.
    pub(crate) message: String,
    /// The kind of error, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The field of the request at fault.
    pub(crate) param: Option<String>,
    /// The kind of problem, for programs; it never changes.
    pub(crate) code: Option<String>,
}

impl OpenAiError {
    /// An error that no field of the request caused.
    pub(crate) fn new(kind: &str, code: &str, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: kind.to_owned(), param: None, code: Some(code.to_owned()) }
    }

    /// The failure of a run.
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        Self::new(failure_kind(failure_status(&failure.code)), &failure.code, failure.message.clone())
    }

    /// The document with this status. A failed run is not sent again: the server has tried as often as it helps.
    pub(crate) fn into_final_response(self, status: StatusCode) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        with_body(response, self)
    }
}

/// Why a run that ended gave no complete answer; none if it did.
pub(crate) fn failure_of(end: &RunEnd) -> Option<Failure> {
    let failure = |code: &str, message: &str| Failure { code: code.to_owned(), message: message.to_owned() };
    let error = end.error.clone();
    match end.status {
        RunStatus::Completed | RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => None,
        RunStatus::Failed => Some(error.unwrap_or_else(|| failure("failed", "the run failed"))),
        RunStatus::Cancelled => Some(failure("cancelled", "the run was cancelled")),
        RunStatus::Interrupted => {
            Some(error.unwrap_or_else(|| failure("interrupted", "a newer message replaced this one")))
        }
    }
}

/// The status of a run's failure, for a response that has no other.
pub(crate) fn failure_status(code: &str) -> StatusCode {
    match code {
        "context_too_long" => StatusCode::BAD_REQUEST,
        "cancelled" | "interrupted" => StatusCode::CONFLICT,
        "budget_exceeded" | "provider_rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "provider_unavailable" | "provider_timeout" | "provider_stream_broken" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        code if code.starts_with("provider_") => StatusCode::BAD_GATEWAY,
        "run_timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn failure_kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// Writes the document of the problem that rides in `response`, if one does.
pub(crate) fn write_openai_problem(mut response: Response) -> Response {
    let Some(problem) = response.extensions_mut().remove::<ApiProblem>() else { return response };
    let status = openai_status(problem.code);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(seconds) = problem.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.code == ProblemCode::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if is_pointless_to_repeat(&problem, status) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    with_body(response, OpenAiError::of_problem(problem, status))
}

impl OpenAiError {
    fn of_problem(problem: ApiProblem, status: StatusCode) -> Self {
        let ApiProblem { code, detail, field, .. } = problem;
        let message = match &field {
            Some(field) => format!("{field}: {detail}"),
            None => detail,
        };
        let code = if code == ProblemCode::Unauthorized { "invalid_api_key" } else { code.name() };
        Self { param: field, ..Self::new(failure_kind(status), code, message) }
    }
}

/// Clients of OpenAI's API know few statuses: what is wrong with a request's contents is 400.
fn openai_status(code: ProblemCode) -> StatusCode {
    match code.status() {
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::BAD_REQUEST,
        status => status,
    }
}

/// Client libraries send a request again after 408, 409, 429 and 5xx.
fn is_pointless_to_repeat(problem: &ApiProblem, status: StatusCode) -> bool {
    match status {
        StatusCode::CONFLICT => {
            !matches!(problem.code.name(), "queue_full" | "thread_busy" | "run_active" | "changed")
        }
        StatusCode::TOO_MANY_REQUESTS => problem.retry_after.is_some_and(|wait| wait > MAX_CLIENT_WAIT),
        StatusCode::INSUFFICIENT_STORAGE => true,
        _ => false,
    }
}

fn with_body(mut response: Response, error: OpenAiError) -> Response {
    let body = serde_json::to_vec(&OpenAiErrorBody { error }).unwrap_or_default();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Body::from(body);
    response
}
