//! The JSON of Chat Completions as types: what is sent, borrowed from the request, and what is received, borrowed from
//! the event.

use std::borrow::Cow;

use protocol::CallId;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

use crate::ToolSpec;

#[derive(serde::Serialize)]
pub(super) struct ChatBody<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<CompletionMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<FunctionTool<'a>>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: ChatJsonSchema<'a> },
}

#[derive(serde::Serialize)]
pub(super) struct ChatJsonSchema<'a> {
    pub(super) name: &'a str,
    pub(super) strict: bool,
    pub(super) schema: &'a Value,
}

#[derive(serde::Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(serde::Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum CompletionMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        /// Null when there are only calls.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatCall<'a>>,
    },
    Tool {
        tool_call_id: CallId,
        content: &'a str,
    },
}

#[derive(serde::Serialize)]
pub(super) struct ChatCall<'a> {
    pub(super) id: CallId,
    #[serde(rename = "type")]
    pub(super) kind: ChatFunctionTag,
    pub(super) function: ChatCalledFunction<'a>,
    /// Content that the server sent with the call and wants back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<&'a Value>,
}

/// The constant `"function"`.
#[derive(serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChatFunctionTag {
    Function,
}

#[derive(serde::Serialize)]
pub(super) struct ChatCalledFunction<'a> {
    pub(super) name: &'a str,
    /// An object as a string that holds its JSON.
    pub(super) arguments: String,
}

/// A tool, as Ollama writes it too.
#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum FunctionTool<'a> {
    Function { function: ToolFunction<'a> },
}

#[derive(serde::Serialize)]
pub(crate) struct ToolFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> From<&'a ToolSpec> for FunctionTool<'a> {
    fn from(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = spec;
        Self::Function { function: ToolFunction { name, description, parameters } }
    }
}

/// One event of a stream, or a whole answer, which differs only in saying `message` for `delta`.
#[derive(serde::Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<LooseText<'a>>,
    /// `"error"` where the event itself is the error.
    #[serde(borrow, default)]
    pub(super) object: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<ChatChoice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(serde::Deserialize)]
pub(super) struct ChatChoice<'a> {
    #[serde(borrow, default)]
    pub(super) delta: Option<ChatDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<ChatDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<LooseText<'a>>,
}

#[derive(serde::Deserialize)]
pub(super) struct ChatDelta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(serde::Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
    #[serde(default)]
    pub(super) extra_content: Option<Value>,
}

#[derive(serde::Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<LooseText<'a>>,
}

/// A string, or what some server sends in its place: a list of parts stands for their text, an object for its JSON,
/// anything else for nothing.
pub(super) struct LooseText<'a>(pub(super) Cow<'a, str>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(Value),
}

impl<'de: 'a, 'a> Deserialize<'de> for LooseText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Other(Value::Array(parts)) => {
                parts.iter().filter_map(part_text).collect::<String>().into()
            }
            Written::Other(object @ Value::Object(_)) => object.to_string().into(),
            Written::Other(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => "".into(),
        }))
    }
}

fn part_text(part: &Value) -> Option<&str> {
    part.get("text").filter(|_| part.get("type").is_none_or(|kind| kind == "text"))?.as_str()
}
