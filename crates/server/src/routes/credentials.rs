//! Credentials that a user gives to an app, for tools that act in the user's name elsewhere. No answer holds a value.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{CredentialRequest, CredentialView, Page};

use crate::auth::Caller;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, CredentialPath};
use crate::routes::JsonReply;

/// Lists the credentials of the user in an app, without their values.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/credentials",
    params(AppPath),
    responses((status = 200, description = "All credentials by name, in one page", body = Page<CredentialView>))
)]
pub(super) async fn list_credentials(
    caller: Caller,
    AppPath { app }: AppPath,
) -> JsonReply<Page<CredentialView>> {
    Ok(Answer(Page { data: caller.service.credentials(&caller.principal, &app).await?, next: None }))
}

/// Stores or replaces a credential of the user in an app. The value is encrypted and never shown.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/credentials/{name}",
    params(CredentialPath),
    request_body = CredentialRequest,
    responses((status = 200, description = "The credential, without its value", body = CredentialView))
)]
pub(super) async fn put_credential(
    caller: Caller,
    CredentialPath { app, name }: CredentialPath,
    Json(CredentialRequest { value }, once): Json<CredentialRequest>,
) -> JsonReply<CredentialView> {
    Ok(Answer(caller.service.put_credential(&caller.principal, (&app, &name), &value, once).await?))
}

/// Deletes a credential.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/credentials/{name}",
    params(CredentialPath),
    responses((status = 204, description = "The credential is deleted"))
)]
pub(super) async fn delete_credential(
    caller: Caller,
    CredentialPath { app, name }: CredentialPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_credential(&caller.principal, (&app, &name), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
