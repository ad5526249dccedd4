//! Tools whose calls the client makes, and these calls.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::json_fields::{deserialize_present, from_name};
use crate::{CallId, RunId, ThreadId};

/// A tool that the client runs, as a request declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    /// The name: letters, digits, underscores and dashes. No tool of the server has this name.
    pub name: String,
    /// The description of the tool for the model.
    pub description: String,
    /// A JSON Schema of the arguments, of type object; no arguments when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// The status of a call that the client makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientCallStatus {
    /// The run waits for its result.
    Open,
    /// The client has sent a result, or an error in place of one.
    Answered,
    /// The client sent nothing in time.
    Expired,
    /// The user sent another message instead.
    Superseded,
    /// The run ended without the result.
    Cancelled,
}

impl ClientCallStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        from_name(name)
    }
}

/// A call that the client makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCallView {
    pub id: CallId,
    pub app_id: String,
    pub name: String,
    pub input: Value,
    pub status: ClientCallStatus,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    /// The time at which the call got its result.
    pub answered_at: Option<Timestamp>,
}

/// The result of a call that the client made: one of the two fields.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCallResult {
    /// The result: any JSON value, including null.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Option<Value>>,
    /// The reason why there is no result, as a text for the model.
    pub error: Option<String>,
}
