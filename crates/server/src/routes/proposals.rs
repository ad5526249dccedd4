//! Routes of proposals: list them, read one, confirm or reject it.

use axum::Json as Answer;
use protocol::{Page, ProposalView};

use crate::auth::Caller;
use crate::idempotency::IdempotencyKey;
use crate::path::{AppPath, ProposalPath};
use crate::query::{OpenParams, PageParams, Params};
use crate::routes::JsonReply;

/// Lists the proposals for the user in an app, newest first.
#[utoipa::path(
    get,
    path = "/v1/apps/{app}/proposals",
    params(AppPath, OpenParams, PageParams),
    responses((status = 200, description = "A page of proposals", body = Page<ProposalView>))
)]
pub(super) async fn list_proposals(
    caller: Caller,
    AppPath { app }: AppPath,
    Params(OpenParams { open }): Params<OpenParams>,
    Params(page): Params<PageParams>,
) -> JsonReply<Page<ProposalView>> {
    Ok(Answer(caller.service.proposals(&caller.principal, &app, open.unwrap_or(false), page.into()).await?))
}

/// Returns a proposal.
#[utoipa::path(
    get,
    path = "/v1/proposals/{proposal}",
    params(ProposalPath),
    responses((status = 200, description = "The proposal", body = ProposalView))
)]
pub(super) async fn get_proposal(
    caller: Caller,
    ProposalPath { proposal }: ProposalPath,
) -> JsonReply<ProposalView> {
    Ok(Answer(caller.service.proposal(&caller.principal, proposal).await?))
}

/// Confirms a proposal. The call is made once, exactly as it was shown.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/confirm",
    params(ProposalPath),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn confirm_proposal(
    caller: Caller,
    ProposalPath { proposal }: ProposalPath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<ProposalView> {
    Ok(Answer(caller.service.confirm_proposal(&caller.principal, proposal, once).await?))
}

/// Rejects a proposal. The call is not made.
#[utoipa::path(
    post,
    path = "/v1/proposals/{proposal}/reject",
    params(ProposalPath),
    responses((status = 200, description = "The proposal as it is now", body = ProposalView))
)]
pub(super) async fn reject_proposal(
    caller: Caller,
    ProposalPath { proposal }: ProposalPath,
    IdempotencyKey(once): IdempotencyKey,
) -> JsonReply<ProposalView> {
    Ok(Answer(caller.service.reject_proposal(&caller.principal, proposal, once).await?))
}
