//! The JSON of Messages as types: what is sent, borrowed from the request, and what is received, in which any field may
//! be missing.

use protocol::CallId;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

#[derive(serde::Serialize)]
pub(super) struct AnthropicBody<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<AnthropicBlock<'a>>,
    pub(super) messages: Vec<AnthropicMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<AnthropicTool<'a>>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
}

#[derive(serde::Serialize)]
pub(super) struct AnthropicMessage<'a> {
    pub(super) role: AnthropicRole,
    pub(super) content: Vec<AnthropicBlock<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AnthropicRole {
    User,
    Assistant,
}

/// A block of a message, and whether the prompt is to be kept up to its end.
#[derive(serde::Serialize)]
pub(super) struct AnthropicBlock<'a> {
    #[serde(flatten)]
    pub(super) content: AnthropicContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

impl<'a> From<AnthropicContent<'a>> for AnthropicBlock<'a> {
    fn from(content: AnthropicContent<'a>) -> Self {
        Self { content, cache_control: None }
    }
}

#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum AnthropicContent<'a> {
    /// A block that the provider made, as it made it.
    Opaque(&'a Value),
    Own(AnthropicOwnBlock<'a>),
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AnthropicOwnBlock<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: CallId,
        name: &'a str,
        input: AnthropicArguments<'a>,
    },
    ToolResult {
        tool_use_id: CallId,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Anything but an object is written as an empty one, which is all that the provider takes.
pub(super) struct AnthropicArguments<'a>(pub(super) &'a Value);

impl Serialize for AnthropicArguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_object() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_map(Some(0))?.end()
        }
    }
}

/// The constant `{"type": "ephemeral"}`.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum CacheControl {
    Ephemeral,
}

#[derive(serde::Serialize)]
pub(super) struct AnthropicTool<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Thinking {
    Enabled { budget_tokens: u32 },
}

#[derive(serde::Serialize)]
pub(super) struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<AnthropicOutputFormat>,
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AnthropicOutputFormat {
    JsonSchema { schema: Value },
}

/// One event of a stream.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicEvent {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) message: Option<AnthropicAnswer>,
    pub(super) index: Option<u64>,
    pub(super) content_block: Option<AnthropicReceivedBlock>,
    pub(super) delta: Option<AnthropicDelta>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// The beginning of an answer, or a whole one.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicAnswer {
    pub(super) model: Option<String>,
    pub(super) content: Option<Vec<AnthropicReceivedBlock>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// A block, of which only the fields of its kind are there.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicReceivedBlock {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    /// The content of a block of thinking that must not be read.
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
}

/// More of a block or, at the end, why there is no more of the answer.
#[derive(serde::Deserialize)]
pub(super) struct AnthropicDelta {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
}
