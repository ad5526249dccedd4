//! A request as the body of a POST.

use protocol::Effort;
use serde_json::Value;

use super::AnthropicVersion;
use super::schema;
use super::wire::{
    AnthropicArguments, AnthropicBlock, AnthropicBody, AnthropicContent, AnthropicMessage,
    AnthropicOutputFormat, AnthropicOwnBlock, AnthropicRole, AnthropicTool, CacheControl, OutputConfig,
    Thinking,
};
use crate::request::sent_by;
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage, ToolSpec};

/// The key under which blocks of thinking are kept, in their order.
pub(super) const THINKING: &str = "thinking";

/// The longest answer when nobody says how long it may be; the protocol insists on a number.
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
    let body = AnthropicBody {
        model: &request.model,
        max_tokens,
        system: system(&request.system, opening),
        messages: messages(turns, provider),
        tools: tools(request),
        stream: request.stream,
        thinking: budget.map(|budget_tokens| Thinking::Enabled { budget_tokens }),
        output_config: output_config(request, version),
        temperature: temperature.map(|temperature| temperature.clamp(0.0, 1.0)),
        top_p: sampling.and_then(|settings| settings.top_p).filter(|_| temperature.is_none()),
    };
    request.encoded(&body)
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
    // What the user or the system says after results goes into one message with them.
    let messages = request.messages.iter().rev();
    let calling = messages.skip_while(|message| !matches!(message, PromptMessage::Assistant { .. }));
    calling.map_while(has_thought).all(|thought| thought)
}

fn output_config(request: &ModelRequest, version: AnthropicVersion) -> Option<OutputConfig> {
    let effort = match (version, request.settings.reasoning_effort) {
        (AnthropicVersion::V2023, _) | (_, None | Some(Effort::None)) => None,
        (AnthropicVersion::V2026, Some(Effort::Minimal | Effort::Low)) => Some("low"),
        (AnthropicVersion::V2026, Some(Effort::Medium)) => Some("medium"),
        (AnthropicVersion::V2026, Some(Effort::High)) => Some("high"),
    };
    let format = match &request.format {
        AnswerFormat::Text | AnswerFormat::Json => None,
        AnswerFormat::Schema(schema) => {
            Some(AnthropicOutputFormat::JsonSchema { schema: schema::accepted_schema(&schema.schema) })
        }
    };
    (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format })
}

/// The system's text, and what it is told before the first turn. Only the first is marked, because it stays the same
/// when the others change.
fn system<'a>(first: &'a str, opening: impl Iterator<Item = &'a str>) -> Vec<AnthropicBlock<'a>> {
    let mut blocks: Vec<AnthropicBlock<'_>> =
        std::iter::once(first).chain(opening).filter_map(text).map(AnthropicBlock::from).collect();
    if let Some(first) = blocks.first_mut() {
        first.cache_control = Some(CacheControl::Ephemeral);
    }
    blocks
}

/// The last one is marked, so that the provider keeps them all.
fn tools(request: &ModelRequest) -> Vec<AnthropicTool<'_>> {
    let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    tools
}

fn tool(spec: &ToolSpec) -> AnthropicTool<'_> {
    AnthropicTool {
        name: &spec.name,
        description: &spec.description,
        input_schema: &spec.parameters,
        cache_control: None,
    }
}

/// Messages in which the roles alternate, beginning with the user's. The last block is marked, so that the next request
/// of a growing conversation finds everything up to here kept. The system has no turn of its own, and speaks in the
/// user's.
fn messages<'a>(turns: &'a [PromptMessage], provider: &str) -> Vec<AnthropicMessage<'a>> {
    let mut messages = Vec::with_capacity(turns.len() * 2);
    for message in turns {
        match message {
            PromptMessage::User(said) | PromptMessage::System(said) => {
                append(&mut messages, AnthropicRole::User, text(said))
            }
            PromptMessage::Assistant { text: said, exchanges, provider: opaque } => {
                let mut said = text(said).into_iter().chain(exchanges.iter().map(call)).peekable();
                // The provider refuses a message that ends with thinking.
                if said.peek().is_some() {
                    let thoughts = thinking(opaque.as_ref(), provider).map(AnthropicContent::Opaque);
                    append(&mut messages, AnthropicRole::Assistant, thoughts.chain(said));
                }
                append(&mut messages, AnthropicRole::User, exchanges.iter().map(result));
            }
        }
    }
    if messages.first().is_none_or(|message| message.role != AnthropicRole::User) {
        let begin = AnthropicContent::Own(AnthropicOwnBlock::Text { text: GOES_ON });
        messages.insert(0, AnthropicMessage { role: AnthropicRole::User, content: vec![begin.into()] });
    }
    if let Some(last) = messages.last_mut().and_then(|message| message.content.last_mut()) {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    messages
}

/// Adds blocks to the last message if it is of this role, and as a new message if it is not.
fn append<'a>(
    messages: &mut Vec<AnthropicMessage<'a>>,
    role: AnthropicRole,
    blocks: impl IntoIterator<Item = AnthropicContent<'a>>,
) {
    let mut blocks = blocks.into_iter().map(AnthropicBlock::from).peekable();
    if blocks.peek().is_none() {
        return;
    }
    match messages.last_mut() {
        Some(message) if message.role == role => message.content.extend(blocks),
        Some(_) | None => messages.push(AnthropicMessage { role, content: blocks.collect() }),
    }
}

/// Blank text is refused, so there is no block for it.
fn text(text: &str) -> Option<AnthropicContent<'_>> {
    (!text.trim().is_empty()).then_some(AnthropicContent::Own(AnthropicOwnBlock::Text { text }))
}

fn call(exchange: &Exchange) -> AnthropicContent<'_> {
    AnthropicContent::Own(AnthropicOwnBlock::ToolUse {
        id: exchange.id,
        name: &exchange.name,
        input: AnthropicArguments(&exchange.input),
    })
}

fn result(exchange: &Exchange) -> AnthropicContent<'_> {
    let text = &exchange.result.text;
    let content = if text.trim().is_empty() { EMPTY } else { text };
    AnthropicContent::Own(AnthropicOwnBlock::ToolResult {
        tool_use_id: exchange.id,
        content,
        is_error: !exchange.result.success,
    })
}

/// The blocks of thinking that this provider sent with a turn.
fn thinking<'a>(opaque: Option<&'a Value>, provider: &str) -> impl Iterator<Item = &'a Value> {
    sent_by(opaque, provider).and_then(|own| own.get(THINKING)?.as_array()).into_iter().flatten()
}
