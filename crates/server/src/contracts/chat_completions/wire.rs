//! The objects of OpenAI's Chat Completions, as far as we send them.

use protocol::CallId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A whole answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    /// The id: `chatcmpl-` and the hexadecimal digits of the run's id.
    pub(super) id: String,
    #[schema(value_type = String)]
    pub(super) object: &'static str,
    /// The time at which the run was made, in seconds.
    pub(super) created: u64,
    /// The model as the request named it.
    pub(super) model: String,
    /// The choices, of which there is always one.
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Usage,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChatCompletionChoice)]
pub(crate) struct Choice {
    pub(super) index: u32,
    pub(super) message: Message,
    /// A field of OpenAI that is always null.
    pub(super) logprobs: Option<Value>,
    /// The reason for the end: `stop`, `length`, `tool_calls` or `content_filter`.
    #[schema(value_type = String)]
    pub(super) finish_reason: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChatCompletionMessage)]
pub(crate) struct Message {
    #[schema(value_type = String)]
    pub(super) role: &'static str,
    pub(super) content: Option<String>,
    /// A field of OpenAI that is always null.
    pub(super) refusal: Option<String>,
    /// The reasoning of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    /// Calls that the client is to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<Vec<MessageCall>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChatCompletionToolCall)]
pub(crate) struct MessageCall {
    id: CallId,
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    function: OwnedFunction,
}

impl MessageCall {
    pub(super) fn new(id: CallId, name: String, arguments: String) -> Self {
        Self { id, kind: "function", function: OwnedFunction { name, arguments } }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChatCompletionFunction)]
struct OwnedFunction {
    name: String,
    /// The arguments as JSON.
    arguments: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChatCompletionUsage)]
pub(crate) struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Serialize, ToSchema)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<protocol::Usage> for Usage {
    fn from(usage: protocol::Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached_input_tokens },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning_tokens },
        }
    }
}

/// A piece of a streamed answer.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: Vec<ChunkChoice<'a>>,
    /// The usage. Null in all chunks but the last; absent if the client did not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<Usage>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ChunkChoice<'a> {
    pub(super) index: u32,
    pub(super) delta: Delta<'a>,
    pub(super) logprobs: Option<Value>,
    pub(super) finish_reason: Option<&'a str>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[ChunkCall<'a>; 1]>,
}

#[derive(Debug, Serialize)]
pub(super) struct ChunkCall<'a> {
    pub(super) index: usize,
    pub(super) id: CallId,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}
