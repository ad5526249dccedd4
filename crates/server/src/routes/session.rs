//! A browser's session: a cookie in place of a key or a JWT, so that no script has to hold one.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use protocol::{Right, Rights};
use serde::Serialize;
use service::{GrantSource, SESSION_HOURS, SessionProof};
use utoipa::ToSchema;

use crate::Api;
use crate::auth::{Access, AccessProof, SessionCookie};
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::IdempotencyKey;
use crate::routes::JsonReply;

const SESSION_SECONDS: i64 = SESSION_HOURS * 60 * 60;

/// The access that a request has.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AccessView {
    user: String,
    /// The holder of the acting key that speaks for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// The apps that the access is limited to; null for all apps.
    apps: Option<Vec<String>>,
    #[schema(value_type = Vec<Right>)]
    rights: Rights,
    /// The proof: `none` on a machine without keys, `key`, `jwt` or `session`.
    proof: &'static str,
    /// The end of the access; null without an end.
    expires_at: Option<Timestamp>,
}

/// A request about the session of its sender.
pub(super) struct SessionVisit {
    access: Access,
    /// The secret in the cookie.
    secret: Option<String>,
    is_secure: bool,
}

impl FromRequestParts<Api> for SessionVisit {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let access = Access::from_request_parts(parts, api).await?;
        let cookie = SessionCookie::of(api, parts);
        let secret = cookie.secret(parts).map(str::to_owned);
        Ok(Self { access, secret, is_secure: cookie.is_secure })
    }
}

fn view(access: &Access, expires_at: Option<Timestamp>) -> AccessView {
    let principal = &access.principal;
    let proof = match &access.proof {
        AccessProof::Local => "none",
        AccessProof::Stored(GrantSource::Control | GrantSource::Key(_)) => "key",
        AccessProof::Stored(GrantSource::Session(..)) => "session",
        AccessProof::Token(_) => "jwt",
    };
    AccessView {
        user: principal.user().to_string(),
        actor: principal.actor().map(str::to_owned),
        apps: principal.apps().map(|apps| apps.iter().map(ToString::to_string).collect()),
        rights: principal.rights(),
        proof,
        expires_at,
    }
}

/// Returns the sender, and the rights of their access.
#[utoipa::path(
    get,
    path = "/v1/session",
    responses((status = 200, description = "The access of the sender", body = AccessView))
)]
pub(super) async fn get_session(visit: SessionVisit) -> JsonReply<AccessView> {
    Ok(Answer(view(&visit.access, visit.access.expires_at)))
}

/// Exchanges a key or a JWT for a session. The answer sets a cookie that no script can read. The session lasts twelve
/// hours, and ends with its key.
#[utoipa::path(
    post,
    path = "/v1/session",
    responses((status = 201, description = "The session; its cookie is set", body = AccessView))
)]
pub(super) async fn create_session(
    State(api): State<Api>,
    visit: SessionVisit,
    IdempotencyKey(_): IdempotencyKey, // a second session does no harm
) -> Result<Response, ApiProblem> {
    let SessionVisit { access, is_secure, .. } = visit;
    let principal = access.user_of_session()?;
    let proof = match &access.proof {
        AccessProof::Stored(GrantSource::Key(key)) => SessionProof::Key(*key),
        AccessProof::Token(issuer) => SessionProof::Issuer(issuer.clone()),
        AccessProof::Local => {
            let detail = "this server needs no key, so it has no sessions: send the requests without one";
            return Err(ApiProblem::new(ProblemCode::Conflict("no_session_needed"), detail));
        }
        AccessProof::Stored(GrantSource::Control | GrantSource::Session(..)) => {
            let detail = "a session is made with a key or a JWT: send one as Authorization: Bearer";
            return Err(ApiProblem::new(ProblemCode::Conflict("key_or_jwt_required"), detail));
        }
    };
    let made = api.service.add_session(principal, proof, access.expires_at).await?;
    let cookie = SessionCookie::new(&api, is_secure).header(&made.secret, SESSION_SECONDS);
    let shown = AccessView { proof: "session", ..view(&access, Some(made.view.expires_at)) };
    let headers = [(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, "no-store".to_owned())];
    Ok((StatusCode::CREATED, headers, Answer(shown)).into_response())
}

/// Ends the session of the sender, and removes its cookie.
#[utoipa::path(
    delete,
    path = "/v1/session",
    responses((status = 204, description = "The session has ended"))
)]
pub(super) async fn delete_session(
    State(api): State<Api>,
    visit: SessionVisit,
    IdempotencyKey(_): IdempotencyKey, // ending twice is ending once
) -> Result<Response, ApiProblem> {
    visit.access.user_of_session()?;
    let (AccessProof::Stored(GrantSource::Session(session, _)), Some(secret)) =
        (&visit.access.proof, &visit.secret)
    else {
        let detail = "this request has no session to end: send it with the session's cookie";
        return Err(ApiProblem::new(ProblemCode::Conflict("no_session"), detail));
    };
    api.service.end_own_session(*session, secret).await?;
    let cookie = SessionCookie::new(&api, visit.is_secure).header("", 0);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
