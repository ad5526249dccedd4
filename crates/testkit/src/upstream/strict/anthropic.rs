//! Faults that Anthropic refuses in Messages, as of both versions of its API.

mod messages;

use serde_json::Value;

use super::{Object, RequestCheck, elements_of, fields, is_name, number, object, refuse, schema, text, word};
use crate::upstream::Received;

const MAX_NAME_BYTES: usize = 128;
/// The least a model may be told to think.
const MIN_BUDGET: u64 = 1024;
const FIELDS: [&str; 19] = [
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];
const SAMPLING: [&str; 3] = ["temperature", "top_k", "top_p"];

/// The version of the API that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V2023,
    /// Without sampling, and with system messages among the others.
    V2026,
}

pub(super) fn check(request: &Received, body: &Object) -> RequestCheck {
    let version = match request.header("anthropic-version") {
        Some("2023-06-01") => Version::V2023,
        Some("2026-10-21") => Version::V2026,
        Some(other) => return refuse(format!("anthropic-version: \"{other}\" is not a valid version")),
        None => return refuse("anthropic-version: header is required"),
    };
    if let Some(field) = body.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return refuse(format!("{field}: Extra inputs are not permitted"));
    }
    limits(body, version)?;
    thinking(body)?;
    output_config(body)?;
    tools(body)?;
    system(body)?;
    messages::check(body, version)
}

fn limits(body: &Object, version: Version) -> RequestCheck {
    match body.get("max_tokens") {
        None => return refuse("max_tokens: Field required"),
        Some(limit) if limit.as_u64().is_none_or(|limit| limit == 0) => {
            return refuse("max_tokens: Input should be greater than or equal to 1");
        }
        Some(_) => {}
    }
    match version {
        Version::V2023 => {
            number(body, "temperature", (0.0, 1.0))?;
            number(body, "top_p", (0.0, 1.0))
        }
        Version::V2026 => match SAMPLING.iter().find(|field| body.contains_key(**field)) {
            Some(field) => refuse(format!("{field}: Extra inputs are not permitted")),
            None => Ok(()),
        },
    }
}

fn thinking(body: &Object) -> RequestCheck {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    let thinking = object(thinking, "thinking")?;
    match text(thinking, "type", "thinking")? {
        "disabled" => return fields(thinking, &["type"], "thinking"),
        "adaptive" => fields(thinking, &["type", "display"], "thinking")?,
        "enabled" => {
            fields(thinking, &["type", "budget_tokens", "display"], "thinking")?;
            let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or_default();
            if budget < MIN_BUDGET {
                return refuse(
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                );
            }
            if body.get("max_tokens").and_then(Value::as_u64).is_none_or(|limit| limit <= budget) {
                return refuse("`max_tokens` must be greater than `thinking.budget_tokens`");
            }
        }
        other => return refuse(format!("thinking: Input tag '{other}' found using 'type' is not known")),
    }
    if body.get("temperature").is_some_and(|temperature| temperature.as_f64() != Some(1.0)) {
        return refuse("`temperature` may only be set to 1 when thinking is enabled");
    }
    if body
        .get("tool_choice")
        .is_some_and(|choice| choice.get("type").is_some_and(|kind| kind == "any" || kind == "tool"))
    {
        return refuse("Thinking may not be enabled when tool_choice forces tool use.");
    }
    Ok(())
}

fn output_config(body: &Object) -> RequestCheck {
    let Some(config) = body.get("output_config") else { return Ok(()) };
    let config = object(config, "output_config")?;
    fields(config, &["effort", "format"], "output_config")?;
    word(config, "effort", &["low", "medium", "high", "xhigh", "max"])?;
    let Some(format) = config.get("format") else { return Ok(()) };
    let place = "output_config.format";
    let format = object(format, place)?;
    fields(format, &["type", "schema"], place)?;
    if text(format, "type", place)? != "json_schema" {
        return refuse("output_config.format.type: Input should be 'json_schema'");
    }
    schema::as_anthropic(format.get("schema").unwrap_or(&Value::Null), "output_config.format.schema")
}

fn tools(body: &Object) -> RequestCheck {
    let mut names = Vec::new();
    for (at, tool) in body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let place = format!("tools.{at}");
        let tool = object(tool, &place)?;
        fields(tool, &["type", "name", "description", "input_schema", "strict", "cache_control"], &place)?;
        let name = text(tool, "name", &place)?;
        if !is_name(name, MAX_NAME_BYTES) {
            return refuse(format!("{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
        }
        if names.contains(&name) {
            return refuse("tools: Tool names must be unique.");
        }
        names.push(name);
        let schema = tool.get("input_schema").unwrap_or(&Value::Null);
        schema::of_object(schema, &format!("{place}.input_schema"))?;
        if tool.get("strict") == Some(&Value::Bool(true)) {
            schema::as_anthropic(schema, &format!("{place}.input_schema"))?;
        }
    }
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    let choice = object(choice, "tool_choice")?;
    fields(choice, &["type", "name", "disable_parallel_tool_use"], "tool_choice")?;
    if names.is_empty() {
        return refuse("tool_choice: may only be specified while providing tools");
    }
    word(choice, "type", &["auto", "any", "tool", "none"])
}

fn system(body: &Object) -> RequestCheck {
    let blocks = match body.get("system") {
        None | Some(Value::String(_)) => return Ok(()),
        Some(blocks) => elements_of(blocks, "system")?,
    };
    for (at, block) in blocks.iter().enumerate() {
        let place = format!("system.{at}");
        let block = object(block, &place)?;
        fields(block, &["type", "text", "cache_control", "citations"], &place)?;
        if text(block, "type", &place)? != "text" || text(block, "text", &place)?.is_empty() {
            return refuse("system: text content blocks must be non-empty");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
