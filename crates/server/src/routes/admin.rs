//! Looking after the server: its background work and its keys. For holders of an admin key, within its app if it is
//! for one.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{JobView, KeyMade, KeyRequest, KeyView, Page};
use serde::Serialize;
use service::NewKey;
use utoipa::ToSchema;

use crate::auth::Admin;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::KeyPath;
use crate::query::{PageParams, Params};
use crate::routes::{Created, Reply, created};

/// Background work of all users, newest first; of one app if the key is for one.
#[utoipa::path(
    get,
    path = "/v1/admin/jobs",
    params(PageParams),
    responses((status = 200, description = "A page of jobs", body = Page<JobView>))
)]
pub(super) async fn list_jobs(
    Admin(caller): Admin,
    Params(page): Params<PageParams>,
) -> Reply<Page<JobView>> {
    Ok(Answer(caller.service.job_views(page.into(), Some(&caller.principal)).await?))
}

/// What going through the whole ledger has shown.
#[derive(Serialize, ToSchema)]
pub(super) struct LedgerReport {
    /// Chains: one for each user in each app.
    scopes: u64,
    entries: u64,
    /// Entries whose content was erased: their chain holds.
    erased: u64,
    /// What does not hold, in words; empty when all is well.
    faults: Vec<String>,
}

/// Goes through the ledger of every user's actions, and says what in it does not hold. Needs a key for all apps.
#[utoipa::path(
    get,
    path = "/v1/admin/ledger",
    responses((status = 200, description = "What was found", body = LedgerReport))
)]
pub(super) async fn verify_ledger(Admin(caller): Admin) -> Reply<LedgerReport> {
    let found = caller.service.verify_ledger(Some(&caller.principal)).await?;
    let (scopes, entries) = (found.scopes, found.entries);
    Ok(Answer(LedgerReport { scopes, entries, erased: found.erased, faults: found.faults }))
}

/// All keys, oldest first, without what proves them; those of one app if the key is for one.
#[utoipa::path(
    get,
    path = "/v1/admin/keys",
    responses((status = 200, description = "The keys", body = Page<KeyView>))
)]
pub(super) async fn list_keys(Admin(caller): Admin) -> Reply<Page<KeyView>> {
    Ok(Answer(Page { data: caller.service.keys(Some(&caller.principal)).await?, next: None }))
}

/// Makes a key, good for no more than the one it is made with. Its token is in this answer and nowhere else.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    request_body = KeyRequest,
    responses((status = 201, description = "The new key, with its token", body = KeyMade))
)]
pub(super) async fn add_key(Admin(caller): Admin, Json(request, once): Json<KeyRequest>) -> Created<KeyMade> {
    let KeyRequest { user, app, admin } = request;
    let made = caller.service.add_key(NewKey { user, app, admin }, Some((&caller.principal, once))).await?;
    Ok(created(KeyMade { id: made.id, token: made.token }))
}

/// Revokes a key, at once.
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
