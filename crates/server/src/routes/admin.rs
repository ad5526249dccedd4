//! Looking after the server: its background work and its keys. For holders of an admin key, within its app if it is
//! for one.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{JobView, KeyId, KeyMade, KeyRequest, KeyView, Page};
use serde::Serialize;
use service::NewKey;
use utoipa::ToSchema;

use crate::Api;
use crate::auth::Admin;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{InPath, PageParams, Paging};

/// Background work of all users, newest first; of one app if the key is for one.
#[utoipa::path(
    get,
    path = "/v1/admin/jobs",
    tag = "admin",
    operation_id = "list_jobs",
    params(PageParams),
    responses((status = 200, description = "A page of jobs", body = Page<JobView>))
)]
pub(super) async fn jobs(
    State(api): State<Api>,
    Admin(by): Admin,
    Paging(page): Paging,
) -> Result<Answer<Page<JobView>>, Problem> {
    Ok(Answer(api.service.job_views(page, Some(&by)).await?))
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
    tag = "admin",
    operation_id = "verify_ledger",
    responses((status = 200, description = "What was found", body = LedgerReport))
)]
pub(super) async fn ledger(
    State(api): State<Api>,
    Admin(by): Admin,
) -> Result<Answer<LedgerReport>, Problem> {
    let found = api.service.verify_ledger(Some(&by)).await?;
    let (scopes, entries) = (found.scopes, found.entries);
    Ok(Answer(LedgerReport { scopes, entries, erased: found.erased, faults: found.faults }))
}

/// All keys, oldest first, without what proves them; those of one app if the key is for one.
#[utoipa::path(
    get,
    path = "/v1/admin/keys",
    tag = "admin",
    operation_id = "list_keys",
    responses((status = 200, description = "The keys", body = Page<KeyView>))
)]
pub(super) async fn keys(State(api): State<Api>, Admin(by): Admin) -> Result<Answer<Page<KeyView>>, Problem> {
    Ok(Answer(Page { data: api.service.keys(Some(&by)).await?, next: None }))
}

/// Makes a key, good for no more than the one it is made with. Its token is in this answer and nowhere else.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    tag = "admin",
    operation_id = "add_key",
    request_body = KeyRequest,
    responses((status = 201, description = "The new key, with its token", body = KeyMade))
)]
pub(super) async fn add_key(
    State(api): State<Api>,
    Admin(by): Admin,
    Json(request, once): Json<KeyRequest>,
) -> Result<(StatusCode, Answer<KeyMade>), Problem> {
    let KeyRequest { user, app, admin } = request;
    let made = api.service.add_key(NewKey { user, app, admin }, Some((&by, once))).await?;
    Ok((StatusCode::CREATED, Answer(KeyMade { id: made.id, token: made.token })))
}

/// Revokes a key, at once.
#[utoipa::path(
    delete,
    path = "/v1/admin/keys/{key}",
    tag = "admin",
    operation_id = "revoke_key",
    params(("key" = KeyId, Path)),
    responses((status = 204, description = "The key is good for nothing"))
)]
pub(super) async fn revoke_key(
    State(api): State<Api>,
    Admin(by): Admin,
    InPath(key): InPath<KeyId>,
    Key(_): Key, // revoking twice is revoking once
) -> Result<StatusCode, Problem> {
    api.service.revoke_key(key, Some(&by)).await?;
    Ok(StatusCode::NO_CONTENT)
}
