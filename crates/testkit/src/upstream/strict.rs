//! What OpenAI refuses, with the words it refuses it in.
//!
//! Nothing here is stricter than the provider, with one exception: arguments must be JSON, because the models that
//! read them back expect it. Tool results may come in any order, but right after their calls, each exactly once.

use serde_json::{Map, Value};

use super::{Received, Reply};

/// The longest id of a tool call.
const MAX_CALL_ID_BYTES: usize = 40;
const MAX_NAME_BYTES: usize = 64;
const FIELDS: [&str; 32] = [
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
];

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Complaint {
    status: u16,
    pub(super) message: String,
}

type Check = Result<(), Complaint>;

impl Complaint {
    pub(super) fn reply(&self) -> Reply {
        Reply::status(self.status).error("invalid_request_error", None, &self.message)
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint { status: 400, message: message.into() })
}

/// Checks a request as the provider would.
pub(super) fn check(request: &Received, key: Option<&str>) -> Check {
    if request.path != "/v1/chat/completions" {
        return Err(Complaint { status: 404, message: format!("Invalid URL (POST {})", request.path) });
    }
    if let Some(key) = key
        && request.header("authorization") != Some(&format!("Bearer {key}"))
    {
        return Err(Complaint { status: 401, message: "You didn't provide an API key.".into() });
    }
    if !request.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return refuse("Unsupported content type: expected 'application/json'.");
    }
    let Some(body) = request.body.as_object() else {
        return refuse("We could not parse the JSON body of your request.");
    };
    if let Some(field) = body.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return refuse(format!("Unrecognized request argument supplied: {field}"));
    }
    if body.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return refuse("you must provide a model parameter");
    }
    settings(body)?;
    tools(body)?;
    messages(body)
}

fn settings(body: &Map<String, Value>) -> Check {
    for (name, low, high) in [("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)] {
        if let Some(value) = body.get(name)
            && !value.as_f64().is_some_and(|number| (low..=high).contains(&number))
        {
            return refuse(format!(
                "Invalid '{name}': expected a value between {low} and {high}, but got {value}."
            ));
        }
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        if let Some(value) = body.get(name)
            && value.as_u64().is_none_or(|number| number == 0)
        {
            return refuse(format!("Invalid '{name}': expected a value >= 1, but got {value} instead."));
        }
    }
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    }
    if body.get("stream").is_some_and(|stream| !stream.is_boolean()) {
        return refuse("Invalid type for 'stream': expected a boolean.");
    }
    if body.contains_key("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    Ok(())
}

fn tools(body: &Map<String, Value>) -> Check {
    let Some(tools) = body.get("tools") else {
        return if body.contains_key("tool_choice") {
            refuse(
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
            )
        } else {
            Ok(())
        };
    };
    let Some(tools) = tools.as_array() else { return refuse("Invalid type for 'tools': expected an array.") };
    if tools.is_empty() {
        return refuse("Invalid 'tools': empty array. Expected an array with minimum length 1.");
    }
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}]");
        let function = function(tool, &place)?;
        if function.get("description").is_some_and(|text| !text.is_string()) {
            return refuse(format!("Invalid type for '{place}.function.description': expected a string."));
        }
        if function.get("parameters").is_some_and(|schema| schema.get("type") != Some(&"object".into())) {
            return refuse(format!(
                "Invalid schema for '{place}.function': schema must be of 'type: \"object\"'."
            ));
        }
    }
    Ok(())
}

/// The `function` of a tool or a call, its name checked.
fn function<'a>(item: &'a Value, place: &str) -> Result<&'a Value, Complaint> {
    if item.get("type") != Some(&"function".into()) {
        return refuse(format!("Missing required parameter: '{place}.type'."));
    }
    let Some(function) = item.get("function").filter(|function| function.is_object()) else {
        return refuse(format!("Missing required parameter: '{place}.function'."));
    };
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.bytes().all(fits) {
        return refuse(format!(
            "Invalid '{place}.function.name': string does not match pattern '^[a-zA-Z0-9_-]{{1,64}}$'."
        ));
    }
    Ok(function)
}

fn messages(body: &Map<String, Value>) -> Check {
    let Some(messages) = body.get("messages").and_then(Value::as_array) else {
        return refuse("Missing required parameter: 'messages'.");
    };
    if messages.is_empty() {
        return refuse("Invalid 'messages': empty array. Expected an array with minimum length 1.");
    }
    let mut turn = Turn::default();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages[{at}]");
        match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer" | "user") => {
                turn.close()?;
                content(message, &place)?;
            }
            Some("assistant") => {
                turn.close()?;
                turn = Turn { open: calls(message, &place)?, answered: Vec::new() };
            }
            Some("tool") => {
                turn.answer(message, &place)?;
                content(message, &place)?;
            }
            Some(role) => {
                return refuse(format!(
                    "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', \
                     'tool', and 'developer'."
                ));
            }
            None => return refuse(format!("Missing required parameter: '{place}.role'.")),
        }
    }
    turn.close()
}

/// The calls of the last assistant message, and which of them have a result.
#[derive(Default)]
struct Turn<'a> {
    open: Vec<&'a str>,
    answered: Vec<&'a str>,
}

impl<'a> Turn<'a> {
    fn answer(&mut self, message: &'a Value, place: &str) -> Check {
        let Some(id) = message.get("tool_call_id").and_then(Value::as_str) else {
            return refuse(format!("Missing required parameter: '{place}.tool_call_id'."));
        };
        if let Some(at) = self.open.iter().position(|open| *open == id) {
            self.answered.push(self.open.remove(at));
            return Ok(());
        }
        if self.answered.contains(&id) {
            return refuse(format!("Duplicate value for 'tool_call_id' of '{id}' in {place}"));
        }
        refuse(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
             'tool_calls'.",
        )
    }

    /// Another message follows, or none.
    fn close(&mut self) -> Check {
        if !self.open.is_empty() {
            return refuse(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                self.open.join(", ")
            ));
        }
        self.answered.clear();
        Ok(())
    }
}

fn content(message: &Value, place: &str) -> Check {
    match message.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts))
            if !parts.is_empty() && parts.iter().all(|part| part.get("type").is_some()) =>
        {
            Ok(())
        }
        _ => refuse(format!(
            "Invalid type for '{place}.content': expected one of a string or array of objects."
        )),
    }
}

/// The ids of an assistant message's calls.
fn calls<'a>(message: &'a Value, place: &str) -> Result<Vec<&'a str>, Complaint> {
    let Some(calls) = message.get("tool_calls") else {
        content(message, place)?;
        return Ok(Vec::new());
    };
    if !matches!(message.get("content"), None | Some(Value::Null)) {
        content(message, place)?;
    }
    let Some(calls) = calls.as_array().filter(|calls| !calls.is_empty()) else {
        return refuse(format!(
            "Invalid '{place}.tool_calls': empty array. Expected an array with minimum length 1."
        ));
    };
    let mut ids = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let place = format!("{place}.tool_calls[{at}]");
        let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
        if !(1..=MAX_CALL_ID_BYTES).contains(&id.len()) {
            return refuse(format!(
                "Invalid '{place}.id': expected a string of 1 to {MAX_CALL_ID_BYTES} characters."
            ));
        }
        if ids.contains(&id) {
            return refuse(format!("Duplicate tool call id '{id}' in '{place}'."));
        }
        let arguments = function(call, &place)?.get("arguments").and_then(Value::as_str);
        if arguments.is_none_or(|text| serde_json::from_str::<Value>(text).is_err()) {
            return refuse(format!(
                "Invalid '{place}.function.arguments': expected a string that holds JSON."
            ));
        }
        ids.push(id);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
