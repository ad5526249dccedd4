//! Faults that OpenAI refuses in Responses. Calls and their results are items of their own here, and each needs the
//! other.

use serde_json::Value;

use super::{
    EFFORTS, Object, RequestCheck, answer_schema, count, elements_of, fields, function, images, name, number,
    object, refuse, speaks_of_json, text, word,
};

const MAX_CALL_ID_BYTES: usize = 64;
/// OpenAI refuses a shorter limit.
const MIN_OUTPUT_TOKENS: u64 = 16;
const FIELDS: [&str; 29] = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
const INCLUDES: [&str; 7] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
];

pub(super) fn check(body: &Object) -> RequestCheck {
    fields(body, &FIELDS, "")?;
    settings(body)?;
    answer_text(body)?;
    tools(body)?;
    input(body)
}

fn settings(body: &Object) -> RequestCheck {
    number(body, "temperature", (0.0, 2.0))?;
    number(body, "top_p", (0.0, 1.0))?;
    count(body, "max_output_tokens", MIN_OUTPUT_TOKENS)?;
    word(body, "truncation", &["auto", "disabled"])?;
    if let Some(reasoning) = body.get("reasoning") {
        let reasoning = object(reasoning, "reasoning")?;
        fields(reasoning, &["effort", "summary", "generate_summary"], "reasoning")?;
        word(reasoning, "effort", &EFFORTS)?;
        word(reasoning, "summary", &["auto", "concise", "detailed"])?;
    }
    for include in body.get("include").and_then(Value::as_array).into_iter().flatten() {
        if !include.as_str().is_some_and(|include| INCLUDES.contains(&include)) {
            return refuse(format!("Invalid value: {include}. Supported values are: {INCLUDES:?}."));
        }
    }
    if body.get("instructions").is_some_and(|text| !text.is_string()) {
        return refuse("Invalid type for 'instructions': expected a string.");
    }
    let Some(options) = body.get("stream_options") else { return Ok(()) };
    if body.get("stream") != Some(&Value::Bool(true)) {
        return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    fields(object(options, "stream_options")?, &["include_obfuscation"], "stream_options")
}

fn answer_text(body: &Object) -> RequestCheck {
    let Some(answer) = body.get("text") else { return Ok(()) };
    let answer = object(answer, "text")?;
    fields(answer, &["format", "verbosity"], "text")?;
    word(answer, "verbosity", &["low", "medium", "high"])?;
    let Some(format) = answer.get("format") else { return Ok(()) };
    let format = object(format, "text.format")?;
    match text(format, "type", "text.format")? {
        "text" => fields(format, &["type"], "text.format"),
        "json_object" => {
            fields(format, &["type"], "text.format")?;
            if body.get("input").is_some_and(speaks_of_json) {
                return Ok(());
            }
            refuse(
                "Response input messages must contain the word 'json' in some form to use 'text.format' of type \
                 'json_object'.",
            )
        }
        "json_schema" => {
            fields(format, &["type", "name", "schema", "strict", "description"], "text.format")?;
            answer_schema(format, "text.format")
        }
        other => refuse(format!("Invalid value: '{other}' for 'text.format.type'.")),
    }
}

/// Functions are flat here: what Chat Completions nests in `function` is refused.
fn tools(body: &Object) -> RequestCheck {
    for (at, tool) in body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let place = format!("tools[{at}]");
        let tool = object(tool, &place)?;
        if text(tool, "type", &place)? != "function" {
            return refuse(format!("Invalid value: '{place}.type'. This upstream knows functions only."));
        }
        fields(tool, &["type", "name", "description", "parameters", "strict"], &place)?;
        function(tool, &place)?;
    }
    if body.contains_key("tool_choice") && !body.contains_key("tools") {
        return refuse("Tool choice must be specified with 'tools'.");
    }
    Ok(())
}

fn input(body: &Object) -> RequestCheck {
    let items = match body.get("input") {
        None => return refuse("Missing required parameter: 'input'."),
        Some(Value::String(_)) => return Ok(()),
        Some(items) => elements_of(items, "input")?,
    };
    let stored = body.get("store") != Some(&Value::Bool(false));
    let mut calls = Calls { earlier: body.contains_key("previous_response_id"), ..Calls::default() };
    for (at, item) in items.iter().enumerate() {
        let place = format!("input[{at}]");
        let item = object(item, &place)?;
        let kind = item.get("type").map_or(Some("message"), Value::as_str);
        match kind {
            Some("message") => message(item, &place)?,
            Some("function_call") => calls.call(item, &place)?,
            Some("function_call_output") => calls.answer(item, &place)?,
            Some("reasoning") => reasoning(item, items.get(at + 1), &place, stored)?,
            Some("item_reference") if stored => text(item, "id", &place).map(drop)?,
            Some(kind) => return refuse(format!("Invalid value: '{kind}' for '{place}.type'.")),
            None => return refuse(format!("Invalid type for '{place}.type': expected a string.")),
        }
    }
    match calls.open.first() {
        Some(id) => refuse(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

fn message(item: &Object, place: &str) -> RequestCheck {
    fields(item, &["type", "role", "content", "id", "status", "phase"], place)?;
    let (role, kinds): (_, &[&str]) = match text(item, "role", place)? {
        "assistant" => ("assistant", &["output_text", "refusal"]),
        role @ ("user" | "system" | "developer") => (role, &["input_text", "input_image", "input_file"]),
        role => return refuse(format!("Invalid value: '{role}' for '{place}.role'.")),
    };
    let parts = match item.get("content") {
        Some(Value::String(_)) => return Ok(()),
        Some(parts) => elements_of(parts, &format!("{place}.content"))?,
        None => return refuse(format!("Missing required parameter: '{place}.content'.")),
    };
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        if !kinds.contains(&kind) {
            return refuse(format!("Invalid value: '{kind}'. Supported values for {role} are: {kinds:?}."));
        }
        if kind == "input_image" {
            let part = object(part, place)?;
            fields(part, &["type", "image_url", "detail", "file_id"], place)?;
            word(part, "detail", &["auto", "low", "high"])?;
            if role != "user" {
                return refuse(format!("Invalid value: 'input_image' for a message of {role}."));
            }
            images::data_url(text(part, "image_url", place)?, place)?;
        }
        let said = ["text", "refusal", "image_url", "file_id", "file_data"];
        if !said.iter().any(|field| part.get(field).is_some_and(Value::is_string)) {
            return refuse(format!("Missing required parameter: '{place}.content.text'."));
        }
    }
    Ok(())
}

/// Reasoning goes with what it led to, and is sent sealed where OpenAI keeps nothing.
fn reasoning(item: &Object, next: Option<&Value>, place: &str, stored: bool) -> RequestCheck {
    fields(item, &["type", "id", "summary", "content", "encrypted_content", "status"], place)?;
    let id = text(item, "id", place)?;
    let Some(parts) = item.get("summary").and_then(Value::as_array) else {
        return refuse(format!("Missing required parameter: '{place}.summary'."));
    };
    if parts.iter().any(|part| part.get("type") != Some(&"summary_text".into())) {
        return refuse(format!("Invalid value for '{place}.summary': expected 'summary_text'."));
    }
    if !stored && item.get("encrypted_content").and_then(Value::as_str).is_none_or(str::is_empty) {
        return refuse(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    }
    let of_model = next.is_some_and(|next| {
        let kind = next.get("type").and_then(Value::as_str);
        matches!(kind, Some("reasoning" | "function_call"))
            || next.get("role").is_some_and(|role| role == "assistant")
    });
    if of_model {
        return Ok(());
    }
    refuse(format!("Item '{id}' of type 'reasoning' was provided without its required following item."))
}

#[derive(Default)]
struct Calls<'a> {
    open: Vec<&'a str>,
    answered: Vec<&'a str>,
    /// There are items before these, which OpenAI keeps.
    earlier: bool,
}

impl<'a> Calls<'a> {
    fn call(&mut self, item: &'a Object, place: &str) -> RequestCheck {
        fields(item, &["type", "id", "call_id", "name", "arguments", "status"], place)?;
        name(item, place)?;
        let id = text(item, "call_id", place)?;
        if !(1..=MAX_CALL_ID_BYTES).contains(&id.len()) {
            return refuse(format!(
                "Invalid '{place}.call_id': expected 1 to {MAX_CALL_ID_BYTES} characters."
            ));
        }
        if item.get("id").is_some_and(|id| !id.as_str().is_some_and(|id| id.starts_with("fc_"))) {
            return refuse(format!("Invalid '{place}.id': expected an ID that begins with 'fc'."));
        }
        if serde_json::from_str::<Value>(text(item, "arguments", place)?).is_err() {
            return refuse(format!("Invalid '{place}.arguments': expected a string that holds JSON."));
        }
        if self.open.contains(&id) || self.answered.contains(&id) {
            return refuse(format!("Duplicate function call id '{id}' in '{place}'."));
        }
        self.open.push(id);
        Ok(())
    }

    fn answer(&mut self, item: &'a Object, place: &str) -> RequestCheck {
        fields(item, &["type", "id", "call_id", "output", "status"], place)?;
        let id = text(item, "call_id", place)?;
        if !item.get("output").is_some_and(|output| output.is_string() || output.is_array()) {
            return refuse(format!("Missing required parameter: '{place}.output'."));
        }
        if let Some(at) = self.open.iter().position(|open| *open == id) {
            self.answered.push(self.open.remove(at));
            return Ok(());
        }
        if self.answered.contains(&id) {
            return refuse(format!("Duplicate output for function call {id}."));
        }
        if self.earlier {
            return Ok(());
        }
        refuse(format!("No tool call found for function call output with call_id {id}."))
    }
}

#[cfg(test)]
mod tests;
