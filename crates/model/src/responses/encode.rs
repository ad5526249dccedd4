//! A request as the body of a POST.

use protocol::Effort;
use serde_json::Value;

use super::wire::{Body, Function, Item, Reasoning, Text, TextFormat, Tool};
use crate::request::sent_by;
use crate::{Exchange, Format, Message, Request, ToolSpec};

/// The key under which the items of the model's reasoning are kept.
pub(super) const REASONING: &str = "reasoning";
/// Reasoning that only the provider can read. It comes back with the next request, because nothing is stored there.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// OpenAI refuses to be held to a shorter answer.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// The request's JSON. Pure: the same request gives the same bytes, which is what prompt caches go by. This protocol
/// has no penalties, so these are left out.
pub(super) fn body(request: &Request, provider: &str) -> Vec<u8> {
    let settings = &request.settings;
    let effort = settings.reasoning_effort.map(Effort::name);
    let (instructions, first) = system(request);
    let body = Body {
        model: &request.model,
        instructions,
        input: first.into_iter().chain(input(&request.messages, provider)).collect(),
        tools: request.tools.iter().map(tool).collect(),
        stream: request.stream,
        store: false,
        include: effort.map(|_| [ENCRYPTED]),
        reasoning: effort.map(|effort| Reasoning { effort, summary: "auto" }),
        text: format(&request.format).map(|format| Text { format }),
        temperature: settings.temperature,
        top_p: settings.top_p,
        max_output_tokens: settings.max_tokens.map(|tokens| tokens.max(MIN_OUTPUT_TOKENS)),
    };
    request.encoded(&body)
}

/// The system's text as instructions, or as the first item: whoever wants JSON must say so in the input itself.
fn system(request: &Request) -> (&str, Option<Item<'_>>) {
    let content = request.system.as_str();
    match request.format {
        Format::Json if !content.is_empty() => ("", Some(Item::Message { role: "system", content })),
        Format::Text | Format::Json | Format::Schema(_) => (content, None),
    }
}

fn format(format: &Format) -> Option<TextFormat<'_>> {
    match format {
        Format::Text => None,
        Format::Json => Some(TextFormat::JsonObject),
        Format::Schema(schema) => {
            Some(TextFormat::JsonSchema { name: &schema.name, strict: true, schema: &schema.schema })
        }
    }
}

fn input<'a>(messages: &'a [Message], provider: &str) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            Message::System(content) => items.push(Item::Message { role: "system", content }),
            Message::User(content) => items.push(Item::Message { role: "user", content }),
            Message::Assistant { text, exchanges, provider: opaque } => {
                if !text.is_empty() {
                    items.push(Item::Message { role: "assistant", content: text });
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

fn reasoning<'a>(opaque: Option<&'a Value>, provider: &str) -> impl Iterator<Item = Item<'a>> {
    let items = sent_by(opaque, provider).and_then(|own| own.get(REASONING)?.as_array());
    items.into_iter().flatten().map(Item::Opaque)
}

fn call(exchange: &Exchange) -> Item<'_> {
    let arguments = exchange.arguments();
    Item::Function(Function::Call { call_id: exchange.id, name: &exchange.name, arguments })
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn output(exchange: &Exchange) -> Item<'_> {
    Item::Function(Function::Output { call_id: exchange.id, output: &exchange.result.text })
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool::Function {
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.parameters,
        strict: false,
    }
}
