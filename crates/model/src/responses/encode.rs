//! A request as the body of a POST.

use protocol::Effort;
use serde_json::{Value, json};

use crate::request::{data_url, list_or_null, sent_by, without_nulls};
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage, ToolSpec, UserTurn};

/// The key under which the items of the model's reasoning are kept.
pub(super) const REASONING: &str = "reasoning";
/// Reasoning that only the provider can read. It comes back with the next request, because nothing is stored there.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// OpenAI refuses to be held to a shorter answer.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// The request's JSON. Pure: the same request gives the same bytes, which is what prompt caches go by. This protocol
/// has no penalties, so these are left out.
pub(super) fn body(request: &ModelRequest, provider: &str) -> Vec<u8> {
    let settings = &request.settings;
    let effort = settings.reasoning_effort.map(Effort::name);
    let (instructions, first) = system(request);
    let input: Vec<Value> = first.into_iter().chain(input(&request.messages, provider)).collect();
    request.encoded(json!({
        "model": request.model,
        "instructions": instructions,
        "input": input,
        "tools": list_or_null(request.tools.iter().map(tool)),
        "stream": request.stream,
        "store": false,
        "include": effort.map(|_| [ENCRYPTED]),
        "reasoning": effort.map(|effort| json!({ "effort": effort, "summary": "auto" })),
        "text": format(&request.format).map(|format| json!({ "format": format })),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_tokens.map(|tokens| tokens.max(MIN_OUTPUT_TOKENS)),
    }))
}

/// The system's text as instructions, or as the first item: a request for JSON must say so in the input itself.
fn system(request: &ModelRequest) -> (Option<&str>, Option<Value>) {
    let content = Some(request.system.as_str()).filter(|content| !content.is_empty());
    match request.format {
        AnswerFormat::Json => (None, content.map(|content| message("system", content))),
        AnswerFormat::Text | AnswerFormat::Schema(_) => (content, None),
    }
}

fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

fn format(format: &AnswerFormat) -> Option<Value> {
    match format {
        AnswerFormat::Text => None,
        AnswerFormat::Json => Some(json!({ "type": "json_object" })),
        AnswerFormat::Schema(schema) => Some(
            json!({ "type": "json_schema", "name": schema.name, "strict": schema.strict, "schema": schema.schema }),
        ),
    }
}

fn input(messages: &[PromptMessage], provider: &str) -> Vec<Value> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            PromptMessage::System(content) => items.push(self::message("system", content)),
            PromptMessage::User(said) => items.push(json!({ "role": "user", "content": content(said) })),
            PromptMessage::Assistant { text, exchanges, provider: opaque } => {
                if !text.is_empty() {
                    items.push(self::message("assistant", text));
                }
                // Reasoning that nothing follows is refused, and once the calls are answered it is of no more use.
                if !exchanges.is_empty() {
                    items.extend(reasoning(opaque.as_ref(), provider));
                }
                items.extend(exchanges.iter().map(call));
                items.extend(exchanges.iter().map(output));
            }
        }
    }
    items
}

/// A string, or a list of parts where there is more than text: images first, which models read best.
fn content(said: &UserTurn) -> Value {
    let mut parts: Vec<Value> = said
        .images_with_content()
        .map(|image| json!({ "type": "input_image", "image_url": data_url(image) }))
        .collect();
    if parts.is_empty() {
        return Value::from(said.text.as_str());
    }
    if !said.text.is_empty() {
        parts.push(json!({ "type": "input_text", "text": said.text }));
    }
    parts.into()
}

fn reasoning(opaque: Option<&Value>, provider: &str) -> impl Iterator<Item = Value> {
    let items = sent_by(opaque, provider).and_then(|own| own.get(REASONING)?.as_array());
    items.into_iter().flatten().cloned()
}

fn call(exchange: &Exchange) -> Value {
    let arguments = exchange.arguments().to_string();
    json!({ "type": "function_call", "call_id": exchange.id, "name": exchange.name, "arguments": arguments })
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn output(exchange: &Exchange) -> Value {
    json!({ "type": "function_call_output", "call_id": exchange.id, "output": exchange.result.text })
}

fn tool(spec: &ToolSpec) -> Value {
    without_nulls(json!({
        "type": "function",
        "name": spec.name,
        "description": Some(&spec.description).filter(|description| !description.is_empty()),
        "parameters": spec.parameters,
        "strict": false,
    }))
}
