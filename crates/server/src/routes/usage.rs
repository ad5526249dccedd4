//! The usage of model calls, and the models there are.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{ModelView, Page, Principal, UsageReport};

use crate::Api;
use crate::auth::Caller;
use crate::query::{Params, PeriodParams};
use crate::routes::JsonReply;

/// Lists the usage of the user by day (UTC), app and model, newest first.
#[utoipa::path(
    get,
    path = "/v1/usage",
    params(PeriodParams),
    responses((status = 200, description = "The user's usage", body = UsageReport))
)]
pub(super) async fn get_usage(
    caller: Caller,
    Params(period): Params<PeriodParams>,
) -> JsonReply<UsageReport> {
    Ok(Answer(
        caller.service.usage_report(&caller.principal, period.from.as_deref(), period.to.as_deref()).await?,
    ))
}

/// Lists the models that a request can name, by name.
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, description = "All models", body = Page<ModelView>))
)]
pub(super) async fn list_models(State(api): State<Api>, _: Principal) -> Answer<Page<ModelView>> {
    Answer(Page { data: api.service.models(), next: None })
}
