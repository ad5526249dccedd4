//! Credentials that a user gives to an app, for tools that act in the user's name elsewhere. No answer holds a value.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use protocol::{CredentialRequest, CredentialView, Page, Principal};
use service::Error;

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::InPath;

/// A credential by its app and name. The service knows which can be.
pub(super) struct Place {
    app: String,
    name: String,
}

impl FromRequestParts<Api> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let names = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Path((app, name)) = names.map_err(|_| Error::NotFound { what: "credential" })?;
        Ok(Self { app, name })
    }
}

/// The names of what the user has given to an app, without the values.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/credentials",
    tag = "credentials",
    operation_id = "list_credentials",
    params(("app" = String, Path, description = "The app's name")),
    responses((status = 200, description = "All of them by name; one page", body = Page<CredentialView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
) -> Result<Answer<Page<CredentialView>>, Problem> {
    Ok(Answer(Page { data: api.service.credentials(&principal, &app).await?, next: None }))
}

/// Gives a credential to an app, or another value for it. It is kept sealed and never shown.
#[utoipa::path(
    put,
    path = "/v1/apps/{app}/credentials/{name}",
    tag = "credentials",
    operation_id = "put_credential",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("name" = String, Path, description = "The name by which the app's tools know it")
    ),
    request_body = CredentialRequest,
    responses((status = 200, description = "The credential, without its value", body = CredentialView))
)]
pub(super) async fn put(
    State(api): State<Api>,
    principal: Principal,
    Place { app, name }: Place,
    Json(CredentialRequest { value }, once): Json<CredentialRequest>,
) -> Result<Answer<CredentialView>, Problem> {
    Ok(Answer(api.service.put_credential(&principal, (&app, &name), &value, once).await?))
}

/// Takes a credential back.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/credentials/{name}",
    tag = "credentials",
    operation_id = "delete_credential",
    params(
        ("app" = String, Path, description = "The app's name"),
        ("name" = String, Path, description = "The name by which the app's tools know it")
    ),
    responses((status = 204, description = "The credential is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    Place { app, name }: Place,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_credential(&principal, (&app, &name), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
