//! Personas: those of an app's folder to read; those of the user to add, change and delete.

use axum::Json as Answer;
use axum::http::StatusCode;
use protocol::{NewPersona, Page, PersonaPatch, PersonaView};

use crate::auth::Caller;
use crate::body::Json;
use crate::error::ApiProblem;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, PersonaPath};
use crate::query::{PageParams, Params};
use crate::routes::{Created, JsonReply, created};

/// Adds a persona of the user. Runs and threads name it by its id.
#[utoipa::path(
    post,
    path = "/v1/apps/{app}/personas",
    params(AppPath),
    request_body = NewPersona,
    responses((status = 201, description = "The new persona", body = PersonaView))
)]
pub(super) async fn create_persona(
    caller: Caller,
    AppPath { app }: AppPath,
    Json(new, once): Json<NewPersona>,
) -> Created<PersonaView> {
    Ok(created(caller.service.create_persona(&caller.principal, &app, new, once).await?))
}

/// Lists the personas of the app, and then those of the user, by name.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas",
    params(AppPath, PageParams),
    responses((status = 200, description = "A page; short lists are complete", body = Page<PersonaView>))
)]
pub(super) async fn list_personas(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<PersonaView>> {
    Ok(Answer(caller.service.personas(&caller.principal, &app, page.into()).await?))
}

/// Returns a persona.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    responses((status = 200, description = "The persona", body = PersonaView))
)]
pub(super) async fn get_persona(
    caller: Caller,
    PersonaPath { app, persona }: PersonaPath,
) -> JsonReply<PersonaView> {
    Ok(Answer(caller.service.persona(&caller.principal, &app, &persona).await?))
}

/// Changes a persona of the user. Its settings are replaced as a whole.
#[utoipa::path(
    patch,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    request_body = PersonaPatch,
    responses((status = 200, description = "The persona as it is now", body = PersonaView))
)]
pub(super) async fn change_persona(
    caller: Caller,
    PersonaPath { app, persona }: PersonaPath,
    Json(patch, once): Json<PersonaPatch>,
) -> JsonReply<PersonaView> {
    Ok(Answer(caller.service.change_persona(&caller.principal, (&app, &persona), patch, once).await?))
}

/// Deletes a persona of the user. Its threads continue without a persona.
#[utoipa::path(
    delete,
    path = "/v1/apps/{app}/personas/{persona}",
    params(PersonaPath),
    responses((status = 204, description = "The persona is deleted"))
)]
pub(super) async fn delete_persona(
    caller: Caller,
    PersonaPath { app, persona }: PersonaPath,
    IdempotencyKey(once): IdempotencyKey,
) -> Result<StatusCode, ApiProblem> {
    caller.service.delete_persona(&caller.principal, (&app, &persona), once).await?;
    Ok(StatusCode::NO_CONTENT)
}
