//! Personas: those of an app's folder to read; those of the user to add, change and delete.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{NewPersona, Page, PersonaPatch, PersonaView, Principal};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{AppPath, PersonaPath};
use crate::query::{PageParams, Params};

/// Adds a persona of the user's own. Runs and threads name it by its id.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/personas",
    params(AppPath),
    request_body = NewPersona,
    responses((status = 201, description = "The new persona", body = PersonaView))
)]
pub(super) async fn create_persona(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Json(new, once): Json<NewPersona>,
) -> Result<(StatusCode, Answer<PersonaView>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.create_persona(&principal, &app, new, once).await?)))
}

/// The personas of the app first, then the user's by name.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas",
    params(AppPath, PageParams),
    responses((status = 200, description = "All of them, unless they are large", body = Page<PersonaView>))
)]
pub(super) async fn list_personas(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<PersonaView>>, Problem> {
    Ok(Answer(api.engine.personas(&principal, &app, page.into()).await?))
}

/// One persona.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    responses((status = 200, description = "The persona", body = PersonaView))
)]
pub(super) async fn get_persona(
    State(api): State<Api>,
    principal: Principal,
    PersonaPath { app, persona }: PersonaPath,
) -> Result<Answer<PersonaView>, Problem> {
    Ok(Answer(api.engine.persona(&principal, &app, &persona).await?))
}

/// Changes a persona of the user's own. Its settings are replaced as a whole.
#[utoipa::path(
    patch,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    request_body = PersonaPatch,
    responses((status = 200, description = "The persona as it is now", body = PersonaView))
)]
pub(super) async fn change_persona(
    State(api): State<Api>,
    principal: Principal,
    PersonaPath { app, persona }: PersonaPath,
    Json(patch, once): Json<PersonaPatch>,
) -> Result<Answer<PersonaView>, Problem> {
    Ok(Answer(api.engine.change_persona(&principal, (&app, &persona), patch, once).await?))
}

/// Deletes a persona of the user's own. Threads in which it answers go on without one.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    responses((status = 204, description = "The persona is gone"))
)]
pub(super) async fn delete_persona(
    State(api): State<Api>,
    principal: Principal,
    PersonaPath { app, persona }: PersonaPath,
    Key(once): Key,
) -> Result<StatusCode, Problem> {
    api.engine.delete_persona(&principal, (&app, &persona), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
