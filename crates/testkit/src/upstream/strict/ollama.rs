//! Faults that Ollama refuses, or passes over in silence, which in a test is as bad.

use serde_json::Value;

use super::{Object, RequestCheck, elements_of, fields, images, name, object, refuse, schema, text};

const FIELDS: [&str; 12] = [
    "model",
    "messages",
    "tools",
    "format",
    "options",
    "stream",
    "keep_alive",
    "think",
    "logprobs",
    "top_logprobs",
    "truncate",
    "shift",
];
const OPTIONS: [&str; 22] = [
    "frequency_penalty",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "use_mmap",
];

pub(super) fn check(body: &Object) -> RequestCheck {
    fields(body, &FIELDS, "")?;
    options(body)?;
    match body.get("think") {
        None | Some(Value::Bool(_)) => {}
        Some(Value::String(level)) if ["low", "medium", "high", "max"].contains(&level.as_str()) => {}
        Some(other) => return refuse(format!("invalid think value: {other}")),
    }
    match body.get("format") {
        None | Some(Value::Object(_)) => {}
        Some(Value::String(format)) if format == "json" || format.is_empty() => {}
        Some(other) => return refuse(format!("invalid format: {other}; expected \"json\" or a JSON schema")),
    }
    for (at, tool) in body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let place = format!("tools[{at}]");
        let tool = object(tool, &place)?;
        fields(tool, &["type", "function"], &place)?;
        let function = object(tool.get("function").unwrap_or(&Value::Null), &place)?;
        fields(function, &["name", "description", "parameters"], &place)?;
        name(function, &place)?;
        schema::of_object(function.get("parameters").unwrap_or(&Value::Null), &place)?;
    }
    messages(body)
}

fn options(body: &Object) -> RequestCheck {
    let Some(options) = body.get("options") else { return Ok(()) };
    let options = object(options, "options")?;
    fields(options, &OPTIONS, "options")?;
    for (name, value) in options {
        let fits = match name.as_str() {
            "stop" => value.as_array().is_some_and(|words| words.iter().all(Value::is_string)),
            "use_mmap" => value.is_boolean(),
            "num_ctx" | "num_predict" | "seed" | "top_k" | "num_keep" | "repeat_last_n" => value.is_i64(),
            _ => value.is_number(),
        };
        if !fits {
            return refuse(format!("option \"{name}\" must not be {value}"));
        }
    }
    Ok(())
}

fn messages(body: &Object) -> RequestCheck {
    let messages = elements_of(body.get("messages").unwrap_or(&Value::Null), "messages")?;
    let known = ["role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"];
    // Ollama matches results to calls by their order and name.
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages[{at}]");
        let message = object(message, &place)?;
        fields(message, &known, &place)?;
        let role = text(message, "role", &place)?;
        text(message, "content", &place)?;
        if role != "user" && message.contains_key("images") {
            return refuse(format!("'{place}': only the user shows images"));
        }
        if role != "assistant" && message.contains_key("tool_calls") {
            return refuse(format!("'{place}': only the assistant calls tools"));
        }
        if role != "tool" && !open.is_empty() {
            return refuse(format!("'{place}': no result for the call of {open:?}"));
        }
        match role {
            "user" => images_of(message, &place)?,
            "system" => {}
            "assistant" => open = calls(message, &place)?,
            "tool" => {
                let name = text(message, "tool_name", &place)?;
                let Some(at) = open.iter().position(|open| *open == name) else {
                    return refuse(format!("'{place}': a result of {name:?}, which was not called"));
                };
                open.remove(at);
            }
            other => return refuse(format!("invalid role: {other:?}")),
        }
    }
    if open.is_empty() { Ok(()) } else { refuse(format!("no result for the call of {open:?}")) }
}

/// Images in base64 alone, without a type before them.
fn images_of(message: &Object, place: &str) -> RequestCheck {
    let Some(shown) = message.get("images") else { return Ok(()) };
    let place = format!("{place}.images");
    for image in elements_of(shown, &place)? {
        let Some(data) = image.as_str() else {
            return refuse(format!("'{place}': expected base64 strings"));
        };
        images::image_type(data, &place)?;
    }
    Ok(())
}

/// The names of the tools that are called, whose arguments are objects here.
fn calls<'a>(message: &'a Object, place: &str) -> Result<Vec<&'a str>, super::Complaint> {
    let mut names = Vec::new();
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let call = object(call, place)?;
        fields(call, &["id", "type", "function"], place)?;
        let function = object(call.get("function").unwrap_or(&Value::Null), place)?;
        fields(function, &["index", "name", "arguments"], place)?;
        name(function, place)?;
        object(function.get("arguments").unwrap_or(&Value::Null), &format!("{place}.arguments"))?;
        names.push(text(function, "name", place)?);
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
