//! Calls that the client makes: who can answer one, and what its result is without an answer.

use protocol::{ClientCallStatus, Effect, ToolComplete, ToolStatus};
use serde_json::{Value, json};

use crate::{CallAnswer, ClientCallRow, Error};

/// Whether a call can still be answered at a moment, in milliseconds since 1970. A call whose time is over is closed by
/// the sweep, which tells its run.
pub fn check_answerable(row: &ClientCallRow, at: i64) -> Result<(), Error> {
    match row.status {
        ClientCallStatus::Open if row.expires_at.as_millisecond() > at => Ok(()),
        ClientCallStatus::Open => Err(Error::CallClosed(ClientCallStatus::Expired)),
        closed @ (ClientCallStatus::Answered
        | ClientCallStatus::Expired
        | ClientCallStatus::Superseded
        | ClientCallStatus::Cancelled) => Err(Error::CallClosed(closed)),
    }
}

/// The result of a call that the client has answered. `by` names the actor, if one acted for the user.
pub fn result_of_answer(
    row: &ClientCallRow,
    answer: CallAnswer,
    by: Option<String>,
    at: i64,
) -> ToolComplete {
    let CallAnswer { status, output, outside, suspicious } = answer;
    let took = at.saturating_sub(row.created_at.as_millisecond());
    ToolComplete {
        call_id: row.id,
        name: row.tool.clone(),
        status,
        output,
        duration_ms: u64::try_from(took).unwrap_or(0),
        outside,
        suspicious,
        by,
    }
}

/// The result of a call that the client will not answer any more.
pub fn result_without_answer(row: &ClientCallRow, why: ClientCallStatus) -> ToolComplete {
    let reason = if why == ClientCallStatus::Superseded {
        "the user sent another message before the client sent a result"
    } else {
        "the client sent no result in time"
    };
    let doubt = match row.effect {
        Effect::Read => "",
        Effect::Idempotent | Effect::Reversible | Effect::Irreversible => {
            "; it is not known whether the client did it"
        }
    };
    ToolComplete {
        call_id: row.id,
        name: row.tool.clone(),
        status: ToolStatus::Denied,
        output: json!({ "error": why.name(), "message": format!("{reason}{doubt}") }),
        duration_ms: 0,
        outside: false,
        suspicious: false,
        by: None,
    }
}

/// Returns the status of a call of the client that has this result.
pub fn closed_as(result: &ToolComplete) -> ClientCallStatus {
    match result.status {
        ToolStatus::Complete | ToolStatus::Failed => ClientCallStatus::Answered,
        ToolStatus::Denied if is_superseded(result) => ClientCallStatus::Superseded,
        ToolStatus::Denied => ClientCallStatus::Expired,
        ToolStatus::Cancelled | ToolStatus::Unknown => ClientCallStatus::Cancelled,
    }
}

fn is_superseded(result: &ToolComplete) -> bool {
    let error = result.output.get("error").and_then(Value::as_str);
    error == Some(ClientCallStatus::Superseded.name())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{AppId, CallId, RunId, Scope, ThreadId, UserId};
    use uuid::Uuid;

    use super::*;

    fn call(status: ClientCallStatus, effect: Effect) -> ClientCallRow {
        let number = Uuid::from_u128(7);
        ClientCallRow {
            id: CallId::new(number),
            scope: Scope { app: AppId::new("app"), user: UserId::new("alice") },
            thread: ThreadId::new(number),
            run: RunId::new(number),
            tool: "locate".into(),
            input: json!({}),
            effect,
            status,
            expires_at: Timestamp::from_millisecond(1_000).unwrap(),
            created_at: Timestamp::from_millisecond(100).unwrap(),
            answered_at: None,
        }
    }

    #[test]
    fn a_call_is_answered_once_and_in_time() {
        let open = call(ClientCallStatus::Open, Effect::Read);
        assert!(check_answerable(&open, 999).is_ok());
        let expired = check_answerable(&open, 1_000);
        assert!(matches!(expired, Err(Error::CallClosed(ClientCallStatus::Expired))), "{expired:?}");
        let closed = check_answerable(&call(ClientCallStatus::Answered, Effect::Read), 0);
        assert!(matches!(closed, Err(Error::CallClosed(ClientCallStatus::Answered))), "{closed:?}");
    }

    #[test]
    fn a_result_says_what_became_of_the_call() {
        let open = call(ClientCallStatus::Open, Effect::Read);
        for why in [ClientCallStatus::Expired, ClientCallStatus::Superseded] {
            assert_eq!(closed_as(&result_without_answer(&open, why)), why);
        }
        let answer = |status| CallAnswer { status, output: json!(1), outside: true, suspicious: false };
        let given = |status| result_of_answer(&open, answer(status), None, 350);
        assert_eq!(given(ToolStatus::Complete).duration_ms, 250);
        for (status, closed) in [
            (ToolStatus::Complete, ClientCallStatus::Answered),
            (ToolStatus::Failed, ClientCallStatus::Answered),
            (ToolStatus::Cancelled, ClientCallStatus::Cancelled),
            (ToolStatus::Unknown, ClientCallStatus::Cancelled),
        ] {
            assert_eq!(closed_as(&given(status)), closed);
        }
    }

    #[test]
    fn what_the_client_may_have_done_is_not_denied() {
        let said = |effect| {
            result_without_answer(&call(ClientCallStatus::Open, effect), ClientCallStatus::Expired).output
        };
        assert_eq!(said(Effect::Read)["message"], "the client sent no result in time");
        let doubt = "the client sent no result in time; it is not known whether the client did it";
        assert_eq!(said(Effect::Irreversible)["message"], doubt);
    }
}
