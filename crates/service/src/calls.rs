//! Calls that the client makes: listed, shown and answered.

use protocol::{CallId, ClientCallView, NewCallResult, Page, Principal};
use serde_json::Value;
use store::{ClientCallRow, IdempotencyClaim};
use tools::{CallOutcome, ClientAnswer, ClientResultRefusal, client_outcome};

use crate::checks::{self, PageQuery};
use crate::{Error, Service, views};

impl Service {
    /// Newest first; only the open ones if so asked.
    pub async fn client_calls(
        &self,
        principal: &Principal,
        app: &str,
        open: bool,
        page: PageQuery,
    ) -> Result<Page<ClientCallView>, Error> {
        let (scope, _) = self.share_of(principal, app)?;
        let page = self.store().client_calls(&scope, open, page.by_time()?).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), views::client_call))
    }

    pub async fn client_call(&self, principal: &Principal, id: CallId) -> Result<ClientCallView, Error> {
        Ok(views::client_call(self.client_call_row(principal, id).await?))
    }

    /// Takes the result of a call, once. Its run goes on. A result that is refused leaves the call open.
    pub async fn answer_client_call(
        &self,
        principal: &Principal,
        id: CallId,
        answer: NewCallResult,
        once: Option<IdempotencyClaim>,
    ) -> Result<ClientCallView, Error> {
        let row = self.client_call_row(principal, id).await?;
        let outcome = outcome_of(&row.tool, &row.input, answer)?;
        Ok(views::client_call(self.agent.answer_call(principal, id, outcome, once).await?))
    }

    /// Whether a result would be taken, as far as its form is concerned. For contracts that send several at once: all are
    /// checked before any is taken.
    pub fn check_call_result(call: &ClientCallView, answer: &NewCallResult) -> Result<(), Error> {
        outcome_of(&call.name, &call.input, answer.clone()).map(drop)
    }

    async fn client_call_row(&self, principal: &Principal, id: CallId) -> Result<ClientCallRow, Error> {
        let row = self.store().client_call(principal, id).await?;
        if principal.may_use(&row.scope.app) { Ok(row) } else { Err(Error::NotFound { what: "call" }) }
    }
}

/// Returns the outcome that a result of the client is for the run.
fn outcome_of(tool: &str, input: &Value, answer: NewCallResult) -> Result<CallOutcome, Error> {
    let answer = match answer {
        NewCallResult { result: Some(result), error: None } => {
            ClientAnswer::Result(result.unwrap_or(Value::Null))
        }
        NewCallResult { result: None, error: Some(error) } => ClientAnswer::Error(error),
        NewCallResult { result: Some(_), error: Some(_) } => {
            return Err(Error::invalid(
                "error",
                "says why there is no result; send `result` or `error`, not both",
            ));
        }
        NewCallResult { result: None, error: None } => {
            return Err(Error::invalid("result", "is required, unless `error` says why there is none"));
        }
    };
    client_outcome(tool, input, answer).map_err(|refusal| match refusal {
        ClientResultRefusal::TooLarge { field, limit } => Error::TooLarge { field, limit },
        ClientResultRefusal::Invalid { field, message } => Error::invalid(field, message),
    })
}
