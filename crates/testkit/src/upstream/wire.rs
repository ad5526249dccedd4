//! The protocols the upstream speaks, told apart by the path of a request.

use serde_json::Value;

/// A provider's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Chat,
    Responses,
    Anthropic,
    Ollama,
    Embeddings,
}

/// The protocol in which a path asks for the list of models, if it does.
pub(super) fn of_list(path: &str) -> Option<Wire> {
    match path.split_once('?').map_or(path, |(path, _)| path) {
        "/v1/models" => Some(Wire::Chat),
        "/api/tags" => Some(Wire::Ollama),
        _ => None,
    }
}

impl Wire {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path.split_once('?').map_or(path, |(path, _)| path) {
            "/v1/chat/completions" => Some(Wire::Chat),
            "/v1/responses" => Some(Wire::Responses),
            "/v1/messages" => Some(Wire::Anthropic),
            "/api/chat" => Some(Wire::Ollama),
            "/v1/embeddings" => Some(Wire::Embeddings),
            _ => None,
        }
    }

    /// Whether the request wants its answer piece by piece. Only Ollama streams unless told otherwise.
    pub(super) fn streams(self, request: &Value) -> bool {
        let asked = request.get("stream").and_then(Value::as_bool);
        match self {
            Wire::Chat | Wire::Responses | Wire::Anthropic | Wire::Embeddings => asked == Some(true),
            Wire::Ollama => asked != Some(false),
        }
    }
}
