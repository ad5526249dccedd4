//! Looking after the server: its background work, its keys and sessions, and the audit of both. For holders of an admin key, within its app if it is
//! for one.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{
    AuditEntryView, JobView, KeyMade, KeyRotation, KeyView, KeysRemoved, NewKey, Page, SessionView,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::{Admin, ControlHolder, check_not_of_issuer};
use crate::body::{Json, OptionalJson};
use crate::error::{ApiProblem, ProblemCode};
use crate::idempotency::IdempotencyKey;
use crate::path::{KeyPath, SessionPath};
use crate::query::{PageParams, Params};
use crate::routes::{Created, JsonReply, created};

/// The path at which `rondo keys open` asks for the removal of all keys.
pub(super) const CONTROL_KEYS: &str = "/control/keys";

/// Lists the background jobs of all users, newest first. A key that is limited to an app sees the jobs of that app.
#[utoipa::path(
    get,
    path = "/v1/admin/jobs",
    params(PageParams),
    responses((status = 200, description = "A page of jobs", body = Page<JobView>))
)]
pub(super) async fn list_jobs(
    Admin(caller): Admin,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<JobView>> {
    Ok(Answer(caller.service.job_views(page.into(), Some(&caller.principal)).await?))
}

/// The result of a check of the whole ledger.
#[derive(Serialize, ToSchema)]
pub(super) struct LedgerReport {
    /// The number of hash chains: one for each user in each app.
    scopes: u64,
    entries: u64,
    /// The number of entries with erased content. Their hash chain is still valid.
    erased: u64,
    /// The faults, as texts; empty if the ledger is valid.
    faults: Vec<String>,
}

/// Checks the hash chains of all ledgers, and reports faults. Needs an admin key for all apps.
#[utoipa::path(
    get,
    path = "/v1/admin/ledger",
    responses((status = 200, description = "The result of the check", body = LedgerReport))
)]
pub(super) async fn verify_ledger(Admin(caller): Admin) -> JsonReply<LedgerReport> {
    let found = caller.service.verify_ledger(Some(&caller.principal)).await?;
    let (scopes, entries) = (found.scopes, found.entries);
    Ok(Answer(LedgerReport { scopes, entries, erased: found.erased, faults: found.faults }))
}

/// Lists the keys, oldest first, without their secrets. A key that is limited to an app sees the keys of that app.
#[utoipa::path(
    get,
    path = "/v1/admin/keys",
    params(PageParams),
    responses((status = 200, description = "A page of keys", body = Page<KeyView>))
)]
pub(super) async fn list_keys(
    Admin(caller): Admin,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<KeyView>> {
    Ok(Answer(caller.service.keys(page.into(), Some(&caller.principal)).await?))
}

/// Creates a key. Its rights do not exceed those of the admin key. The token is shown only in this response.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    request_body = NewKey,
    responses((status = 201, description = "The new key, with its token", body = KeyMade))
)]
pub(super) async fn add_key(
    State(api): State<Api>,
    Admin(caller): Admin,
    Json(new, once): Json<NewKey>,
) -> Created<KeyMade> {
    check_not_of_issuer(&api, "user", &new.user)?;
    Ok(created(caller.service.add_key(new, Some((&caller.principal, once))).await?))
}

/// Revokes a key immediately.
#[utoipa::path(
    delete,
    path = "/v1/admin/keys/{key}",
    params(KeyPath),
    responses((status = 204, description = "The key is revoked"))
)]
pub(super) async fn revoke_key(
    Admin(caller): Admin,
    KeyPath { key }: KeyPath,
    IdempotencyKey(_): IdempotencyKey, // revoking twice is revoking once
) -> Result<StatusCode, ApiProblem> {
    caller.service.revoke_key(key, Some(&caller.principal)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Creates a new key in place of another. The old key stays valid for a while, a day by default.
#[utoipa::path(
    post,
    path = "/v1/admin/keys/{key}/rotate",
    params(KeyPath),
    request_body = Option<KeyRotation>,
    responses((status = 201, description = "The new key, with its token", body = KeyMade))
)]
pub(super) async fn rotate_key(
    Admin(caller): Admin,
    KeyPath { key }: KeyPath,
    OptionalJson(rotation, once): OptionalJson<KeyRotation>,
) -> Created<KeyMade> {
    Ok(created(caller.service.rotate_key(key, rotation, Some((&caller.principal, once))).await?))
}

/// Lists the open browser sessions, newest first. A key that is limited to an app sees the sessions of that app.
#[utoipa::path(
    get,
    path = "/v1/admin/sessions",
    params(PageParams),
    responses((status = 200, description = "A page of sessions", body = Page<SessionView>))
)]
pub(super) async fn list_sessions(
    Admin(caller): Admin,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<SessionView>> {
    Ok(Answer(caller.service.sessions(page.into(), Some(&caller.principal)).await?))
}

/// Ends a browser session immediately.
#[utoipa::path(
    delete,
    path = "/v1/admin/sessions/{session}",
    params(SessionPath),
    responses((status = 204, description = "The session has ended"))
)]
pub(super) async fn end_session(
    Admin(caller): Admin,
    SessionPath { session }: SessionPath,
    IdempotencyKey(_): IdempotencyKey, // ending twice is ending once
) -> Result<StatusCode, ApiProblem> {
    caller.service.end_session(session, Some(&caller.principal)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the changes by admins, newest first, such as new keys and approvals. Entries are chained by hash.
#[utoipa::path(
    get,
    path = "/v1/admin/audit",
    params(PageParams),
    responses((status = 200, description = "A page of entries", body = Page<AuditEntryView>))
)]
pub(super) async fn list_audit(
    Admin(caller): Admin,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<AuditEntryView>> {
    Ok(Answer(caller.service.admin_audit(page.into(), Some(&caller.principal)).await?))
}

/// Removes all keys, for who holds the control token. Not while others can reach this server, who would then need none.
pub(super) async fn remove_keys(State(api): State<Api>, _: ControlHolder) -> JsonReply<KeysRemoved> {
    if !api.bound.is_loopback() || api.proxying.is_for_others() {
        return Err(ApiProblem::new(
            ProblemCode::Forbidden,
            "other machines can reach this server, so it needs keys: first let it listen on 127.0.0.1, without \
             server.public_url",
        ));
    }
    Ok(Answer(KeysRemoved { removed: api.service.remove_keys().await? }))
}
