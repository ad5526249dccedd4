//! A request as the body of a POST.

use protocol::Effort;
use serde_json::{Value, json};

use super::{Quirks, TokenLimit};
use crate::request::{data_url, list_or_null, sent_by, without_nulls};
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage, ToolSpec, UserTurn};

/// The key under which the extra content of calls is kept, by their index.
pub(super) const EXTRA: &str = "extra";

/// The request's JSON.
pub(super) fn body(request: &ModelRequest, provider: &str, quirks: Quirks) -> Vec<u8> {
    let settings = &request.settings;
    let known_as = if request.other_limit { quirks.token_limit.other_name() } else { quirks.token_limit };
    let limit = |name| settings.max_tokens.filter(|_| known_as == name);
    let counted = request.stream && !request.no_stream_options;
    request.encoded(json!({
        "model": request.model,
        "messages": messages(request, provider),
        "tools": list_or_null(request.tools.iter().map(function_tool)),
        "stream": request.stream,
        "stream_options": counted.then(|| json!({ "include_usage": true })),
        "response_format": response_format(&request.format),
        "reasoning_effort": settings.reasoning_effort.map(Effort::name),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "frequency_penalty": settings.frequency_or_repeat_penalty(),
        "presence_penalty": settings.presence_penalty,
        "max_completion_tokens": limit(TokenLimit::MaxCompletionTokens),
        "max_tokens": limit(TokenLimit::MaxTokens),
    }))
}

fn response_format(format: &AnswerFormat) -> Option<Value> {
    match format {
        AnswerFormat::Text => None,
        AnswerFormat::Json => Some(json!({ "type": "json_object" })),
        AnswerFormat::Schema(schema) => {
            let schema = json!({ "name": schema.name, "strict": schema.strict, "schema": schema.schema });
            Some(json!({ "type": "json_schema", "json_schema": schema }))
        }
    }
}

/// A tool, as Ollama writes it too.
pub(crate) fn function_tool(spec: &ToolSpec) -> Value {
    let description = Some(&spec.description).filter(|description| !description.is_empty());
    let function = json!({ "name": spec.name, "description": description, "parameters": spec.parameters });
    json!({ "type": "function", "function": without_nulls(function) })
}

fn messages(request: &ModelRequest, provider: &str) -> Vec<Value> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for message in &request.messages {
        match message {
            PromptMessage::System(content) => messages.push(json!({ "role": "system", "content": content })),
            PromptMessage::User(said) => messages.push(json!({ "role": "user", "content": content(said) })),
            PromptMessage::Assistant { text, exchanges, provider: opaque } => {
                messages.push(assistant(text, exchanges, sent_by(opaque.as_ref(), provider)));
                messages.extend(exchanges.iter().map(result));
            }
        }
    }
    messages
}

/// A string, or a list of parts where there is more than text: images first, which models read best.
fn content(said: &UserTurn) -> Value {
    let mut parts: Vec<Value> = said
        .images_with_content()
        .map(|image| json!({ "type": "image_url", "image_url": { "url": data_url(image) } }))
        .collect();
    if parts.is_empty() {
        return Value::from(said.text.as_str());
    }
    if !said.text.is_empty() {
        parts.push(json!({ "type": "text", "text": said.text }));
    }
    parts.into()
}

fn assistant(text: &str, exchanges: &[Exchange], opaque: Option<&Value>) -> Value {
    if exchanges.is_empty() {
        return json!({ "role": "assistant", "content": text });
    }
    let extra = opaque.and_then(|opaque| opaque.get(EXTRA)?.as_object());
    let call = |(index, exchange): (usize, &Exchange)| {
        without_nulls(json!({
            "id": exchange.id,
            "type": "function",
            // An object as a string that holds its JSON.
            "function": { "name": exchange.name, "arguments": exchange.arguments().to_string() },
            // Content that the server sent with the call and wants back.
            "extra_content": extra.and_then(|extra| extra.get(&index.to_string())),
        }))
    };
    let calls: Vec<Value> = exchanges.iter().enumerate().map(call).collect();
    // Null when there are only calls.
    let content = Some(text).filter(|text| !text.is_empty());
    json!({ "role": "assistant", "content": content, "tool_calls": calls })
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn result(exchange: &Exchange) -> Value {
    json!({ "role": "tool", "tool_call_id": exchange.id, "content": exchange.result.text })
}
