//! What the user says of themselves: to every app, or with a key for one app to that one.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Principal, ProfilePatch, ProfileView};

use crate::Api;
use crate::body::Json;
use crate::error::Problem;

/// Who you are here, and what you said of yourself: to every app, or with a key for one app to that one.
#[utoipa::path(
    get,
    path = "/v1/me",
    tag = "me",
    operation_id = "get_profile",
    responses((status = 200, description = "The profile", body = ProfileView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
) -> Result<Answer<ProfileView>, Problem> {
    Ok(Answer(api.engine.profile(&principal).await?))
}

/// Changes what apps are told of you, or with a key for one app what that one is told. What is absent stays as it is; null removes.
#[utoipa::path(
    patch,
    path = "/v1/me",
    tag = "me",
    operation_id = "change_profile",
    request_body = ProfilePatch,
    responses((status = 200, description = "The profile as it is now", body = ProfileView))
)]
pub(super) async fn change(
    State(api): State<Api>,
    principal: Principal,
    Json(patch, once): Json<ProfilePatch>,
) -> Result<Answer<ProfileView>, Problem> {
    Ok(Answer(api.engine.change_profile(&principal, patch, once).await?))
}
