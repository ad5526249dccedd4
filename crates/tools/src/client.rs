//! Tools whose calls the client makes: which of them a request can declare, and how a result is taken.

use std::sync::Arc;

use app::{App, MAX_TOOL_NAME_CHARS, MAX_TOOLS, check_object_schema, is_tool_name, tool_arguments};
use async_trait::async_trait;
use protocol::{AnswerSchema, ClientTool, Effect, MAX_JSON_DEPTH, ToolStatus, value_depth};
use serde_json::{Value, json};

use crate::builtin::{ASK_USER, check_user_answer};
use crate::external::{Hidden, clean};
use crate::registry::capped_output;
use crate::schema_size::check_schema_size;
use crate::{CallOutcome, Calling, Failed, OfferedTool, Tool, ToolFacts, ToolOutput, ToolRegistry, ToolSpec};

/// Tools that one request can declare.
pub const MAX_CLIENT_TOOLS: usize = 32;

/// Bytes of the result of a client's call.
pub const MAX_CLIENT_RESULT_BYTES: usize = 256 * 1024;

/// Bytes of the schema of one tool of a request, and of its description.
const MAX_SCHEMA_BYTES: usize = 16 * 1024;
const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;

/// Bytes of the schema of an answer.
const MAX_ANSWER_SCHEMA_BYTES: usize = 64 * 1024;

/// The result of a call that was made elsewhere, where that was lost.
const NO_RESULT: &str = "no result was recorded for this call";

/// Bytes of the reason why there is no result.
const MAX_REASON_BYTES: usize = 8 * 1024;

/// Stands for the client where a call would be made here.
struct ClientSide;

#[async_trait]
impl Tool for ClientSide {
    async fn call(&self, _: Calling<'_>) -> Result<ToolOutput, Failed> {
        Err(Failed::client_only())
    }
}

/// A tool whose calls the client makes.
pub(crate) fn client_tool(spec: ToolSpec, effect: Effect) -> OfferedTool {
    OfferedTool::new(spec, ClientSide, ToolFacts::of_client(effect))
}

/// A tool of a request, as the model is offered it; or what is wrong with it.
fn offered_to_client(tool: &ClientTool) -> Result<OfferedTool, String> {
    let ClientTool { name, description, parameters } = tool;
    if !is_tool_name(name) {
        return Err(format!(
            "must have a name of 1 to {MAX_TOOL_NAME_CHARS} letters, digits, underscores or dashes"
        ));
    }
    let description = clean(description);
    if description.trim().is_empty() || description.len() > MAX_DESCRIPTION_BYTES {
        return Err(format!("must have a description of 1 to {MAX_DESCRIPTION_BYTES} bytes"));
    }
    let mut parameters = parameters.clone().unwrap_or_else(|| json!({ "type": "object" }));
    if parameters.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!("must have parameters of at most {MAX_SCHEMA_BYTES} bytes"));
    }
    if let Some(fields) = parameters.as_object_mut() {
        fields.remove("$schema"); // providers know no dialects
    }
    check_schema_size(&parameters).map_err(|limit| format!("must have parameters that {limit}"))?;
    let parameters = tool_arguments(parameters)
        .map_err(|(message, remedy)| format!("has parameters that cannot be used: {message}; {remedy}"))?;
    Ok(client_tool(ToolSpec { name: name.clone(), description, parameters }, Effect::Read))
}

impl ToolRegistry {
    /// Returns these tools with those of a request, whose calls the client makes. A tool of the server keeps its name:
    /// one that came meanwhile, with a new version of the app, counts.
    #[must_use]
    pub fn with_client_tools(self: &Arc<Self>, declared: &[ClientTool]) -> Arc<Self> {
        if declared.is_empty() {
            return Arc::clone(self);
        }
        let is_free = |tool: &&ClientTool| self.get(&tool.name).is_none();
        let others =
            declared.iter().filter(is_free).filter_map(|tool| offered_to_client(tool).ok()).collect();
        self.with_tools(others).map_or_else(|_| Arc::clone(self), Arc::new)
    }
}

/// Whether a request to an app can declare these tools; if not, why, in words for the client.
pub fn check_client_tools(app: &App, registry: &ToolRegistry, tools: &[ClientTool]) -> Result<(), String> {
    if tools.len() > MAX_CLIENT_TOOLS {
        return Err(format!("must be at most {MAX_CLIENT_TOOLS} tools"));
    }
    for (index, tool) in tools.iter().enumerate() {
        let name: String = clean(&tool.name).chars().take(MAX_TOOL_NAME_CHARS).collect();
        offered_to_client(tool).map_err(|reason| format!("the tool {name:?} {reason}"))?;
        let is_of_server =
            registry.get(&name).is_some() || name == ASK_USER || app.server_of(&name).is_some();
        if is_of_server {
            return Err(format!("{name:?} is the name of a tool of the server; give the tool another name"));
        }
        if tools.iter().take(index).any(|earlier| earlier.name == tool.name) {
            return Err(format!("there are two tools named {name:?}; give one another name"));
        }
    }
    let most = MAX_TOOLS.saturating_sub(registry.specs().len());
    if tools.len() > most {
        return Err(format!(
            "must be at most {most} tools, because a model takes {MAX_TOOLS} with those of the app"
        ));
    }
    Ok(())
}

/// The outcome of a call that was made elsewhere and is only told here: without what a reader would not see, and cut as
/// every result is. The client may say anything, so it counts as text of an external tool.
pub fn earlier_outcome(result: Option<String>, failed: bool) -> CallOutcome {
    let status = match (&result, failed) {
        (None, _) => ToolStatus::Unknown,
        (Some(_), true) => ToolStatus::Failed,
        (Some(_), false) => ToolStatus::Complete,
    };
    let text = result.map_or_else(|| NO_RESULT.to_owned(), |result| clean(&result));
    let (writes, sources) = (Vec::new(), Vec::new());
    CallOutcome { status, output: capped_output(Value::String(text)), writes, sources, outside: true }
}

/// The schema of an answer as a request may give it; or what is wrong with it, in words for the client.
pub fn checked_answer_schema(asked: AnswerSchema) -> Result<AnswerSchema, String> {
    let AnswerSchema { name, mut schema } = asked;
    if !is_tool_name(&name) {
        return Err(format!(
            "must have a name of 1 to {MAX_TOOL_NAME_CHARS} letters, digits, underscores or dashes"
        ));
    }
    if value_depth(&schema) > MAX_JSON_DEPTH {
        return Err(format!("must have a schema that nests at most {MAX_JSON_DEPTH} levels"));
    }
    if schema.to_string().len() > MAX_ANSWER_SCHEMA_BYTES {
        return Err(format!("must have a schema of at most {MAX_ANSWER_SCHEMA_BYTES} bytes"));
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema"); // providers know no dialects
    }
    check_schema_size(&schema).map_err(|limit| format!("must have a schema whose parts {limit}"))?;
    check_object_schema(&schema)
        .map_err(|(message, remedy)| format!("has a schema that cannot be used: {message}; {remedy}"))?;
    Ok(AnswerSchema { name, schema })
}

/// The client's answer to a call: its result, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientAnswer {
    Result(Value),
    Error(String),
}

/// Why a result is not taken. The call stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientResultRefusal {
    /// Bytes that it may have.
    TooLarge {
        field: &'static str,
        limit: usize,
    },
    Invalid {
        field: &'static str,
        message: String,
    },
}

/// The outcome of a call of this tool with this input, once the client has answered: without what a reader would not
/// see, and cut as every result is.
pub fn client_outcome(
    tool: &str,
    input: &Value,
    answer: ClientAnswer,
) -> Result<CallOutcome, ClientResultRefusal> {
    let outside = tool != ASK_USER;
    let outcome = match answer {
        ClientAnswer::Result(result) => {
            check_size("result", &result)?;
            if !outside {
                check_user_answer(input, &result)
                    .map_err(|message| ClientResultRefusal::Invalid { field: "result", message })?;
            }
            let output = capped_output(Hidden::default().value(result));
            let (writes, sources) = (Vec::new(), Vec::new());
            CallOutcome { status: ToolStatus::Complete, output, writes, sources, outside }
        }
        ClientAnswer::Error(reason) => {
            if reason.len() > MAX_REASON_BYTES {
                return Err(ClientResultRefusal::TooLarge { field: "error", limit: MAX_REASON_BYTES });
            }
            let reason = clean(&reason);
            if reason.trim().is_empty() {
                let message = "is empty; say why there is no result".to_owned();
                return Err(ClientResultRefusal::Invalid { field: "error", message });
            }
            CallOutcome { outside, ..CallOutcome::refused(ToolStatus::Failed, "client_error", &reason) }
        }
    };
    Ok(outcome)
}

fn check_size(field: &'static str, result: &Value) -> Result<(), ClientResultRefusal> {
    if result.to_string().len() > MAX_CLIENT_RESULT_BYTES {
        return Err(ClientResultRefusal::TooLarge { field, limit: MAX_CLIENT_RESULT_BYTES });
    }
    if value_depth(result) > MAX_JSON_DEPTH {
        let message = format!("nests deeper than {MAX_JSON_DEPTH} levels");
        return Err(ClientResultRefusal::Invalid { field, message });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: Value) -> ClientTool {
        ClientTool { name: name.into(), description: "Looks.".into(), parameters: Some(parameters) }
    }

    #[test]
    fn a_tool_of_a_request_is_checked_like_any_other() {
        let good = tool("look", json!({ "$schema": "x", "type": "object", "properties": { "a": {} } }));
        let offered = offered_to_client(&good).map_err(|error| panic!("{error}")).unwrap();
        let closed = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false });
        assert_eq!((offered.spec.parameters, offered.facts.by_client), (closed, true));
        let empty = ClientTool { parameters: None, ..good.clone() };
        assert!(offered_to_client(&empty).is_ok(), "a tool may have no arguments");
        for (wrong, reason) in [
            (tool("a b", json!({ "type": "object" })), "a name of 1 to 64"),
            (ClientTool { description: "\u{200b}".into(), ..good }, "a description of 1 to 4096"),
            (tool("a", json!({ "type": "string" })), "not of type object"),
            (tool("a", json!([])), "not of type object"),
            (tool("a", json!({ "type": "object", "required": 3 })), "is not JSON Schema"),
            (tool("a", json!({ "type": "object", "additionalProperties": true })), "additional properties"),
            (tool("a", json!({ "type": "object", "title": "x".repeat(16 * 1024) })), "at most 16384 bytes"),
        ] {
            let refused = offered_to_client(&wrong).map(|_| ()).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_result_is_cleaned_and_bounded() {
        let outcome = |answer| client_outcome("look", &json!({}), answer);
        let seen = outcome(ClientAnswer::Result(json!({ "a\u{200b}": ["x\u{202e}y"] }))).unwrap();
        assert_eq!((seen.output, seen.outside), (json!({ "a": ["xy"] }), true));
        let long = "x".repeat(100 * 1024);
        let cut = outcome(ClientAnswer::Result(json!(long))).unwrap().output;
        assert!(cut.as_str().unwrap().ends_with("[cut: 65536 of 102400 bytes kept]"), "{cut}");
        let refused = outcome(ClientAnswer::Result(json!("x".repeat(MAX_CLIENT_RESULT_BYTES)))).unwrap_err();
        assert_eq!(
            refused,
            ClientResultRefusal::TooLarge { field: "result", limit: MAX_CLIENT_RESULT_BYTES }
        );
        let failed = outcome(ClientAnswer::Error("no\u{200b} camera".into())).unwrap();
        assert_eq!(failed.output, json!({ "error": "client_error", "message": "no camera" }));
        assert!(outcome(ClientAnswer::Error(" ".into())).is_err());
        assert!(outcome(ClientAnswer::Error("x".repeat(8193))).is_err());
        let asked = client_outcome(ASK_USER, &json!({}), ClientAnswer::Result(json!({ "answer": "a" })));
        assert!(!asked.unwrap().outside, "the user's own words");
        assert!(client_outcome(ASK_USER, &json!({}), ClientAnswer::Result(json!("a"))).is_err());
    }
}
