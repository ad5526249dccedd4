//! Calls that wait for the user's yes: list them, read one, say yes or no.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Page, Principal, ProposalView};

use crate::Api;
use crate::error::Problem;
use crate::idempotency::Key;
use crate::path::{AppPath, ProposalPath};
use crate::query::{OpenParams, PageParams, Params};

/// What was proposed to the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/proposals",
    params(AppPath, OpenParams, PageParams),
    responses((status = 200, description = "A page of proposals", body = Page<ProposalView>))
)]
pub(super) async fn list_proposals(
    State(api): State<Api>,
    principal: Principal,
    AppPath { app }: AppPath,
    Params(OpenParams { open }): Params<OpenParams>,
    Params(page): Params<PageParams>,
) -> Result<Answer<Page<ProposalView>>, Problem> {
    Ok(Answer(api.engine.proposals(&principal, &app, open.unwrap_or(false), page.into()).await?))
}

/// One proposal.
#[utoipa::path(
    get,
    path = "/v1/proposals/{proposal}",
    params(ProposalPath),
    responses((status = 200, description = "The proposal", body = ProposalView))
)]
pub(super) async fn get_proposal(
    State(api): State<Api>,
    principal: Principal,
    ProposalPath { proposal }: ProposalPath,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.engine.proposal(&principal, proposal).await?))
}

/// Says yes: the call is made, once, exactly as it was shown.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/confirm",
    params(ProposalPath),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn confirm_proposal(
    State(api): State<Api>,
    principal: Principal,
    ProposalPath { proposal }: ProposalPath,
    Key(once): Key,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.engine.confirm_proposal(&principal, proposal, once).await?))
}

/// Says no: the call is not made.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/reject",
    params(ProposalPath),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn reject_proposal(
    State(api): State<Api>,
    principal: Principal,
    ProposalPath { proposal }: ProposalPath,
    Key(once): Key,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.engine.reject_proposal(&principal, proposal, once).await?))
}
