//! The JSON of Responses as types: what is sent, borrowed from the request, and what is received. Received fields are
//! plain values, because a field of an odd type must not cost the answer.

use protocol::CallId;
use serde_json::Value;

#[derive(serde::Serialize)]
pub(super) struct ResponsesBody<'a> {
    pub(super) model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) instructions: &'a str,
    pub(super) input: Vec<ResponsesItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<ResponsesTool<'a>>,
    pub(super) stream: bool,
    pub(super) store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<ResponsesReasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<ResponsesText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u32>,
}

#[derive(serde::Serialize)]
pub(super) struct ResponsesReasoning<'a> {
    pub(super) effort: &'a str,
    pub(super) summary: &'a str,
}

#[derive(serde::Serialize)]
pub(super) struct ResponsesText<'a> {
    pub(super) format: TextFormat<'a>,
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TextFormat<'a> {
    JsonObject,
    JsonSchema { name: &'a str, strict: bool, schema: &'a Value },
}

#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum ResponsesItem<'a> {
    Message {
        role: &'a str,
        content: &'a str,
    },
    Function(ResponsesFunction<'a>),
    /// An item that the provider sent and wants back unchanged.
    Opaque(&'a Value),
}

#[derive(serde::Serialize)]
#[serde(tag = "type")]
pub(super) enum ResponsesFunction<'a> {
    #[serde(rename = "function_call")]
    Call { call_id: CallId, name: &'a str, arguments: String },
    #[serde(rename = "function_call_output")]
    Output { call_id: CallId, output: &'a str },
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponsesTool<'a> {
    Function {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        parameters: &'a Value,
        strict: bool,
    },
}

/// One event of a stream.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent {
    #[serde(rename = "type")]
    pub(super) kind: Value,
    pub(super) item_id: Value,
    pub(super) output_index: Value,
    pub(super) delta: Value,
    pub(super) arguments: Value,
    pub(super) item: Value,
    /// The answer so far, or as it ended.
    pub(super) response: Value,
    pub(super) error: Value,
}
