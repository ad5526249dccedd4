//! The tokens of a prompt and its parts, with what the provider puts around each. A request is never counted as more
//! than its parts together.

use std::sync::Arc;

use serde_json::Value;

use super::Counter;
use crate::{AnswerFormat, Exchange, ModelRequest, PromptMessage, ToolSpec};

/// Tokens that OpenAI puts around a message: three tokens, and the name of its role.
const MESSAGE: usize = 4;
/// Tokens that begin the answer.
const REPLY: usize = 3;
/// Tokens around a call; its result is a message.
const CALL: usize = 8;
/// Tokens around a tool's description, or around the schema of the answer.
const TOOL: usize = 12;
/// Only the provider can read what it wants back, so only its size is known.
const OPAQUE_BYTES_PER_TOKEN: usize = 3;

impl Counter {
    /// The tokens of the system's text, with what every request has beside its messages.
    pub fn system(&self, text: &str) -> usize {
        self.scaled(self.counted_system(text))
    }

    pub fn message(&self, message: &PromptMessage) -> usize {
        self.scaled(self.counted_message(message)) + self.images_of(message)
    }

    /// The tokens of an image of this size in pixels.
    pub fn image(&self, width: u32, height: u32) -> usize {
        self.images.tokens(width, height)
    }

    pub fn tool(&self, tool: &ToolSpec) -> usize {
        self.scaled(self.counted_tool(tool))
    }

    /// The tokens of all tools of a list. A list that is used again is not counted again.
    pub fn tools(&self, tools: &Arc<[ToolSpec]>) -> usize {
        self.counted_tools(tools).iter().map(|counted| self.scaled(*counted)).sum()
    }

    pub fn format(&self, format: &AnswerFormat) -> usize {
        self.scaled(self.counted_format(format))
    }

    pub fn request(&self, request: &ModelRequest) -> usize {
        self.scaled(self.counted_request(request)) + self.images_of_request(request)
    }

    /// The provider found this many tokens in the request, kept ones among them. A counter that is not exact learns from
    /// it.
    pub fn learn(&self, request: &ModelRequest, actual: u64) {
        if !self.is_exact() {
            // Tokens of its images are not text, and say nothing of the tokenizer.
            let of_text = actual.saturating_sub(self.images_of_request(request) as u64);
            self.observe(self.counted_request(request), of_text);
        }
    }

    fn images_of_request(&self, request: &ModelRequest) -> usize {
        request.messages.iter().map(|message| self.images_of(message)).sum()
    }

    fn images_of(&self, message: &PromptMessage) -> usize {
        match message {
            PromptMessage::User(said) => {
                said.images.iter().map(|image| self.image(image.width, image.height)).sum()
            }
            PromptMessage::System(_) | PromptMessage::Assistant { .. } => 0,
        }
    }

    fn counted_request(&self, request: &ModelRequest) -> usize {
        let messages = request.messages.iter().map(|message| self.counted_message(message));
        self.counted_system(&request.system)
            + messages.sum::<usize>()
            + self.counted_tools(&request.tools).iter().sum::<usize>()
            + self.counted_format(&request.format)
    }

    fn counted_system(&self, text: &str) -> usize {
        REPLY + if text.is_empty() { 0 } else { MESSAGE + self.counted_text(text) }
    }

    fn counted_message(&self, message: &PromptMessage) -> usize {
        match message {
            PromptMessage::System(said) => MESSAGE + self.counted_text(said),
            PromptMessage::User(said) => MESSAGE + self.counted_text(&said.text),
            PromptMessage::Assistant { text, exchanges, provider } => {
                let exchanges = exchanges.iter().map(|exchange| self.counted_exchange(exchange));
                MESSAGE
                    + self.counted_text(text)
                    + exchanges.sum::<usize>()
                    + provider.as_ref().map_or(0, opaque_tokens)
            }
        }
    }

    fn counted_exchange(&self, exchange: &Exchange) -> usize {
        let call = CALL + self.counted_text(&exchange.name) + self.counted_json(&exchange.input);
        call + MESSAGE + self.counted_text(&exchange.result.text)
    }

    fn counted_tool(&self, tool: &ToolSpec) -> usize {
        let words = self.counted_text(&tool.name) + self.counted_text(&tool.description);
        TOOL + words + self.counted_json(&tool.parameters)
    }

    fn counted_tools(&self, tools: &Arc<[ToolSpec]>) -> Arc<[usize]> {
        self.counts.of_tools(self.tokens.vocabulary(), tools, |tool| self.counted_tool(tool))
    }

    fn counted_format(&self, format: &AnswerFormat) -> usize {
        match format {
            AnswerFormat::Text | AnswerFormat::Json => 0,
            AnswerFormat::Schema(schema) => {
                TOOL + self.counted_text(&schema.name) + self.counted_json(&schema.schema)
            }
        }
    }

    fn counted_json(&self, value: &Value) -> usize {
        self.counted_text(&value.to_string())
    }
}

fn opaque_tokens(value: &Value) -> usize {
    value.to_string().len().div_ceil(OPAQUE_BYTES_PER_TOKEN)
}
