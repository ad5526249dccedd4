//! Which wire a provider speaks, and a connection to it.

use std::sync::Arc;

use crate::anthropic::{AnthropicMessages, AnthropicVersion};
use crate::chat::ChatCompletions;
use crate::ollama::OllamaChat;
use crate::responses::OpenAiResponses;
use crate::{ChatModel, Endpoint, InvalidEndpoint};

/// A provider's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderWire {
    /// OpenAI's Chat Completions, which most servers copy.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages, as of a version of its API.
    Anthropic(AnthropicVersion),
    /// Ollama's own chat, for what its copy of Chat Completions leaves out.
    Ollama,
}

impl ProviderWire {
    pub const ALL: [ProviderWire; 5] = [
        ProviderWire::Chat,
        ProviderWire::Responses,
        ProviderWire::Anthropic(AnthropicVersion::V2023),
        ProviderWire::Anthropic(AnthropicVersion::V2026),
        ProviderWire::Ollama,
    ];

    /// As configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            ProviderWire::Chat => "chat",
            ProviderWire::Responses => "responses",
            ProviderWire::Anthropic(AnthropicVersion::V2023) => "anthropic-2023-06-01",
            ProviderWire::Anthropic(AnthropicVersion::V2026) => "anthropic",
            ProviderWire::Ollama => "ollama",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.name() == name)
    }
}

/// Opens nothing yet: connections are made with the first request.
pub fn connect(wire: ProviderWire, endpoint: &Endpoint) -> Result<Arc<dyn ChatModel>, InvalidEndpoint> {
    Ok(match wire {
        ProviderWire::Chat => Arc::new(ChatCompletions::new(endpoint)?),
        ProviderWire::Anthropic(version) => Arc::new(AnthropicMessages::new(endpoint, version)?),
        ProviderWire::Responses => Arc::new(OpenAiResponses::new(endpoint)?),
        ProviderWire::Ollama => Arc::new(OllamaChat::new(endpoint)?),
    })
}
