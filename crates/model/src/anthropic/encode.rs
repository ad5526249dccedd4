//! A request as the body of a POST.

use protocol::Effort;
use serde_json::{Value, json};

use super::AnthropicVersion;
use super::schema;
use crate::request::{base64_of, list_or_null, sent_by, without_nulls};
use crate::{AnswerFormat, Exchange, ModelRequest, PromptImage, PromptMessage, ToolSpec};

/// The key under which blocks of thinking are kept, in their order.
pub(super) const THINKING: &str = "thinking";

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// The longest answer when the request sets no limit. The protocol requires a number.
const DEFAULT_MAX_TOKENS: u32 = 4096;
/// Tokens of thinking, which the older version wants counted.
const LOW_BUDGET: u32 = 2048;
const MEDIUM_BUDGET: u32 = 8192;
const HIGH_BUDGET: u32 = 16_384;
/// The smallest budget the provider takes.
const LEAST_BUDGET: u32 = 1024;

/// The words in place of the user's where a conversation does not begin with them.
const GOES_ON: &str = "(the conversation goes on)";
/// The words in place of a result without text, because the provider refuses an empty one that is an error.
const EMPTY: &str = "(empty)";

/// The request's JSON. Pure: the same request gives the same bytes.
pub(super) fn body(request: &ModelRequest, provider: &str, version: AnthropicVersion) -> Vec<u8> {
    let (max_tokens, budget) = tokens(request, provider, version);
    // Thinking and sampling exclude each other, and newer models take only one of the two parameters.
    let sampling = (version == AnthropicVersion::V2023 && budget.is_none()).then_some(&request.settings);
    let temperature = sampling.and_then(|settings| settings.temperature);
    let (opening, turns) = request.opening();
    request.encoded(json!({
        "model": request.model,
        "max_tokens": max_tokens,
        "system": system(&request.system, opening),
        "messages": messages(turns, provider),
        "tools": tools(request),
        "stream": request.stream,
        "thinking": budget.map(|budget| json!({ "type": "enabled", "budget_tokens": budget })),
        "output_config": output_config(request, version),
        "temperature": temperature.map(|temperature| temperature.clamp(0.0, 1.0)),
        "top_p": sampling.and_then(|settings| settings.top_p).filter(|_| temperature.is_none()),
    }))
}

/// The longest answer, and how much of it may be thinking. Both fit into what the model can give.
fn tokens(request: &ModelRequest, provider: &str, version: AnthropicVersion) -> (u32, Option<u32>) {
    let most = request.max_output.unwrap_or(u32::MAX);
    let asked = request.settings.max_tokens.or(request.max_output).unwrap_or(DEFAULT_MAX_TOKENS);
    let wanted = match (version, request.settings.reasoning_effort) {
        (AnthropicVersion::V2026, _) | (_, None | Some(Effort::None | Effort::Minimal)) => None,
        (AnthropicVersion::V2023, Some(Effort::Low)) => Some(LOW_BUDGET),
        (AnthropicVersion::V2023, Some(Effort::Medium)) => Some(MEDIUM_BUDGET),
        (AnthropicVersion::V2023, Some(Effort::High)) => Some(HIGH_BUDGET),
    };
    let Some(wanted) = wanted.filter(|_| may_think(request, provider)) else {
        return (asked, None);
    };
    let max_tokens = asked.saturating_add(wanted).min(most.max(asked));
    let budget = if wanted < max_tokens { wanted } else { max_tokens / 2 };
    if budget < LEAST_BUDGET { (asked, None) } else { (max_tokens, Some(budget)) }
}

/// When the last message holds results, the provider refuses to think unless it thought before each of the calls. For
/// calls that another provider made it has not.
fn may_think(request: &ModelRequest, provider: &str) -> bool {
    let has_thought = |message: &PromptMessage| match message {
        PromptMessage::Assistant { exchanges, provider: opaque, .. } if !exchanges.is_empty() => {
            Some(thinking(opaque.as_ref(), provider).next().is_some())
        }
        PromptMessage::Assistant { .. } | PromptMessage::User(_) | PromptMessage::System(_) => None,
    };
    // Messages of the user or the system after results go into one message with them.
    let messages = request.messages.iter().rev();
    let calling = messages.skip_while(|message| !matches!(message, PromptMessage::Assistant { .. }));
    calling.map_while(has_thought).all(|thought| thought)
}

fn output_config(request: &ModelRequest, version: AnthropicVersion) -> Option<Value> {
    let effort = match (version, request.settings.reasoning_effort) {
        (AnthropicVersion::V2023, _) | (_, None | Some(Effort::None)) => None,
        (AnthropicVersion::V2026, Some(Effort::Minimal | Effort::Low)) => Some("low"),
        (AnthropicVersion::V2026, Some(Effort::Medium)) => Some("medium"),
        (AnthropicVersion::V2026, Some(Effort::High)) => Some("high"),
    };
    let format = match &request.format {
        AnswerFormat::Text | AnswerFormat::Json => None,
        // The provider refuses objects that are not closed; the prompt says what is wanted.
        AnswerFormat::Schema(schema) if !schema.strict => None,
        AnswerFormat::Schema(schema) => {
            Some(json!({ "type": "json_schema", "schema": schema::accepted_schema(&schema.schema) }))
        }
    };
    (effort.is_some() || format.is_some())
        .then(|| without_nulls(json!({ "effort": effort, "format": format })))
}

/// The system's text, and what it is told before the first turn. Only the first is marked, because it stays the same
/// when the others change.
fn system<'a>(first: &'a str, opening: impl Iterator<Item = &'a str>) -> Value {
    let mut blocks = list_or_null(std::iter::once(first).chain(opening).filter_map(text));
    mark(blocks.get_mut(0));
    blocks
}

/// The last one is marked, so that the provider keeps them all.
fn tools(request: &ModelRequest) -> Value {
    let mut tools = list_or_null(request.tools.iter().map(tool));
    mark(tools.as_array_mut().and_then(|tools| tools.last_mut()));
    tools
}

fn tool(spec: &ToolSpec) -> Value {
    let description = Some(&spec.description).filter(|description| !description.is_empty());
    without_nulls(json!({ "name": spec.name, "description": description, "input_schema": spec.parameters }))
}

/// Marks a block or a tool, so that the provider keeps the prompt up to its end.
fn mark(block: Option<&mut Value>) {
    if let Some(fields) = block.and_then(Value::as_object_mut) {
        fields.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
    }
}

/// Messages in which the roles alternate, beginning with the user's. The last block is marked, so that the next request
/// of a growing conversation finds everything up to here kept. The system has no turn of its own, and speaks in the
/// user's.
fn messages(turns: &[PromptMessage], provider: &str) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::with_capacity(turns.len() * 2);
    for message in turns {
        match message {
            PromptMessage::User(said) => {
                append(
                    &mut messages,
                    USER,
                    said.images_with_content().map(image).chain(text(&said.text)).collect(),
                );
            }
            PromptMessage::System(said) => append(&mut messages, USER, text(said).into_iter().collect()),
            PromptMessage::Assistant { text: said, exchanges, provider: opaque } => {
                let said: Vec<Value> = text(said).into_iter().chain(exchanges.iter().map(call)).collect();
                // The provider refuses a message that ends with thinking.
                if !said.is_empty() {
                    let thoughts = thinking(opaque.as_ref(), provider).cloned();
                    append(&mut messages, ASSISTANT, thoughts.chain(said).collect());
                }
                append(&mut messages, USER, exchanges.iter().map(result).collect());
            }
        }
    }
    if messages.first().is_none_or(|(role, _)| *role != USER) {
        messages.insert(0, (USER, text(GOES_ON).into_iter().collect()));
    }
    mark(messages.last_mut().and_then(|(_, blocks)| blocks.last_mut()));
    messages.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

/// Adds blocks to the last message if it is of this role, and as a new message if it is not.
fn append(messages: &mut Vec<(&str, Vec<Value>)>, role: &'static str, blocks: Vec<Value>) {
    match messages.last_mut() {
        _ if blocks.is_empty() => {}
        Some((last, content)) if *last == role => content.extend(blocks),
        Some(_) | None => messages.push((role, blocks)),
    }
}

/// Blank text is refused, so there is no block for it.
fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn image((image, content): (&PromptImage, &[u8])) -> Value {
    let source = json!({ "type": "base64", "media_type": image.media_type, "data": base64_of(content) });
    json!({ "type": "image", "source": source })
}

fn call(exchange: &Exchange) -> Value {
    json!({ "type": "tool_use", "id": exchange.id, "name": exchange.name, "input": exchange.arguments() })
}

fn result(exchange: &Exchange) -> Value {
    let text = &exchange.result.text;
    without_nulls(json!({
        "type": "tool_result",
        "tool_use_id": exchange.id,
        "content": if text.trim().is_empty() { EMPTY } else { text },
        "is_error": (!exchange.result.success).then_some(true),
    }))
}

/// The blocks of thinking that this provider sent with a turn.
fn thinking<'a>(opaque: Option<&'a Value>, provider: &str) -> impl Iterator<Item = &'a Value> {
    sent_by(opaque, provider).and_then(|own| own.get(THINKING)?.as_array()).into_iter().flatten()
}
