//! Faults that OpenAI refuses in Chat Completions. Tool results may come in any order, but right after their calls,
//! each exactly once.

use serde_json::Value;

use super::{
    Complaint, EFFORTS, Object, RequestCheck, answer_schema, count, elements_of, fields, function, images,
    name, number, object, refuse, speaks_of_json, text, word,
};

/// The longest id of a tool call.
const MAX_CALL_ID_BYTES: usize = 40;
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

pub(super) fn check(body: &Object) -> RequestCheck {
    fields(body, &FIELDS, "")?;
    settings(body)?;
    response_format(body)?;
    tools(body)?;
    messages(body)
}

fn settings(body: &Object) -> RequestCheck {
    number(body, "temperature", (0.0, 2.0))?;
    number(body, "top_p", (0.0, 1.0))?;
    number(body, "frequency_penalty", (-2.0, 2.0))?;
    number(body, "presence_penalty", (-2.0, 2.0))?;
    word(body, "reasoning_effort", &EFFORTS)?;
    word(body, "verbosity", &["low", "medium", "high"])?;
    for name in ["max_tokens", "max_completion_tokens"] {
        count(body, name, 1)?;
    }
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    }
    let Some(options) = body.get("stream_options") else { return Ok(()) };
    if body.get("stream") != Some(&Value::Bool(true)) {
        return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    let options = object(options, "stream_options")?;
    fields(options, &["include_usage", "include_obfuscation"], "stream_options")
}

fn response_format(body: &Object) -> RequestCheck {
    let Some(format) = body.get("response_format") else { return Ok(()) };
    let format = object(format, "response_format")?;
    match text(format, "type", "response_format")? {
        "text" => fields(format, &["type"], "response_format"),
        "json_object" => {
            fields(format, &["type"], "response_format")?;
            if body.get("messages").is_some_and(speaks_of_json) {
                return Ok(());
            }
            refuse(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type \
                 'json_object'.",
            )
        }
        "json_schema" => {
            fields(format, &["type", "json_schema"], "response_format")?;
            let place = "response_format.json_schema";
            let Some(schema) = format.get("json_schema") else {
                return refuse(format!("Missing required parameter: '{place}'."));
            };
            let schema = object(schema, place)?;
            fields(schema, &["name", "description", "schema", "strict"], place)?;
            answer_schema(schema, place)
        }
        other => refuse(format!("Invalid value: '{other}' for 'response_format.type'.")),
    }
}

fn tools(body: &Object) -> RequestCheck {
    let Some(tools) = body.get("tools") else {
        return if body.contains_key("tool_choice") {
            refuse(
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
            )
        } else {
            Ok(())
        };
    };
    for (at, tool) in elements_of(tools, "tools")?.iter().enumerate() {
        let place = format!("tools[{at}]");
        let tool = named_function(tool, &place)?;
        let place = format!("{place}.function");
        fields(tool, &["name", "description", "parameters", "strict"], &place)?;
        function(tool, &place)?;
    }
    Ok(())
}

/// The `function` of a tool or a call.
fn named_function<'a>(item: &'a Value, place: &str) -> Result<&'a Object, Complaint> {
    if item.get("type") != Some(&"function".into()) {
        return refuse(format!("Missing required parameter: '{place}.type'."));
    }
    match item.get("function").and_then(Value::as_object) {
        Some(function) => Ok(function),
        None => refuse(format!("Missing required parameter: '{place}.function'.")),
    }
}

fn messages(body: &Object) -> RequestCheck {
    let Some(messages) = body.get("messages") else {
        return refuse("Missing required parameter: 'messages'.");
    };
    let messages = elements_of(messages, "messages")?;
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
    fn answer(&mut self, message: &'a Value, place: &str) -> RequestCheck {
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
    fn close(&mut self) -> RequestCheck {
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

fn content(message: &Value, place: &str) -> RequestCheck {
    match message.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            let is_user = message.get("role") == Some(&"user".into());
            let mut parts = parts.iter().enumerate();
            parts.try_for_each(|(at, part)| content_part(part, is_user, &format!("{place}.content[{at}]")))
        }
        _ => refuse(format!(
            "Invalid type for '{place}.content': expected one of a string or array of objects."
        )),
    }
}

/// A text, or an image of the user.
fn content_part(part: &Value, is_user: bool, place: &str) -> RequestCheck {
    let part = object(part, place)?;
    match text(part, "type", place)? {
        "text" => {
            fields(part, &["type", "text"], place)?;
            text(part, "text", place).map(drop)
        }
        "image_url" if is_user => {
            fields(part, &["type", "image_url"], place)?;
            let place = format!("{place}.image_url");
            let image = object(part.get("image_url").unwrap_or(&Value::Null), &place)?;
            fields(image, &["url", "detail"], &place)?;
            word(image, "detail", &["auto", "low", "high"])?;
            images::data_url(text(image, "url", &place)?, &place)
        }
        other => refuse(format!("Invalid value: '{other}' for '{place}.type'.")),
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
        let function = named_function(call, &place)?;
        name(function, &format!("{place}.function"))?;
        let arguments = function.get("arguments").and_then(Value::as_str);
        if arguments.is_none_or(|text| serde_json::from_str::<Value>(text).is_err()) {
            return refuse(format!(
                "Invalid '{place}.function.arguments': expected a string that holds JSON."
            ));
        }
        ids.push(id);
    }
    Ok(ids)
}
