//! Decisions of the user and results of calls that a run waits for, as clients of other contracts send them.

use std::collections::HashSet;

use protocol::{
    CallId, ClientCallStatus, ClientCallView, Decision, NewCallResult, Principal, ProposalId, ProposalStatus,
    ProposalView, RunId, ThreadId,
};

use service::Service;

use crate::Api;
use crate::contracts::AwaitedAnswer;
use crate::error::{ApiProblem, ProblemCode};

/// Decisions in one request; no step makes more calls.
pub(super) const MAX_APPROVALS: usize = 32;

/// Results in one request that are looked at, the newest; no step makes more calls.
pub(super) const MAX_RESULTS: usize = 32;

/// The decisions and results of one request.
#[derive(Debug, Default)]
pub(super) struct GivenAnswers {
    pub(super) approvals: Vec<Approval>,
    /// Results of calls that the client has made. Results of calls of earlier steps may be among them, too.
    pub(super) results: Vec<(CallId, NewCallResult)>,
}

/// The user's decision on a proposal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Approval {
    pub(super) id: ProposalId,
    pub(super) approved: bool,
}

/// A run that waits, or has waited, for the decisions and results of a request.
pub(super) struct WaitingRun {
    pub(super) run: RunId,
    approvals: Vec<(Approval, ProposalView)>,
    /// Results of calls that are open, or else the newest one that is not: the client may send it again.
    results: Vec<(ClientCallView, NewCallResult)>,
}

impl WaitingRun {
    pub(super) async fn find(
        api: &Api,
        principal: &Principal,
        thread: ThreadId,
        given: GivenAnswers,
    ) -> Result<Self, ApiProblem> {
        let mut run = None;
        let mut approvals = Vec::new();
        for approval in given.approvals {
            let proposal = api.service.proposal(principal, approval.id).await?;
            let of_run = proposal.run_id.filter(|_| proposal.thread_id == Some(thread));
            let of_run = of_run.filter(|of_run| run.is_none_or(|run| run == *of_run));
            run = Some(of_run.ok_or(service::Error::NotFound { what: "proposal" })?);
            approvals.push((approval, proposal));
        }
        let mut results = Vec::new();
        for (id, result) in given.results {
            let call = match api.service.client_call(principal, id).await {
                Ok(call) => call,
                // The call was not opened, because its arguments did not fit; or it belongs to another user.
                Err(service::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if call.thread_id != thread {
                return Err(service::Error::NotFound { what: "call" }.into());
            }
            results.push((call, result));
        }
        let newest = results.last().map(|(call, _)| call.id).filter(|_| approvals.is_empty());
        if results.iter().any(|(call, _)| call.status == ClientCallStatus::Open) {
            results.retain(|(call, _)| call.status == ClientCallStatus::Open);
        } else {
            results.retain(|(call, _)| Some(call.id) == newest);
        }
        let run = run.or_else(|| results.last().map(|(call, _)| call.run_id));
        let run = run.ok_or(service::Error::NotFound { what: "call" })?;
        results.retain(|(call, _)| call.run_id == run);
        Ok(Self { run, approvals, results })
    }

    pub(super) fn awaited_answers(&self) -> Vec<AwaitedAnswer> {
        let decisions = self.approvals.iter().map(|(approval, _)| AwaitedAnswer::Decision(approval.id));
        decisions.chain(self.results.iter().map(|(call, _)| AwaitedAnswer::Result(call.id))).collect()
    }

    /// Takes all decisions and results, or none: each is checked before the first is taken.
    pub(super) async fn take(mut self, api: &Api, principal: &Principal) -> Result<(), ApiProblem> {
        for (call, result) in self.results.iter().filter(|(call, _)| call.status == ClientCallStatus::Open) {
            Service::check_call_result(call, result)?;
        }
        let ids = self.approvals.iter().map(|(approval, _)| approval.id);
        if ids.collect::<HashSet<_>>().len() < self.approvals.len() {
            let problem = "one call is decided twice; send one decision for each";
            return Err(ApiProblem::new(ProblemCode::InvalidRequest, problem));
        }
        // A decision about a call that is decided already can be refused; one about an open call is taken.
        self.approvals.sort_by_key(|(_, proposal)| proposal.status == ProposalStatus::Open);
        for (approval, proposal) in &self.approvals {
            decide(api, principal, approval, proposal).await?;
        }
        for (call, result) in self.results {
            // A call that has its result keeps it.
            if call.status == ClientCallStatus::Open {
                api.service.answer_client_call(principal, call.id, result, None).await?;
            }
        }
        Ok(())
    }
}

/// Decides a proposal. A decision that was made before stays as it is, because a client may send it again. The
/// rejection of a proposal that is closed without a call changes nothing.
async fn decide(
    api: &Api,
    principal: &Principal,
    approval: &Approval,
    proposal: &ProposalView,
) -> Result<(), ApiProblem> {
    let is_settled = match proposal.status {
        ProposalStatus::Open => false,
        ProposalStatus::Decided(Decision::Confirmed) => approval.approved,
        ProposalStatus::Decided(
            Decision::Rejected | Decision::Expired | Decision::Superseded | Decision::Withdrawn,
        ) => !approval.approved,
    };
    if is_settled {
        return Ok(());
    }
    if approval.approved {
        api.service.confirm_proposal(principal, approval.id, None).await?;
    } else {
        api.service.reject_proposal(principal, approval.id, None).await?;
    }
    Ok(())
}
