//! Proposals as clients ask for them: listed, shown, confirmed and rejected.

use protocol::{Decision, Page, Principal, ProposalId, ProposalView};
use store::{IdempotencyClaim, ProposalRow};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

impl Service {
    /// Newest first; only the open ones if so asked.
    pub async fn proposals(
        &self,
        principal: &Principal,
        app: &str,
        open: bool,
        page: PageQuery,
    ) -> Result<Page<ProposalView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let page = self.store().proposals(&scope, open, page.by_time()?).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), views::proposal))
    }

    pub async fn proposal(&self, principal: &Principal, id: ProposalId) -> Result<ProposalView, Error> {
        Ok(views::proposal(self.proposal_row(principal, id).await?))
    }

    /// Confirms a proposal for its user. The call is made once.
    pub async fn confirm_proposal(
        &self,
        principal: &Principal,
        id: ProposalId,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProposalView, Error> {
        let row = self.proposal_row(principal, id).await?;
        if row.run.is_none() && row.decision.is_none() {
            self.served_app(principal, row.scope.app.as_str())?; // an approval is not used up while the app is missing
        }
        Ok(views::proposal(self.agent.decide_proposal(principal, row, Decision::Confirmed, once).await?))
    }

    /// Rejects a proposal for its user.
    pub async fn reject_proposal(
        &self,
        principal: &Principal,
        id: ProposalId,
        once: Option<IdempotencyClaim>,
    ) -> Result<ProposalView, Error> {
        let row = self.proposal_row(principal, id).await?;
        Ok(views::proposal(self.agent.decide_proposal(principal, row, Decision::Rejected, once).await?))
    }

    async fn proposal_row(&self, principal: &Principal, id: ProposalId) -> Result<ProposalRow, Error> {
        let row = self.store().proposal(principal, id).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "proposal" }) }
    }
}
