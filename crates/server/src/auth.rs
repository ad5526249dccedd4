//! Authentication: the holder of a key, of a JWT or of a session's cookie, or, as long as there is no key, the one
//! user of this machine.
//!
//! Identity comes from these proofs alone. The only name that a request may state itself is the user for whom the
//! holder of an acting key speaks.

mod attempts;
mod cookies;
mod origin;

use std::net::IpAddr;
use std::ops::Deref;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use identity::{TokenRefusal, VerifiedToken};
use jiff::Timestamp;
use protocol::{AppId, Principal, Right, Rights, UserId};
use service::{Grant, GrantSource, KEY_PREFIX, LOCAL_USER, Service, StreamAccess, checked_user};

use crate::Api;
use crate::error::{ApiProblem, ProblemCode};
use crate::peer::PeerAddress;

pub(crate) use attempts::FailedAttempts;
pub(crate) use cookies::{SessionCookie, is_secure};
pub(crate) use origin::{allow_origin, allowed_origin, check_origin, preflight};

/// Names the user for whom the holder of an acting key speaks.
const ACTING_USER: HeaderName = HeaderName::from_static("x-rondo-user");

const NO_PROOF: &str = "send a valid API key as Authorization: Bearer KEY; `rondo keys add USER` makes one";
const NO_PROOF_WITH_ISSUER: &str =
    "send a valid JWT of a configured issuer, or a valid API key, as Authorization: Bearer TOKEN";

/// The proof that a request has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessProof {
    /// The request comes from this machine, and no key was ever made.
    Local,
    Stored(GrantSource),
    /// A JWT of the issuer with this entry in the configuration.
    Token(String),
}

/// The access of a request to any route.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) principal: Principal,
    pub(crate) proof: AccessProof,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The secret that a request carries.
enum Credentials<'a> {
    None,
    Bearer(&'a str),
    Cookie(&'a str),
}

impl FromRequestParts<Api> for Access {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let credentials = credentials(api, parts)?;
        let is_attempt = !matches!(credentials, Credentials::None);
        let access = match credentials {
            Credentials::None => local_access(api),
            Credentials::Bearer(token) => bearer_access(api, token).await,
            Credentials::Cookie(secret) => cookie_access(api, parts, secret).await,
        };
        if is_attempt && access.as_ref().is_err_and(|problem| problem.code() == ProblemCode::Unauthorized) {
            api.attempts.note_failure(address(api, parts))?;
        }
        acting_access(api, access?, &parts.headers)
    }
}

/// The access of a request without a key, JWT or session: the user of this machine. Refused if there are keys or
/// issuers, or if other machines can reach the server.
fn local_access(api: &Api) -> Result<Access, ApiProblem> {
    let is_for_others = !api.bound.is_loopback() || api.proxying.is_for_others();
    if api.service.has_keys() || !api.issuers.is_empty() || is_for_others {
        let detail = if api.issuers.is_empty() { NO_PROOF } else { NO_PROOF_WITH_ISSUER };
        return Err(ApiProblem::new(ProblemCode::Unauthorized, detail));
    }
    let principal = Principal::authenticated(UserId::new(LOCAL_USER)).as_admin();
    Ok(Access { principal, proof: AccessProof::Local, expires_at: None })
}

async fn bearer_access(api: &Api, token: &str) -> Result<Access, ApiProblem> {
    if !token.starts_with(KEY_PREFIX) && !api.issuers.is_empty() {
        let verified = api.issuers.verify(token).await.map_err(|refusal| token_problem(&refusal))?;
        return Ok(token_access(api, verified));
    }
    let grant = api.service.key_grant(token).await?;
    // One answer for a wrong, a revoked and an expired key. Where no key is needed, a wrong one is as none.
    let Some(grant) = grant else { return local_access(api) };
    let is_control = grant.source == GrantSource::Control;
    Ok(match api.control_user.as_deref().filter(|_| is_control) {
        Some(user) => Access {
            principal: Principal::authenticated(UserId::new(user)),
            proof: AccessProof::Stored(GrantSource::Control),
            expires_at: None,
        },
        None => grant_access(api, &grant)?,
    })
}

async fn cookie_access(api: &Api, parts: &Parts, secret: &str) -> Result<Access, ApiProblem> {
    let grant = api.service.session_grant(secret).await?;
    // A session ends with the entry of its issuer, also where that was changed.
    let is_served = |grant: &Grant| grant.issuer.as_ref().is_none_or(|issuer| api.issuers.has_entry(issuer));
    let Some(grant) = grant.filter(|grant| is_served(grant)) else {
        let detail = "the session has ended; make another one with POST /v1/session, and a key or a JWT";
        return local_access(api).map_err(|_| ApiProblem::new(ProblemCode::Unauthorized, detail));
    };
    if !parts.method.is_safe() {
        origin::check_cookie_origin(api, parts)?;
    }
    grant_access(api, &grant)
}

/// A key may be older than an issuer whose users have names like its own.
fn grant_access(api: &Api, grant: &Grant) -> Result<Access, ApiProblem> {
    if grant.issuer.is_none()
        && let Some(issuer) = api.issuers.issuer_of_name(&grant.user)
    {
        let detail = format!(
            "the user of this key has a name that belongs to the users of the issuer {issuer}: use a key of \
             another user"
        );
        return Err(ApiProblem::new(ProblemCode::Forbidden, detail));
    }
    let user = Principal::authenticated(UserId::new(grant.user.as_str()));
    let mut principal = user.with_rights(grant.rights);
    if let Some(apps) = &grant.apps {
        principal = principal.only_for_apps(apps.iter().cloned());
    }
    principal = match (&grant.actor, grant.acts_for) {
        (Some(actor), _) => principal.acted_for_by(actor),
        // Until the request names its user.
        (None, Some(_)) => principal.acted_for_by(&grant.user),
        (None, None) => principal,
    };
    let proof = AccessProof::Stored(grant.source.clone());
    Ok(Access { principal, proof, expires_at: grant.expires_at })
}

fn token_access(api: &Api, verified: VerifiedToken) -> Access {
    let rights = if verified.admin { Rights::USER.with(Right::Admin) } else { Rights::USER };
    let mut principal = Principal::authenticated(UserId::new(verified.user)).with_rights(rights);
    if let Some(apps) = verified.apps {
        principal = principal.only_for_apps(apps.into_iter().map(AppId::new));
    }
    let proof = AccessProof::Token(api.issuers.entry_of(&verified.issuer));
    Access { principal, proof, expires_at: Some(verified.expires_at) }
}

fn token_problem(refusal: &TokenRefusal) -> ApiProblem {
    let detail = refusal.to_string();
    if refusal.is_temporary() {
        return ApiProblem::new(ProblemCode::Unavailable, detail).retry_after(ISSUER_RETRY_AFTER);
    }
    ApiProblem::new(ProblemCode::Unauthorized, detail)
}

/// Seconds after which the keys of an issuer may be there again.
const ISSUER_RETRY_AFTER: u32 = 60;

/// The access of the user whom the holder of an acting key names.
fn acting_access(api: &Api, access: Access, headers: &HeaderMap) -> Result<Access, ApiProblem> {
    let mut named = headers.get_all(ACTING_USER).iter();
    let (name, more) = (named.next(), named.next());
    let is_acting_key = matches!(access.proof, AccessProof::Stored(GrantSource::Key(_)))
        && access.principal.actor().is_some();
    let Some(name) = name else { return Ok(access) };
    if !is_acting_key {
        return Err(ApiProblem::new(
            ProblemCode::ActingNotAllowed,
            "only an acting key may name a user in X-Rondo-User: remove the header, or make such a key with \
             `rondo keys add NAME --acts-for any`",
        ));
    }
    let name = name.to_str().ok().filter(|_| more.is_none());
    let name = name.map(|name| checked_user("X-Rondo-User", name)).transpose()?;
    let name =
        name.ok_or_else(|| ApiProblem::invalid("X-Rondo-User", "must be one name of visible ASCII"))?;
    check_not_of_issuer(api, "X-Rondo-User", &name)?;
    let Access { principal, proof, expires_at } = access;
    // The back end may be an admin. Its users are not.
    let rights = principal.rights().without(Right::Admin);
    let mut user = Principal::authenticated(UserId::new(name)).with_rights(rights);
    if let Some(apps) = principal.apps() {
        user = user.only_for_apps(apps.iter().cloned());
    }
    let principal = user.acted_for_by(principal.actor().unwrap_or_default());
    Ok(Access { principal, proof, expires_at })
}

/// Refuses a name that only the JWTs of an issuer may give.
pub(crate) fn check_not_of_issuer(api: &Api, field: &'static str, user: &str) -> Result<(), ApiProblem> {
    match api.issuers.issuer_of_name(user) {
        Some(issuer) => Err(ApiProblem::invalid(
            field,
            format!(
                "names of this form belong to the users of the issuer {issuer}: choose another name, or write \
                 prefix = \"\" under [auth.jwt.{issuer}] to share the names"
            ),
        )),
        None => Ok(()),
    }
}

fn user_required() -> ApiProblem {
    ApiProblem::new(
        ProblemCode::UserRequired,
        "an acting key speaks for a user: name the user in the header X-Rondo-User",
    )
}

impl Access {
    /// Whether this is an acting key without the user for whom it speaks.
    fn lacks_user(&self) -> bool {
        let is_key = matches!(self.proof, AccessProof::Stored(GrantSource::Key(_)));
        is_key && self.principal.actor() == Some(self.principal.user().as_str())
    }

    /// The user for whom a session is made.
    pub(crate) fn user_of_session(&self) -> Result<&Principal, ApiProblem> {
        if self.lacks_user() { Err(user_required()) } else { Ok(&self.principal) }
    }

    /// The principal, if its rights are enough for the request.
    fn into_user(self, parts: &Parts) -> Result<Principal, ApiProblem> {
        // A search is posted only because a question may be long.
        let route = parts.extensions.get::<MatchedPath>();
        let is_search = route.is_some_and(|route| route.as_str().ends_with("/search"));
        let is_read = parts.method.is_safe() || parts.method == Method::POST && is_search;
        self.into_holder(if is_read { Right::Read } else { Right::Run })
    }

    /// The principal, if it has this right.
    fn into_holder(self, right: Right) -> Result<Principal, ApiProblem> {
        if self.lacks_user() {
            return Err(user_required());
        }
        if self.principal.has(right) {
            return Ok(self.principal);
        }
        let detail = format!(
            "this request needs the right `{0}`, which your key does not have; `rondo keys add USER --rights {0}` \
             makes one that has it",
            right.name()
        );
        Err(ApiProblem::new(ProblemCode::Forbidden, detail))
    }
}

/// The access of a request that may stay open, and its end. The access is looked at again: what was revoked or rotated
/// before the stream was noted did not end it.
async fn open_access(parts: &mut Parts, api: &Api) -> Result<(Access, StreamAccess), ApiProblem> {
    let found = Access::from_request_parts(parts, api).await?;
    let source = match &found.proof {
        AccessProof::Stored(source) => Some(source),
        AccessProof::Local | AccessProof::Token(_) => None,
    };
    let access = api.service.open_stream(source, found.expires_at, &api.shutdown.streams);
    let again = Access::from_request_parts(parts, api).await?;
    access.end_by(again.expires_at);
    Ok((again, access))
}

impl FromRequestParts<Api> for Principal {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        Access::from_request_parts(parts, api).await?.into_user(parts)
    }
}

/// A user who asks, and the service that answers.
pub(crate) struct Caller {
    pub(crate) service: Service,
    pub(crate) principal: Principal,
}

impl FromRequestParts<Api> for Caller {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let principal = Principal::from_request_parts(parts, api).await?;
        Ok(Self { service: api.service.clone(), principal })
    }
}

/// A user who asks for events, and the access that the stream ends with.
pub(crate) struct StreamCaller {
    pub(crate) principal: Principal,
    pub(crate) access: StreamAccess,
}

impl Deref for StreamCaller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.principal
    }
}

impl FromRequestParts<Api> for StreamCaller {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let (found, access) = open_access(parts, api).await?;
        Ok(Self { principal: found.into_user(parts)?, access })
    }
}

/// A user of a protocol whose requests say in their bodies what they do, so that the right `read` is enough to be
/// heard. The code that takes the request checks the right for what it does.
pub(crate) struct ReadingCaller {
    pub(crate) principal: Principal,
    /// The access that a stream ends with.
    pub(crate) access: StreamAccess,
    /// The proof that the request has shown.
    pub(crate) proof: AccessProof,
}

impl FromRequestParts<Api> for ReadingCaller {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let (found, access) = open_access(parts, api).await?;
        let proof = found.proof.clone();
        Ok(Self { principal: found.into_holder(Right::Read)?, access, proof })
    }
}

/// The caller of a request for admins.
pub(crate) struct Admin(pub(crate) Caller);

impl FromRequestParts<Api> for Admin {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        let Access { principal, .. } = Access::from_request_parts(parts, api).await?;
        if principal.is_admin() {
            return Ok(Self(Caller { service: api.service.clone(), principal }));
        }
        Err(ApiProblem::new(
            ProblemCode::AdminOnly,
            "this request needs an admin key; `rondo keys add USER --admin` makes one",
        ))
    }
}

/// The holder of the control token, who can read the data folder. No key proves that.
pub(crate) struct ControlHolder;

impl FromRequestParts<Api> for ControlHolder {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiProblem> {
        if let Credentials::Bearer(token) = credentials(api, parts)?
            && api.service.is_control_token(token)
        {
            return Ok(Self);
        }
        Err(ApiProblem::new(
            ProblemCode::Forbidden,
            "no key allows this request; run `rondo keys open` on the machine of the server",
        ))
    }
}

/// Reads the only secret that a request carries. A header that is no bearer token counts as none that is good.
fn credentials<'a>(api: &Api, parts: &'a Parts) -> Result<Credentials<'a>, ApiProblem> {
    let mut headers = parts.headers.get_all(header::AUTHORIZATION).iter();
    match (headers.next(), headers.next()) {
        (None, _) => {
            let secret = SessionCookie::of(api, parts).secret(parts);
            Ok(secret.map_or(Credentials::None, Credentials::Cookie))
        }
        (Some(one), None) => {
            let token = one.to_str().ok().and_then(bearer).unwrap_or_default();
            Ok(Credentials::Bearer(token))
        }
        (Some(_), Some(_)) => {
            Err(ApiProblem::new(ProblemCode::Unauthorized, "send one Authorization header, not several"))
        }
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The address that a request comes from, behind trusted proxies.
fn address(api: &Api, parts: &Parts) -> Option<IpAddr> {
    let peer = parts.extensions.get::<PeerAddress>();
    peer.map(|PeerAddress(peer)| api.proxying.client(peer.ip(), &parts.headers))
}
