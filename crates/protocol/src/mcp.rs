//! MCP servers and their tools, and credentials of users, as the API takes and gives them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A server of tools that an app uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerView {
    pub app: String,
    /// Its name in the app.
    pub server: String,
    pub transport: McpTransport,
    pub state: McpState,
    /// Why it could not be reached the last time; null once it could.
    pub last_error: Option<String>,
    pub tools: Vec<McpToolView>,
}

/// How a server of tools is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// A process of ours, by its input and output.
    Stdio,
    Http,
}

/// How a server of tools is, from well to worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpState {
    /// Nobody needs it just now.
    Idle,
    Connected,
    /// The last attempt failed; the next call tries again.
    Failing,
    /// It failed repeatedly, so its circuit breaker is open.
    Open,
}

/// A tool that a server offers, or has offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolView {
    /// As the model sees it.
    pub name: String,
    /// As the server calls it.
    pub tool: String,
    pub state: McpToolState,
    /// Of the definition.
    pub hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_hash: Option<String>,
    /// What the server says of it now.
    #[schema(value_type = Object)]
    pub definition: Value,
    /// What it said when it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub approved_definition: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Timestamp>,
    /// Absent for one that was approved automatically, when the server was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// Whether a tool can be used: only an approved one can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpToolState {
    Approved,
    /// Its definition is another than the approved one.
    Changed,
    /// It was never approved, or is no more.
    New,
    /// The server no longer offers it.
    Gone,
}

/// A yes to tools as they were shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpApproval {
    /// All that wait for one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<McpApprovalOf>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpApprovalOf {
    /// As the server calls it.
    pub tool: String,
    /// Of the definition that was looked at: if it is another by now, nothing is approved.
    pub hash: String,
}

/// A credential of a user. Its value is never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialView {
    pub name: String,
    pub updated_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialRequest {
    #[schema(write_only)]
    pub value: String,
}

impl fmt::Debug for CredentialRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CredentialRequest").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_of_a_credential_is_not_in_what_is_logged() {
        let request: CredentialRequest = serde_json::from_value(json!({ "value": "hunter2" })).unwrap();
        assert_eq!(request.value, "hunter2");
        assert_eq!(format!("{request:?} {request:#?}"), "CredentialRequest { .. } CredentialRequest { .. }");
    }

    #[test]
    fn an_approval_names_tools_with_their_hashes_or_none_at_all() {
        let all: McpApproval = serde_json::from_value(json!({})).unwrap();
        assert_eq!(all, McpApproval { tools: None });
        let none: McpApproval = serde_json::from_value(json!({ "tools": [] })).unwrap();
        assert_eq!(none, McpApproval { tools: Some(vec![]) });
        for wrong in [
            json!({ "tool": "add" }),
            json!({ "tools": [{ "tool": "add" }] }),
            json!({ "tools": [{ "tool": "add", "hash": "h", "name": "add" }] }),
            json!({ "tools": ["add"] }),
        ] {
            assert!(serde_json::from_value::<McpApproval>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_is_told_in_camel_case_without_what_there_is_not() {
        let tool = McpToolView {
            name: "math_add".into(),
            tool: "add".into(),
            state: McpToolState::New,
            hash: "h".into(),
            approved_hash: None,
            definition: json!({ "name": "add" }),
            approved_definition: None,
            approved_at: None,
            approved_by: None,
        };
        let server = McpServerView {
            app: "app".into(),
            server: "math".into(),
            transport: McpTransport::Stdio,
            state: McpState::Failing,
            last_error: Some("it ended".into()),
            tools: vec![tool],
        };
        let told = json!({
            "app": "app", "server": "math", "transport": "stdio", "state": "failing", "lastError": "it ended",
            "tools": [{ "name": "math_add", "tool": "add", "state": "new", "hash": "h",
                        "definition": { "name": "add" } }],
        });
        assert_eq!(serde_json::to_value(&server).unwrap(), told);
        assert_eq!(serde_json::from_value::<McpServerView>(told).unwrap(), server);
    }
}
