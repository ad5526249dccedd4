//! The request of OpenAI's Chat Completions, as far as it is read. Fields that are not here are ignored.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

/// A conversation that an app is to answer. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::routes) struct ChatCompletionRequest {
    /// An app, or an app and a model with a slash between them.
    pub(super) model: String,
    pub(super) messages: Vec<RequestMessage>,
    /// Whether the answer is streamed; false when absent.
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    /// Tools that the client runs.
    pub(super) tools: Option<Vec<RequestTool>>,
    /// The choice of tools: `none` keeps the tools from the model. All other values count as `auto`.
    pub(super) tool_choice: Option<Value>,
    pub(super) response_format: Option<ResponseFormat>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) max_completion_tokens: Option<u32>,
    /// The older name of `max_completion_tokens`.
    pub(super) max_tokens: Option<u32>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    /// The amount of reasoning: `none`, `minimal`, `low`, `medium` or `high`.
    pub(super) reasoning_effort: Option<String>,
    /// The number of answers, which can only be 1.
    pub(super) n: Option<u64>,
    pub(super) metadata: Option<RequestMetadata>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct StreamOptions {
    /// Whether the last chunk has the number of tokens.
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RequestMetadata {
    /// A thread by its id, or by a name that the client has chosen. The header `X-Thread-Id` has the same effect.
    pub(super) thread_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RequestMessage {
    /// The role: `system`, `developer`, `user`, `assistant`, `tool` or `function`.
    pub(super) role: String,
    /// A text, or a list of parts.
    #[schema(value_type = Option<Value>)]
    pub(super) content: Option<Content>,
    /// Calls of an answer that the client made.
    pub(super) tool_calls: Option<Vec<RequestCall>>,
    /// The older form of one call.
    pub(super) function_call: Option<RequestFunction>,
    /// The call that a message of the role `tool` is the result of.
    pub(super) tool_call_id: Option<String>,
    /// The function that a message of the role `function` is the result of.
    pub(super) name: Option<String>,
    pub(super) refusal: Option<Value>,
}

/// A text, or parts.
#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// Read by hand, so that a refusal names the part at fault, and a long text is not held twice.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentPart {
    /// The kind of part: `text`, `image_url`, `file` or `refusal`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) image_url: Option<ImageUrl>,
    pub(super) file: Option<FileData>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileData {
    pub(super) file_data: Option<String>,
    pub(super) file_id: Option<String>,
    pub(super) filename: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RequestCall {
    pub(super) id: String,
    pub(super) function: RequestFunction,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RequestFunction {
    pub(super) name: String,
    /// The arguments as JSON.
    pub(super) arguments: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RequestTool {
    /// The kind of tool, which can only be `function`.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) function: Option<FunctionTool>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct FunctionTool {
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// A JSON Schema of the arguments.
    pub(super) parameters: Option<Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ResponseFormat {
    /// The form: `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) json_schema: Option<JsonSchema>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct JsonSchema {
    pub(super) name: String,
    pub(super) schema: Option<Value>,
}
