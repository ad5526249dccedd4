//! Which wire a provider speaks, and a connection to it.

use std::sync::Arc;

use crate::anthropic::{AnthropicVersion, Messages};
use crate::chat::ChatCompletions;
use crate::ollama::Ollama;
use crate::responses::Responses;
use crate::{ChatModel, Endpoint, InvalidEndpoint};

/// A provider's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's Chat Completions, which most servers copy.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages, as of a version of its API.
    Anthropic(AnthropicVersion),
    /// Ollama's own chat, for what its copy of Chat Completions leaves out.
    Ollama,
}

impl Wire {
    pub const ALL: [Wire; 5] = [
        Wire::Chat,
        Wire::Responses,
        Wire::Anthropic(AnthropicVersion::V2023),
        Wire::Anthropic(AnthropicVersion::V2026),
        Wire::Ollama,
    ];

    /// As configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Chat => "chat",
            Wire::Responses => "responses",
            Wire::Anthropic(AnthropicVersion::V2023) => "anthropic-2023-06-01",
            Wire::Anthropic(AnthropicVersion::V2026) => "anthropic",
            Wire::Ollama => "ollama",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.name() == name)
    }
}

/// Opens nothing yet: connections are made when somebody asks.
pub fn connect(wire: Wire, endpoint: &Endpoint) -> Result<Arc<dyn ChatModel>, InvalidEndpoint> {
    Ok(match wire {
        Wire::Chat => Arc::new(ChatCompletions::new(endpoint)?),
        Wire::Anthropic(version) => Arc::new(Messages::new(endpoint, version)?),
        Wire::Responses => Arc::new(Responses::new(endpoint)?),
        Wire::Ollama => Arc::new(Ollama::new(endpoint)?),
    })
}
