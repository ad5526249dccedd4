//! Calls that wait for the user's yes: list them, read one, say yes or no.

use axum::Json as Answer;
use axum::extract::State;
use protocol::{Page, Principal, ProposalId, ProposalView};

use crate::Api;
use crate::error::Problem;
use crate::once::Key;
use crate::query::{InPath, OnlyOpen, OpenParams, PageParams, Paging};

/// What was proposed to the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/proposals",
    tag = "proposals",
    operation_id = "list_proposals",
    params(("app" = String, Path, description = "The app's name"), OpenParams, PageParams),
    responses((status = 200, description = "A page of proposals", body = Page<ProposalView>))
)]
pub(super) async fn list(
    State(api): State<Api>,
    principal: Principal,
    InPath(app): InPath<String>,
    OnlyOpen(open): OnlyOpen,
    Paging(page): Paging,
) -> Result<Answer<Page<ProposalView>>, Problem> {
    Ok(Answer(api.service.proposals(&principal, &app, open, page).await?))
}

/// One proposal.
#[utoipa::path(
    get,
    path = "/v1/proposals/{proposal}",
    tag = "proposals",
    operation_id = "get_proposal",
    params(("proposal" = ProposalId, Path)),
    responses((status = 200, description = "The proposal", body = ProposalView))
)]
pub(super) async fn show(
    State(api): State<Api>,
    principal: Principal,
    InPath(proposal): InPath<ProposalId>,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.service.proposal(&principal, proposal).await?))
}

/// Says yes: the call is made, once, exactly as it was shown.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/confirm",
    tag = "proposals",
    operation_id = "confirm_proposal",
    params(("proposal" = ProposalId, Path)),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn confirm(
    State(api): State<Api>,
    principal: Principal,
    InPath(proposal): InPath<ProposalId>,
    Key(once): Key,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.service.confirm_proposal(&principal, proposal, once).await?))
}

/// Says no: the call is not made.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/reject",
    tag = "proposals",
    operation_id = "reject_proposal",
    params(("proposal" = ProposalId, Path)),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn reject(
    State(api): State<Api>,
    principal: Principal,
    InPath(proposal): InPath<ProposalId>,
    Key(once): Key,
) -> Result<Answer<ProposalView>, Problem> {
    Ok(Answer(api.service.reject_proposal(&principal, proposal, once).await?))
}
