//! Proposals: tool calls that wait for a decision of the user. A run waits for its own proposals; others outlive their run.

use protocol::{
    CallId, Decision, Event, ProposalClosed, ProposalOpen, RunId, Scope, ThreadId, ToolComplete, ToolStatus,
    canonical,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Error, MAX_OPEN_PROPOSALS, NewAction, NewProposal, ProposalRow};

/// The ruling on a request to decide a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionRuling {
    /// The decision counts.
    Accept,
    /// The proposal was decided so before.
    Decided(Decision),
    /// The time of the proposal is over. It is closed now, unless a run waits for it: that run is told by the sweep.
    Expired { close: bool },
}

/// Rules on a request to decide a proposal at a moment, in milliseconds since 1970.
pub fn rule_on_decision(row: &ProposalRow, at: i64) -> DecisionRuling {
    match row.decision {
        Some(decided) => DecisionRuling::Decided(decided),
        None if is_over(row, at) => DecisionRuling::Expired { close: row.run.is_none() },
        None => DecisionRuling::Accept,
    }
}

/// Whether the time of an open proposal is over.
fn is_over(row: &ProposalRow, at: i64) -> bool {
    row.decision.is_none() && row.expires_at.as_millisecond() <= at
}

/// Events of a run that close one of its proposals.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalClosing {
    pub thread: ThreadId,
    pub run: RunId,
    pub events: Vec<Event>,
}

/// The events that close a proposal: the decision, and the result of the call unless it may run now. None for a
/// proposal that no run waits for. `by` names the actor, if one acted for the user.
pub fn closing_events(row: &ProposalRow, decision: Decision, by: Option<&str>) -> Option<ProposalClosing> {
    let (Some(thread), Some(run), Some(call_id)) = (row.thread, row.run, row.call) else { return None };
    let closed = ProposalClosed { proposal_id: row.id, call_id, decision, by: by.map(str::to_owned) };
    let result = denied_result(call_id, &row.tool, decision).map(Event::ToolComplete);
    let events = [Event::ProposalClosed(closed)].into_iter().chain(result).collect();
    Some(ProposalClosing { thread, run, events })
}

/// The decision on the proposals of a run that are open when it ends. No event tells of it, because `run:end` is the last
/// of a run.
pub const DECISION_AT_RUN_END: Decision = Decision::Superseded;

/// The result of a call that may not run.
fn denied_result(call_id: CallId, tool: &str, decision: Decision) -> Option<ToolComplete> {
    let message = denial(decision)?;
    Some(ToolComplete {
        call_id,
        name: tool.to_owned(),
        status: ToolStatus::Denied,
        output: json!({ "error": decision.name(), "message": message }),
        duration_ms: 0,
        outside: false,
        suspicious: false,
        by: None,
    })
}

/// The text for the model about a call that may not run.
fn denial(decision: Decision) -> Option<&'static str> {
    match decision {
        Decision::Confirmed => None,
        Decision::Rejected => Some("the user said no"),
        Decision::Expired => Some("the user gave no answer in time"),
        Decision::Superseded => Some("the user sent another message instead of an answer"),
        Decision::Withdrawn => Some("the call was withdrawn"),
    }
}

/// The proposal that an event of a run opens.
pub fn new_proposal(open: &ProposalOpen) -> NewProposal {
    NewProposal {
        id: open.proposal_id,
        tool: open.name.clone(),
        input: open.input.clone(),
        note: None,
        expires_at: open.expires_at,
    }
}

/// Whether an action may do now what a proposal showed. Only a proposal that no run waits for becomes one so.
pub fn check_confirmable(row: &ProposalRow, scope: &Scope, action: &NewAction, at: i64) -> Result<(), Error> {
    if row.scope != *scope || row.call.is_some() {
        return Err(Error::NotFound("proposal"));
    }
    match row.decision {
        None if is_over(row, at) => return Err(Error::Decided(Decision::Expired)),
        None => {}
        // A confirmation that was given before anything was begun still stands.
        Some(Decision::Confirmed) if row.action.is_none() => {}
        Some(decided) => return Err(Error::Decided(decided)),
    }
    if call_hash(&action.tool, &action.input) != row.hash {
        return Err(Error::Changed("the proposal has changed meanwhile".into()));
    }
    Ok(())
}

/// The proposal, if the tool that made it can still change it.
pub fn changeable_proposal(row: Option<ProposalRow>, scope: &Scope, at: i64) -> Result<ProposalRow, Error> {
    let row = row.filter(|row| row.scope == *scope && row.call.is_none());
    let row = row.ok_or_else(|| Error::Changed("there is no such proposal".into()))?;
    let decided = if is_over(&row, at) { Some(Decision::Expired) } else { row.decision };
    match decided {
        None => Ok(row),
        Some(decided) => Err(Error::Changed(format!("the proposal is {}", decided.name()))),
    }
}

/// Whether a scope with `open` open proposals may have another.
pub fn check_room(open: u64) -> Result<(), Error> {
    if open < MAX_OPEN_PROPOSALS as u64 {
        return Ok(());
    }
    let words = format!("{MAX_OPEN_PROPOSALS} proposals are open already; wait until some are decided");
    Err(Error::Changed(words))
}

/// The hash of `[tool, input]` in its one spelling: what is confirmed is what was shown.
pub fn call_hash(tool: &str, input: &Value) -> [u8; 32] {
    Sha256::digest(canonical(&json!([tool, input]))).into()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{AppId, Kind, ProposalId, UserId};
    use uuid::Uuid;

    use super::*;

    fn proposal(of_run: bool) -> ProposalRow {
        let number = Uuid::from_u128(7);
        ProposalRow {
            id: ProposalId::new(number),
            scope: Scope { app: AppId::new("app"), user: UserId::new("alice") },
            thread: Some(ThreadId::new(number)),
            run: of_run.then(|| RunId::new(number)),
            call: of_run.then(|| CallId::new(number)),
            tool: "send".into(),
            input: json!({ "to": "bob" }),
            hash: call_hash("send", &json!({ "to": "bob" })),
            note: None,
            decision: None,
            action: None,
            expires_at: Timestamp::from_millisecond(1_000).unwrap(),
            created_at: Timestamp::UNIX_EPOCH,
            decided_at: None,
        }
    }

    #[test]
    fn a_proposal_is_decided_once_and_in_time() {
        let open = proposal(false);
        assert_eq!(rule_on_decision(&open, 999), DecisionRuling::Accept);
        assert_eq!(rule_on_decision(&open, 1_000), DecisionRuling::Expired { close: true });
        assert_eq!(rule_on_decision(&proposal(true), 1_000), DecisionRuling::Expired { close: false });
        let rejected = ProposalRow { decision: Some(Decision::Rejected), ..open };
        assert_eq!(rule_on_decision(&rejected, 0), DecisionRuling::Decided(Decision::Rejected));
    }

    #[test]
    fn a_call_that_may_not_run_has_a_result_that_says_why() {
        let kinds = |decision| {
            let closing = closing_events(&proposal(true), decision, None).unwrap();
            closing.events.iter().map(Event::kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(Decision::Confirmed), [Kind::ProposalClosed]);
        assert_eq!(kinds(Decision::Rejected), [Kind::ProposalClosed, Kind::ToolComplete]);
        assert_eq!(closing_events(&proposal(false), Decision::Rejected, None), None);
    }

    #[test]
    fn only_what_was_shown_is_confirmed() {
        let row = proposal(false);
        let action = |input| NewAction {
            id: protocol::ActionId::new(Uuid::from_u128(8)),
            tool: "send".into(),
            effect: protocol::Effect::Reversible,
            input,
            actor: None,
        };
        assert!(check_confirmable(&row, &row.scope, &action(json!({ "to": "bob" })), 0).is_ok());
        let other = check_confirmable(&row, &row.scope, &action(json!({ "to": "eve" })), 0);
        assert!(matches!(other, Err(Error::Changed(_))), "{other:?}");
        assert!(check_confirmable(&row, &row.scope, &action(json!({ "to": "bob" })), 1_000).is_err());
        assert!(changeable_proposal(None, &row.scope, 0).is_err());
        assert!(changeable_proposal(Some(row.clone()), &row.scope, 0).is_ok());
        assert!(check_room(MAX_OPEN_PROPOSALS as u64).is_err());
    }
}
