//! MCP servers and their tools, and credentials of users, as the API takes and gives them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An MCP server that an app uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerView {
    pub app: String,
    /// The name of the MCP server in the app.
    pub server: String,
    pub transport: McpTransport,
    pub state: McpState,
    /// The error of the last attempt to reach the server; null after a success.
    pub last_error: Option<String>,
    pub tools: Vec<McpToolView>,
}

/// The transport of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// A process that this server runs, by its standard input and output.
    Stdio,
    Http,
}

/// The health of an MCP server, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpState {
    /// No connection is open, because no call needs one.
    Idle,
    Connected,
    /// The last attempt failed; the next call tries again.
    Failing,
    /// The server failed repeatedly, so its circuit breaker is open.
    Open,
}

/// A tool that an MCP server offers, or has offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolView {
    /// The name of the tool for the model.
    pub name: String,
    /// The name of the tool at the MCP server.
    pub tool: String,
    pub state: McpToolState,
    /// The hash of the present definition.
    pub hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_hash: Option<String>,
    /// The present definition of the tool.
    #[schema(value_type = Object)]
    pub definition: Value,
    /// The definition that was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub approved_definition: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Timestamp>,
    /// The admin who approved the tool. Absent if it was approved automatically, when the server was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// The approval of a tool. Only an approved tool can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpToolState {
    Approved,
    /// The definition differs from the approved one.
    Changed,
    /// The tool was never approved, or its approval was revoked.
    New,
    /// The server no longer offers it.
    Gone,
}

/// The approval of tools with the definitions that were shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpApproval {
    /// The tools to approve; all tools that wait for approval when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<McpApprovalOf>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpApprovalOf {
    /// The name of the tool at the MCP server.
    pub tool: String,
    /// The hash of the definition that was shown. If the definition has changed since then, nothing is approved.
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
