//! What model calls have used, and which models there are.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{ModelView, Page, Principal, UsageReport};

use crate::Api;
use crate::error::Problem;
use crate::query::{Period, PeriodParams};

/// What the user has used, by day (UTC), app and model, newest first.
#[utoipa::path(
    get,
    path = "/v1/usage",
    tag = "usage",
    operation_id = "get_usage",
    params(PeriodParams),
    responses((status = 200, description = "The user's usage", body = UsageReport))
)]
pub(super) async fn report(
    State(api): State<Api>,
    principal: Principal,
    Period(period): Period,
) -> Result<Answer<UsageReport>, Problem> {
    Ok(Answer(api.service.usage_report(&principal, period.from.as_deref(), period.to.as_deref()).await?))
}

/// The models that a request may name, by name.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "usage",
    operation_id = "list_models",
    responses((status = 200, description = "All models", body = Page<ModelView>))
)]
pub(super) async fn models(State(api): State<Api>, _: Principal) -> Answer<Page<ModelView>> {
    Answer(Page { data: api.service.models(), next: None })
}
