//! Personas: those of an app's folder to read; those of the user to add, change and delete.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{NewPersona, Page, PersonaPatch, PersonaView, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{At, InPath, PageParams, Paging, PersonaPlace};

/// Adds a persona of the user's own. Runs and threads name it by its id.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/personas",
    tag = "personas",
    operation_id = "create_persona",
    params(("app" = String, Path, description = "The app's name")),
    request_body = NewPersona,
    responses((status = 201, description = "The new persona", body = PersonaView))
)]
pub(super) async fn create(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Json(new, once): Json<NewPersona>,
) -> Result<(StatusCode, Answer<PersonaView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.service.create_persona(&principal, &app, new, once).await?)))
}

/// The personas of the app first, then the user's by name.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas",
    tag = "personas",
    operation_id = "list_personas",
    params(("app" = String, Path, description = "The app's name"), PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PersonaView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    Paging(page): Paging,
) -> Result<Answer<Page<PersonaView>>, Problem> {
    Ok(Answer(api.service.personas(&principal, &app, page).await?))
}

/// One persona.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas/{persona}",
    tag = "personas",
    operation_id = "get_persona",
    params(("app" = String, Path, description = "The app's name"), ("persona" = String, Path, description = "Its id")),
    responses((status = 200, description = "The persona", body = PersonaView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    At(PersonaPlace { app, id }): At<PersonaPlace>,
) -> Result<Answer<PersonaView>, Problem> {
    Ok(Answer(api.service.persona(&principal, &app, &id).await?))
}

/// Changes a persona of the user's own. Its settings are replaced as a whole.
#[utoipa::path(
    patch,
    path = "/v1/apps/{app}/personas/{persona}",
    tag = "personas",
    operation_id = "change_persona",
    params(("app" = String, Path, description = "The app's name"), ("persona" = String, Path, description = "Its id")),
    request_body = PersonaPatch,
    responses((status = 200, description = "The persona as it is now", body = PersonaView))
)]
pub(super) async fn change(
    State(api): State<Api>,
    principal: Principal,
    At(PersonaPlace { app, id }): At<PersonaPlace>,
    Json(patch, once): Json<PersonaPatch>,
) -> Result<Answer<PersonaView>, Problem> {
    Ok(Answer(api.service.change_persona(&principal, (&app, &id), patch, once).await?))
}

/// Deletes a persona of the user's own. Threads in which it answers go on without one.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/personas/{persona}",
    tag = "personas",
    operation_id = "delete_persona",
    params(("app" = String, Path, description = "The app's name"), ("persona" = String, Path, description = "Its id")),
    responses((status = 204, description = "The persona is gone"))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    principal: Principal,
    At(PersonaPlace { app, id }): At<PersonaPlace>,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.service.delete_persona(&principal, (&app, &id), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
