//! Events of calls that wait for the user: for a decision, or for a result from the client.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{CallId, Decision, Effect, ProposalId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalOpen {
    pub proposal_id: ProposalId,
    pub call_id: CallId,
    pub name: String,
    pub input: Value,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalClosed {
    pub proposal_id: ProposalId,
    pub call_id: CallId,
    pub decision: Decision,
    /// The sender of the decision, as `ACTOR for USER`, if an acting key spoke for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The intent of a call that the client makes. Its result is the `tool:complete` of the same call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallOpen {
    pub call_id: CallId,
    pub name: String,
    pub input: Value,
    #[serde(default)]
    pub effect: Effect,
    pub expires_at: Timestamp,
}
