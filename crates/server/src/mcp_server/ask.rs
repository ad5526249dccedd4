//! The tool `ask`: a message, its run from beginning to end, and the approvals on the way. The run does not depend on
//! the call: a client that goes away can read it later.

use protocol::{Principal, ProposalId, ProposalView, RunId, RunResult, RunStatus};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use rmcp::service::RequestContext;

use super::McpCaller;
use super::approvals::{AskingWay, ElicitedDecision, ask_client, question, record_decision};
use super::calls::{McpMessage, submit};
use super::progress::{RunProgress, until_decided};
use super::report::run_report;
use crate::Api;
use crate::error::{ApiProblem, ProblemCode};
use crate::event_stream::access_end;

/// Times that one call asks for approvals. More are left to the tool `answer`.
const MAX_ROUNDS: usize = 32;

/// Answers that one repeated call may bring.
const MAX_ANSWERS: usize = 64;

const STOPPING: &str =
    "the server is stopping; the run continues after the restart: read the answer with the tool get";

/// The outcome of the waiting for a run.
enum Waited {
    /// The run has ended, or waits for the user or the client.
    Parked(Box<RunResult>),
    /// The client has cancelled its call.
    CallCancelled,
    /// The server stops.
    Stopping,
    /// The key, the JWT or the session is no longer good.
    AccessOver,
}

/// A call of `ask`: a new message, or the same one again with the answers of the user.
pub(super) enum AskCall {
    New(McpMessage),
    Repeated { state: String, answers: InputResponses },
}

/// A call with all that it needs to be answered.
pub(super) struct AskedRun<'a> {
    pub(super) api: &'a Api,
    pub(super) caller: &'a McpCaller,
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl AskedRun<'_> {
    pub(super) async fn answer(&self, call: AskCall) -> Result<CallToolResponse, ApiProblem> {
        // Held to the end, and taken before anything is stored.
        let _permit = self.api.may_ask(self.principal())?;
        let mut progress = RunProgress::of(self.context);
        let run = match call {
            AskCall::New(message) => {
                let run = submit(self.api, self.caller, message).await?.run;
                progress.tell(self.context, &format!("the run {run} has started")).await;
                run
            }
            AskCall::Repeated { state, answers } => self.take_answers(&state, answers).await?,
        };
        let way = AskingWay::of(self.context, self.caller.in_session);
        for _ in 0..MAX_ROUNDS {
            let result = match self.wait(run, &mut progress).await? {
                Waited::Parked(result) => *result,
                Waited::CallCancelled => return self.show(run, None).await,
                Waited::Stopping => return self.show(run, Some(STOPPING)).await,
                Waited::AccessOver => return Err(access_over()),
            };
            // The user has decided in another client meanwhile, and the run continues.
            if !result.status.is_terminal() && result.proposals.is_empty() && result.client_calls.is_empty() {
                continue;
            }
            let is_asking = result.status == RunStatus::Waiting && !result.proposals.is_empty();
            match way {
                AskingWay::Repeat if is_asking => return Ok(input_required(run, &result.proposals).into()),
                AskingWay::Request if is_asking => {
                    if !self.ask_user(run, &result.proposals).await? {
                        return self.show(run, None).await;
                    }
                }
                AskingWay::Repeat | AskingWay::Request | AskingWay::None => {
                    return Ok(run_report(result, None).into());
                }
            }
        }
        self.show(run, None).await
    }

    fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    /// The run as it is now.
    async fn show(&self, run: RunId, said: Option<&str>) -> Result<CallToolResponse, ApiProblem> {
        let result = self.api.service.result_so_far(self.principal(), run).await?;
        Ok(run_report(result, said).into())
    }

    async fn wait(&self, run: RunId, progress: &mut RunProgress) -> Result<Waited, ApiProblem> {
        let (service, access) = (&self.api.service, &self.caller.access);
        Ok(tokio::select! {
            biased;
            () = self.context.ct.cancelled() => Waited::CallCancelled,
            () = access_end(access) => {
                if self.api.shutdown.streams.is_cancelled() { Waited::Stopping } else { Waited::AccessOver }
            }
            result = service.result(self.principal(), run) => Waited::Parked(Box::new(result?)),
            () = progress.follow((service, self.caller), run, self.context) => Waited::CallCancelled,
        })
    }

    /// Asks the user about each call, on the stream of the request. False if one stays open.
    async fn ask_user(&self, run: RunId, proposals: &[ProposalView]) -> Result<bool, ApiProblem> {
        let service = &self.api.service;
        for proposal in proposals {
            let decision = tokio::select! {
                biased;
                () = self.context.ct.cancelled() => ElicitedDecision::Leave,
                () = access_end(&self.caller.access) => ElicitedDecision::Leave,
                () = until_decided((service, self.caller), run, proposal.id) => continue,
                decision = ask_client(self.context, proposal) => decision,
            };
            if decision == ElicitedDecision::Leave {
                return Ok(false);
            }
            record_decision(service, self.principal(), proposal.id, decision).await?;
        }
        Ok(true)
    }

    /// Takes the answers of a repeated call. All are looked at before any is taken, so that a refusal has no effect.
    /// The state is the run's id and nothing more: whose run it is, is checked as for any other request.
    async fn take_answers(&self, state: &str, answers: InputResponses) -> Result<RunId, ApiProblem> {
        let invalid = |message: &str| ApiProblem::invalid("requestState", message);
        let run: RunId = state.parse().map_err(|_| invalid("is not one that this server has given"))?;
        let service = &self.api.service;
        service.run(self.principal(), run).await?;
        if answers.len() > MAX_ANSWERS {
            return Err(ApiProblem::invalid("inputResponses", "has too many answers"));
        }
        let mut decisions = Vec::new();
        for (key, answer) in answers {
            let field =
                || ApiProblem::invalid("inputResponses", "has an answer to a question that was not asked");
            let id: ProposalId = key.parse().map_err(|_| field())?;
            let proposal = service.proposal(self.principal(), id).await?;
            if proposal.run_id != Some(run) {
                return Err(field());
            }
            let answer: ElicitResult = serde_json::from_value(answer).map_err(|_| {
                ApiProblem::invalid("inputResponses", "has an answer that is not an ElicitResult")
            })?;
            decisions.push((id, ElicitedDecision::from(&answer)));
        }
        for (id, decision) in decisions {
            record_decision(service, self.principal(), id, decision).await?;
        }
        Ok(run)
    }
}

pub(super) fn access_over() -> ApiProblem {
    ApiProblem::new(ProblemCode::Unauthorized, "the key, the JWT or the session is no longer good")
}

/// The questions of a run, for a client that repeats its call with the answers.
fn input_required(run: RunId, proposals: &[ProposalView]) -> InputRequiredResult {
    let asked = proposals.iter().filter_map(|proposal| {
        Some((proposal.id.to_string(), InputRequest::Elicitation(question(proposal)?)))
    });
    let requests: InputRequests = asked.take(MAX_ANSWERS).collect();
    InputRequiredResult::new(Some(requests), Some(run.to_string()))
}
