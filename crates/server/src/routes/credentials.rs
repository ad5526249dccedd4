//! Credentials that a user gives to an app, for tools that act in the user's name elsewhere. No answer holds a value.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{CredentialRequest, CredentialView, Page, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{AppPath, CredentialPath};

/// The names of what the user has given to an app, without the values.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/credentials",
    params(AppPath),
    responses((status = 200, description = "All of them by name; one page", body = Page<CredentialView>))
)]
pub(super) async fn list_credentials(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
) -> Result<Answer<Page<CredentialView>>, Problem> {
    Ok(Answer(Page { data: api.engine.credentials(&principal, &app).await?, next: None }))
}

/// Gives a credential to an app, or another value for it. It is kept sealed and never shown.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/credentials/{name}",
    params(CredentialPath),
    request_body = CredentialRequest,
    responses((status = 200, description = "The credential, without its value", body = CredentialView))
)]
pub(super) async fn put_credential(
    State(api): State<Api>,
    principal: Principal,
    CredentialPath { app, name }: CredentialPath,
    Json(CredentialRequest { value }, once): Json<CredentialRequest>,
) -> Result<Answer<CredentialView>, Problem> {
    Ok(Answer(api.engine.put_credential(&principal, (&app, &name), &value, once).await?))
}

/// Takes a credential back.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/credentials/{name}",
    params(CredentialPath),
    responses((status = 204, description = "The credential is gone"))
)]
pub(super) async fn delete_credential(
    State(api): State<Api>,
    principal: Principal,
    CredentialPath { app, name }: CredentialPath,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.engine.delete_credential(&principal, (&app, &name), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
