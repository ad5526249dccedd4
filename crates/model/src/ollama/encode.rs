//! A request as the body of a POST.

use std::collections::BTreeMap;

use protocol::{Effort, Settings};
use serde_json::{Map, Value, json};

use crate::chat::function_tool;
use crate::request::{base64_of, list_or_null, without_nulls};
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage};

/// Fields of the provider's own that stand beside the options; all others are options.
const BESIDE_OPTIONS: [&str; 4] = ["keep_alive", "think", "format", "logprobs"];

/// The request's JSON. Pure: the same request gives the same bytes, which is what prompt caches go by.
pub(super) fn body(request: &ModelRequest) -> Vec<u8> {
    let body = json!({
        "model": request.model,
        "messages": messages(request),
        "tools": list_or_null(request.tools.iter().map(function_tool)),
        "stream": request.stream,
        "options": options(&request.settings, &request.extra),
    });
    let mut body = without_nulls(body);
    if let Value::Object(fields) = &mut body {
        fields.extend(fields_beside_options(request));
    }
    body.to_string().into_bytes()
}

/// None if nothing is set.
fn options(settings: &Settings, extra: &Map<String, Value>) -> Option<Map<String, Value>> {
    let set = [
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("repeat_penalty", settings.repeat_penalty.map(Value::from)),
        ("frequency_penalty", settings.frequency_penalty.map(Value::from)),
        ("presence_penalty", settings.presence_penalty.map(Value::from)),
        ("num_predict", settings.max_tokens.map(Value::from)),
    ];
    let set = set.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let own = extra.iter().filter(|(name, _)| !BESIDE_OPTIONS.contains(&name.as_str()));
    let options: Map<_, _> = set.chain(own.map(|(name, value)| (name.clone(), value.clone()))).collect();
    (!options.is_empty()).then_some(options)
}

fn fields_beside_options(request: &ModelRequest) -> BTreeMap<String, Value> {
    let format = match &request.format {
        AnswerFormat::Text => None,
        AnswerFormat::Json => Some(Value::from("json")),
        AnswerFormat::Schema(schema) => Some(schema.schema.clone()),
    };
    let set = [("format", format), ("think", request.settings.reasoning_effort.map(think))];
    let set = set.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let own = BESIDE_OPTIONS.into_iter().filter_map(|name| Some((name, request.extra.get(name)?.clone())));
    set.chain(own).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn think(effort: Effort) -> Value {
    match effort {
        Effort::None => Value::from(false),
        Effort::Minimal | Effort::Low => Value::from("low"),
        Effort::Medium => Value::from("medium"),
        Effort::High => Value::from("high"),
    }
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for message in &request.messages {
        match message {
            PromptMessage::System(content) => messages.push(json!({ "role": "system", "content": content })),
            PromptMessage::User(said) => {
                let images = list_or_null(
                    said.images_with_content().map(|(_, content)| Value::from(base64_of(content))),
                );
                let message = json!({ "role": "user", "content": said.text, "images": images });
                messages.push(without_nulls(message));
            }
            PromptMessage::Assistant { text, exchanges, provider: _ } => {
                let calls = list_or_null(exchanges.iter().enumerate().map(call));
                let message = json!({ "role": "assistant", "content": text, "tool_calls": calls });
                messages.push(without_nulls(message));
                messages.extend(exchanges.iter().map(result));
            }
        }
    }
    messages
}

/// Anything but an object is written as an empty one, which is all that Ollama takes.
fn call((index, exchange): (usize, &Exchange)) -> Value {
    let arguments: BTreeMap<_, _> = exchange.input.as_object().into_iter().flatten().collect();
    let function = json!({ "index": index, "name": exchange.name, "arguments": arguments });
    json!({ "id": exchange.id, "function": function })
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn result(exchange: &Exchange) -> Value {
    json!({
        "role": "tool",
        "tool_name": exchange.name,
        "tool_call_id": exchange.id,
        "content": exchange.result.text,
    })
}
