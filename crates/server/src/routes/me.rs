//! The user's profile: for every app, or to one: the one that is named, or that the key is for.

use axum::Json as Answer;
use protocol::{ProfilePatch, ProfileView};

use crate::auth::Caller;
use crate::body::Json;
use crate::query::{Params, ProfileParams};
use crate::routes::Reply;

/// Who you are here, and what you said of yourself: to every app, or to one, with `?app=` or a key for that app.
#[utoipa::path(
    get,
    path = "/v1/me",
    params(ProfileParams),
    responses((status = 200, description = "The profile", body = ProfileView))
)]
pub(super) async fn get_profile(
    caller: Caller,
    Params(ProfileParams { app }): Params<ProfileParams>,
) -> Reply<ProfileView> {
    Ok(Answer(caller.service.profile(&caller.principal, app.as_deref()).await?))
}

/// Changes what apps are told of you, or what one is told, with `?app=` or a key for that app. What is absent stays as it is; null removes.
#[utoipa::path(
    patch,
    path = "/v1/me",
    params(ProfileParams),
    request_body = ProfilePatch,
    responses((status = 200, description = "The profile as it is now", body = ProfileView))
)]
pub(super) async fn change_profile(
    caller: Caller,
    Params(ProfileParams { app }): Params<ProfileParams>,
    Json(patch, once): Json<ProfilePatch>,
) -> Reply<ProfileView> {
    Ok(Answer(caller.service.change_profile(&caller.principal, app.as_deref(), patch, once).await?))
}
