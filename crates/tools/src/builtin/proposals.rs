//! Proposals: calls that the user may approve later, made and changed by the model. No run waits for a proposal, and
//! only the user can confirm it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use protocol::ProposalId;
use serde_json::{Value, json};
use store::{NewProposal, ProposalRow, Write};

use super::{found_or_none, spec, text};
use crate::policy::Ruling;
use crate::{Calling, Failed, Taint, Tool, ToolOutput, ToolRegistry, ToolSpec};

/// The name of the tool that makes proposals.
pub const CREATE_PROPOSAL: &str = "createProposal";

const DEFAULT_HOURS: i64 = 72;

/// Proposes a call of one of the app's other tools.
pub(crate) struct CreateProposal {
    /// The tools whose calls can be proposed: no proposal, and no undo.
    pub(crate) others: Arc<ToolRegistry>,
}

/// Rewords a proposal or withdraws it.
pub(crate) struct UpdateProposal {
    pub(crate) others: Arc<ToolRegistry>,
}

impl CreateProposal {
    /// The spec, with the names of the tools whose calls can be proposed.
    pub(crate) fn spec(&self) -> ToolSpec {
        let mut spec = spec(CREATE_PROPOSAL);
        if let Some(names) = spec.parameters.pointer_mut("/properties/tool/enum") {
            *names = self.others.specs().iter().map(|other| other.name.clone()).collect();
        }
        spec
    }
}

#[async_trait]
impl Tool for CreateProposal {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        let input = calling.input.get("input").cloned().unwrap_or_default();
        possible(&self.others, text(&calling.input, "tool").unwrap_or_default(), input, calling).await
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let input = &calling.input;
        let hours = input.get("expiresInHours").and_then(Value::as_i64).unwrap_or(DEFAULT_HOURS);
        let expires_at = in_hours(calling.now, hours)?;
        let proposal = NewProposal {
            id: calling.ids.proposal(),
            tool: text(input, "tool").unwrap_or_default().to_owned(),
            input: input.get("input").cloned().unwrap_or_default(),
            note: text(input, "note").map(str::to_owned),
            expires_at,
        };
        let output = json!({ "proposalId": proposal.id, "status": "open", "expiresAt": expires_at });
        Ok(ToolOutput::with_write(output, Write::Propose(proposal)))
    }
}

#[async_trait]
impl Tool for UpdateProposal {
    async fn check(&self, calling: &Calling<'_>) -> Result<(), Failed> {
        let proposal = open(calling).await?;
        let input = &calling.input;
        let (new, note) = (input.get("input"), input.get("note"));
        match (withdraws(input), new) {
            (true, _) if new.is_some() || note.is_some() => {
                let message = "a proposal is either changed or withdrawn; do not ask for both";
                Err(Failed::new("invalid_arguments", message))
            }
            (true, _) => Ok(()),
            (false, Some(new)) => possible(&self.others, &proposal.tool, new.clone(), calling).await,
            (false, None) if note.is_none() => {
                Err(Failed::new("nothing_to_change", "give a note, an input, or withdraw: true"))
            }
            (false, None) => Ok(()),
        }
    }

    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let proposal = open(&calling).await?;
        let (id, input) = (proposal.id, &calling.input);
        if withdraws(input) {
            let output = json!({ "proposalId": id, "status": "withdrawn" });
            return Ok(ToolOutput::with_write(output, Write::Withdraw { id }));
        }
        let note = text(input, "note").map(str::to_owned);
        let output = json!({ "proposalId": id, "status": "open", "expiresAt": proposal.expires_at });
        Ok(ToolOutput::with_write(output, Write::Reword { id, input: input.get("input").cloned(), note }))
    }
}

/// In whole milliseconds, as the store keeps it.
fn in_hours(now: Timestamp, hours: i64) -> Result<Timestamp, Failed> {
    let millisecond = now.as_millisecond() + SignedDuration::from_hours(hours).as_secs() * 1000;
    Timestamp::from_millisecond(millisecond)
        .map_err(|_| Failed::new("invalid_arguments", "the time of expiry is too far away"))
}

fn withdraws(input: &Value) -> bool {
    input.get("withdraw").and_then(Value::as_bool).unwrap_or_default()
}

/// Whether the proposed call could be made as things are now.
async fn possible(
    others: &ToolRegistry,
    tool: &str,
    input: Value,
    calling: &Calling<'_>,
) -> Result<(), Failed> {
    let proposed = Calling { input, ..calling.clone() };
    // A proposal is put before the user in any case, so it does not matter where its words come from.
    let prepared = others.find(tool)?.prepare(&proposed, &Taint::new()).await?;
    match prepared.ruling {
        Ruling::Allow | Ruling::Ask => Ok(()),
        Ruling::Deny => Err(Failed::new("denied", format!("this app does not allow {tool}"))),
    }
}

/// The proposal that a call names, if the model made it and it is open.
async fn open(calling: &Calling<'_>) -> Result<ProposalRow, Failed> {
    let missing =
        || Failed::new("not_found", "there is no open proposal with that id; it may have been decided");
    let wanted: ProposalId =
        text(&calling.input, "proposalId").and_then(|id| id.parse().ok()).ok_or_else(missing)?;
    let proposal = found_or_none(calling.store.proposal_of(calling.scope, wanted).await)?;
    let open = proposal.filter(|proposal| proposal.decision.is_none());
    of_the_model(open.ok_or_else(missing)?, calling)
}

fn of_the_model(proposal: ProposalRow, calling: &Calling<'_>) -> Result<ProposalRow, Failed> {
    if proposal.call.is_some() {
        let message = "that proposal is a call that waits for the user's approval; it cannot be changed";
        return Err(Failed::new("not_changeable", message));
    }
    if proposal.expires_at <= calling.now {
        return Err(Failed::new("expired", "that proposal has expired; make a new one"));
    }
    Ok(proposal)
}
