//! The user's profile: for every app, or to one: the one that is named, or that the key is for.

use axum::Json as Answer;
use protocol::{ProfilePatch, ProfileView};

use crate::auth::Caller;
use crate::body::Json;
use crate::query::{Params, ProfileParams};
use crate::routes::JsonReply;

/// Returns the user and their profile: the common profile, or the profile in one app, with `?app=` or a key for that
/// app.
#[utoipa::path(
    get,
    path = "/v1/me",
    params(ProfileParams),
    responses((status = 200, description = "The profile", body = ProfileView))
)]
pub(super) async fn get_profile(
    caller: Caller,
    Params(ProfileParams { app }): Params<ProfileParams>,
) -> JsonReply<ProfileView> {
    Ok(Answer(caller.service.profile(&caller.principal, app.as_deref()).await?))
}

/// Changes the common profile of the user, or the profile in one app, with `?app=` or a key for that app. Absent fields
/// stay as they are; null removes a field.
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
) -> JsonReply<ProfileView> {
    Ok(Answer(caller.service.change_profile(&caller.principal, app.as_deref(), patch, once).await?))
}
