//! A request as the body of a POST.

use protocol::Effort;
use serde_json::Value;

use super::wire::{
    ResponsesBody, ResponsesFunction, ResponsesItem, ResponsesReasoning, ResponsesText, ResponsesTool,
    TextFormat,
};
use crate::request::sent_by;
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage, ToolSpec};

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
    let body = ResponsesBody {
        model: &request.model,
        instructions,
        input: first.into_iter().chain(input(&request.messages, provider)).collect(),
        tools: request.tools.iter().map(tool).collect(),
        stream: request.stream,
        store: false,
        include: effort.map(|_| [ENCRYPTED]),
        reasoning: effort.map(|effort| ResponsesReasoning { effort, summary: "auto" }),
        text: format(&request.format).map(|format| ResponsesText { format }),
        temperature: settings.temperature,
        top_p: settings.top_p,
        max_output_tokens: settings.max_tokens.map(|tokens| tokens.max(MIN_OUTPUT_TOKENS)),
    };
    request.encoded(&body)
}

/// The system's text as instructions, or as the first item: whoever wants JSON must say so in the input itself.
fn system(request: &ModelRequest) -> (&str, Option<ResponsesItem<'_>>) {
    let content = request.system.as_str();
    match request.format {
        AnswerFormat::Json if !content.is_empty() => {
            ("", Some(ResponsesItem::Message { role: "system", content }))
        }
        AnswerFormat::Text | AnswerFormat::Json | AnswerFormat::Schema(_) => (content, None),
    }
}

fn format(format: &AnswerFormat) -> Option<TextFormat<'_>> {
    match format {
        AnswerFormat::Text => None,
        AnswerFormat::Json => Some(TextFormat::JsonObject),
        AnswerFormat::Schema(schema) => {
            Some(TextFormat::JsonSchema { name: &schema.name, strict: true, schema: &schema.schema })
        }
    }
}

fn input<'a>(messages: &'a [PromptMessage], provider: &str) -> Vec<ResponsesItem<'a>> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            PromptMessage::System(content) => items.push(ResponsesItem::Message { role: "system", content }),
            PromptMessage::User(content) => items.push(ResponsesItem::Message { role: "user", content }),
            PromptMessage::Assistant { text, exchanges, provider: opaque } => {
                if !text.is_empty() {
                    items.push(ResponsesItem::Message { role: "assistant", content: text });
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

fn reasoning<'a>(opaque: Option<&'a Value>, provider: &str) -> impl Iterator<Item = ResponsesItem<'a>> {
    let items = sent_by(opaque, provider).and_then(|own| own.get(REASONING)?.as_array());
    items.into_iter().flatten().map(ResponsesItem::Opaque)
}

fn call(exchange: &Exchange) -> ResponsesItem<'_> {
    let arguments = exchange.arguments();
    ResponsesItem::Function(ResponsesFunction::Call { call_id: exchange.id, name: &exchange.name, arguments })
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn output(exchange: &Exchange) -> ResponsesItem<'_> {
    ResponsesItem::Function(ResponsesFunction::Output { call_id: exchange.id, output: &exchange.result.text })
}

fn tool(spec: &ToolSpec) -> ResponsesTool<'_> {
    ResponsesTool::Function {
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.parameters,
        strict: false,
    }
}
