//! A request as the body of a POST.

use protocol::Effort;
use serde_json::Value;

use super::wire::{
    ChatBody, ChatCall, ChatCalledFunction, ChatFunctionTag, ChatJsonSchema, CompletionMessage,
    ResponseFormat, StreamOptions,
};
use super::{Quirks, TokenLimit};
use crate::request::sent_by;
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage};

/// The key under which the extra content of calls is kept, by their index.
pub(super) const EXTRA: &str = "extra";

/// The request's JSON.
pub(super) fn body(request: &ModelRequest, provider: &str, quirks: Quirks) -> Vec<u8> {
    let settings = &request.settings;
    let known_as = if request.other_limit { quirks.token_limit.other() } else { quirks.token_limit };
    let limit = |name| settings.max_tokens.filter(|_| known_as == name);
    let counted = request.stream && !request.no_stream_options;
    let body = ChatBody {
        model: &request.model,
        messages: messages(request, provider),
        tools: request.tools.iter().map(Into::into).collect(),
        stream: request.stream,
        stream_options: counted.then_some(StreamOptions { include_usage: true }),
        response_format: response_format(&request.format),
        reasoning_effort: settings.reasoning_effort.map(Effort::name),
        temperature: settings.temperature,
        top_p: settings.top_p,
        frequency_penalty: settings.frequency_or_repeat_penalty(),
        presence_penalty: settings.presence_penalty,
        max_completion_tokens: limit(TokenLimit::MaxCompletionTokens),
        max_tokens: limit(TokenLimit::MaxTokens),
    };
    request.encoded(&body)
}

fn response_format(format: &AnswerFormat) -> Option<ResponseFormat<'_>> {
    match format {
        AnswerFormat::Text => None,
        AnswerFormat::Json => Some(ResponseFormat::JsonObject),
        AnswerFormat::Schema(schema) => Some(ResponseFormat::JsonSchema {
            json_schema: ChatJsonSchema { name: &schema.name, strict: true, schema: &schema.schema },
        }),
    }
}

fn messages<'a>(request: &'a ModelRequest, provider: &str) -> Vec<CompletionMessage<'a>> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(CompletionMessage::System { content: &request.system });
    }
    for message in &request.messages {
        match message {
            PromptMessage::System(content) => messages.push(CompletionMessage::System { content }),
            PromptMessage::User(content) => messages.push(CompletionMessage::User { content }),
            PromptMessage::Assistant { text, exchanges, provider: opaque } => {
                messages.push(assistant(text, exchanges, sent_by(opaque.as_ref(), provider)));
                messages.extend(exchanges.iter().map(result));
            }
        }
    }
    messages
}

fn assistant<'a>(
    text: &'a str,
    exchanges: &'a [Exchange],
    opaque: Option<&'a Value>,
) -> CompletionMessage<'a> {
    let extra = opaque.and_then(|opaque| opaque.get(EXTRA)?.as_object());
    let tool_calls = exchanges.iter().enumerate().map(|(index, exchange)| ChatCall {
        id: exchange.id,
        kind: ChatFunctionTag::Function,
        function: ChatCalledFunction { name: &exchange.name, arguments: exchange.arguments() },
        extra_content: extra.and_then(|extra| extra.get(&index.to_string())),
    });
    let content = Some(text).filter(|text| !text.is_empty() || exchanges.is_empty());
    CompletionMessage::Assistant { content, tool_calls: tool_calls.collect() }
}

/// Whether the call succeeded is not told apart: this protocol has no place for it but the text.
fn result(exchange: &Exchange) -> CompletionMessage<'_> {
    CompletionMessage::Tool { tool_call_id: exchange.id, content: &exchange.result.text }
}
