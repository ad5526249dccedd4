//! The steps that every request passes on its way in and out: its id, the checks of origin and size, the net under a panic,
//! the problem document and the log line.

use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use protocol::{Ids, TimeOrderedIds};
use tokio::time::Instant;

use crate::error::openai::{is_openai_path, write_openai_problem};
use crate::error::{ApiProblem, ProblemCode, write_problem};
use crate::peer::PeerAddress;
use crate::{Api, auth};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) async fn pass(State(api): State<Api>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = TimeOrderedIds.fresh().simple().to_string();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let is_openai = is_openai_path(request.uri().path());
    let client = client(&api, &request);
    let shows_a_key = request.headers().contains_key(AUTHORIZATION) || request.headers().contains_key(COOKIE);
    let origin = auth::allowed_origin(&api, request.headers());

    let response = match (check(&api, &request), auth::preflight(&api, &request)) {
        (Ok(()), Some(preflight)) => preflight,
        (Ok(()), None) => catch_panic(request, next).await,
        (Err(problem), _) => problem.into_response(),
    };
    let refusal = response.extensions().get::<ApiProblem>().map(|problem| problem.detail().to_owned());
    let mut response = if is_openai { write_openai_problem(response) } else { write_problem(response, &id) };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    auth::allow_origin(&api, origin, response.headers_mut());
    let (status, took) = (response.status().as_u16(), start.elapsed());
    let path = path.as_ref().map_or("-", MatchedPath::as_str);
    if shows_a_key && status == StatusCode::UNAUTHORIZED.as_u16() {
        tracing::info!(client, reason = refusal.unwrap_or_default(), "a key, a JWT or a session was refused");
    }
    tracing::debug!(request = id, client, %method, path, status, ?took, "request");
    response
}

/// The address of the client of a request, for log lines.
fn client(api: &Api, request: &Request) -> String {
    let peer = request.extensions().get::<PeerAddress>();
    let client = peer.map(|PeerAddress(peer)| api.proxying.client(peer.ip(), request.headers()));
    client.map_or_else(|| "-".to_owned(), |client| client.to_string())
}

fn check(api: &Api, request: &Request) -> Result<(), ApiProblem> {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let line = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if line + headers.sum::<usize>() > api.limits.max_header_bytes {
        let detail = format!(
            "the path, the query and the headers must be at most {} bytes",
            api.limits.max_header_bytes
        );
        return Err(ApiProblem::new(ProblemCode::HeadersTooLarge, detail));
    }
    auth::check_origin(api.bound, &api.proxying, request.method(), request.headers())
}

/// The handler's response; a panic is a failure of this request and of nothing else.
async fn catch_panic(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(code = ProblemCode::Internal.name(), "a handler panicked");
        ApiProblem::from(service::Error::Internal).into_response()
    })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    async fn broken() -> StatusCode {
        panic!("a bug")
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_of_its_request() {
        let router = Router::new().route("/", get(broken)).layer(from_fn(catch_panic));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            response.extensions().get::<ApiProblem>().map(ApiProblem::code),
            Some(ProblemCode::Internal)
        );
    }
}
