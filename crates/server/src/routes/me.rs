//! What the user says of themselves: to every app, or to one: the one that is named, or that the key is for.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Principal, ProfilePatch, ProfileView};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;
use crate::query::{ProfileParams, ToldTo};

/// Who you are here, and what you said of yourself: to every app, or to one, with `?app=` or a key for that app.
#[utoipa::path(
    get,
    path = "/v1/me",
    tag = "me",
    operation_id = "get_profile",
    params(ProfileParams),
    responses((status = 200, description = "The profile", body = ProfileView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    ToldTo(app): ToldTo,
) -> Result<Answer<ProfileView>, Problem> {
    Ok(Answer(api.service.profile(&principal, app.as_deref()).await?))
}

/// Changes what apps are told of you, or what one is told, with `?app=` or a key for that app. What is absent stays as it is; null removes.
#[utoipa::path(
    patch,
    path = "/v1/me",
    tag = "me",
    operation_id = "change_profile",
    params(ProfileParams),
    request_body = ProfilePatch,
    responses((status = 200, description = "The profile as it is now", body = ProfileView))
)]
pub(super) async fn change(
    State(api): State<Api>,
    principal: Principal,
    ToldTo(app): ToldTo,
    Json(patch, once): Json<ProfilePatch>,
) -> Result<Answer<ProfileView>, Problem> {
    Ok(Answer(api.service.change_profile(&principal, app.as_deref(), patch, once).await?))
}
