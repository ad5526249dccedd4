//! Results of calls that the client has made: the run that waits for them is found by the ids of the calls alone.

use protocol::{ClientCallStatus, ClientCallView, NewCallResult, Principal, RunId, ThreadId};
use serde_json::Value;
use service::{PageQuery, Service};

use crate::Api;
use crate::contracts::AwaitedAnswer;
use crate::error::ApiProblem;

/// Results in one request that are looked at, the newest; no step makes more calls.
const MAX_RESULTS: usize = 32;

/// Open calls of a user that are searched for those that a request leaves out.
const MAX_OPEN_CALLS: u32 = 1_000;

/// A call by its id, and the text that the client's tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentResult {
    pub(super) call: String,
    pub(super) output: String,
}

impl SentResult {
    /// Lists and objects count as such; any other text is a text.
    fn result(&self) -> NewCallResult {
        let parsed = serde_json::from_str(&self.output).ok();
        let value = parsed.filter(|value: &Value| value.is_object() || value.is_array());
        let value = value.unwrap_or_else(|| Value::from(self.output.as_str()));
        NewCallResult { result: Some(Some(value)), error: None }
    }
}

/// A run whose calls get results from this request, or have got them from an earlier one.
pub(super) struct AnsweredRun {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    calls: Vec<(ClientCallView, NewCallResult)>,
}

impl AnsweredRun {
    /// The run of the newest call that is the user's; none if no call of theirs in the app has one of the ids. A thread
    /// that is named must be the run's.
    pub(super) async fn find(
        api: &Api,
        principal: &Principal,
        (app, thread): (&str, Option<ThreadId>),
        results: &[SentResult],
    ) -> Result<Option<Self>, ApiProblem> {
        let mut calls = Vec::new();
        for sent in results.iter().rev().take(MAX_RESULTS).rev() {
            let Ok(id) = sent.call.parse() else { continue };
            let call = match api.service.client_call(principal, id).await {
                Ok(call) => call,
                Err(service::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if call.app_id == app && thread.is_none_or(|thread| thread == call.thread_id) {
                calls.push((call, sent.result()));
            }
        }
        let Some((newest, _)) = calls.last() else { return Ok(None) };
        let (run, thread) = (newest.run_id, newest.thread_id);
        calls.retain(|(call, _)| call.run_id == run);
        Ok(Some(Self { run, thread, calls }))
    }

    /// The results that the answer continues after.
    pub(super) fn awaited_answers(&self) -> Vec<AwaitedAnswer> {
        self.calls.iter().map(|(call, _)| AwaitedAnswer::Result(call.id)).collect()
    }

    /// Gives the results to the run. A call that has a result keeps it. Refused if a call of the run has no result yet.
    pub(super) async fn take(
        self,
        api: &Api,
        principal: &Principal,
        field: &'static str,
    ) -> Result<(), ApiProblem> {
        let is_open = |call: &ClientCallView| call.status == ClientCallStatus::Open;
        if !self.calls.iter().any(|(call, _)| is_open(call)) {
            return Ok(());
        }
        self.check_complete(api, principal, field).await?;
        for (call, result) in self.calls.iter().filter(|(call, _)| is_open(call)) {
            let checked = Service::check_call_result(call, result);
            checked.map_err(|error| ApiProblem::from(error).rename_field(|_| Some(field)))?;
        }
        for (call, result) in self.calls.into_iter().filter(|(call, _)| is_open(call)) {
            match api.service.answer_client_call(principal, call.id, result, None).await {
                Ok(_) => {}
                // Another request of the client gave the result first.
                Err(service::Error::Conflict { code: "call_answered" | "call_closed", .. }) => {}
                Err(error) => return Err(ApiProblem::from(error).rename_field(|_| Some(field))),
            }
        }
        Ok(())
    }

    async fn check_complete(
        &self,
        api: &Api,
        principal: &Principal,
        field: &'static str,
    ) -> Result<(), ApiProblem> {
        let Some((first, _)) = self.calls.first() else { return Ok(()) };
        let page = PageQuery { limit: Some(MAX_OPEN_CALLS), cursor: None };
        let open = api.service.client_calls(principal, &first.app_id, true, page).await?;
        let is_given = |id| self.calls.iter().any(|(call, _)| call.id == id);
        let missing = open.data.iter().filter(|call| call.run_id == self.run && !is_given(call.id));
        let missing: Vec<String> = missing.map(|call| call.id.to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message =
            format!("results are missing for the calls {}; send all of them together", missing.join(", "));
        Err(ApiProblem::invalid(field, message))
    }
}
