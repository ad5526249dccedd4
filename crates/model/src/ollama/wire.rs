//! The JSON of Ollama's chat as types: what is sent, borrowed from the request, and what is received. Received fields
//! are plain values, because a field of an odd type must not cost the answer.

use std::collections::BTreeMap;

use protocol::CallId;
use serde_json::{Map, Value};

use crate::chat::FunctionTool;

#[derive(serde::Serialize)]
pub(super) struct OllamaBody<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<OllamaMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<FunctionTool<'a>>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) options: Map<String, Value>,
    /// The fields beside the options.
    #[serde(flatten)]
    pub(super) beside: BTreeMap<&'a str, Value>,
}

#[derive(serde::Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum OllamaMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<OllamaCall<'a>>,
    },
    Tool {
        tool_name: &'a str,
        tool_call_id: CallId,
        content: &'a str,
    },
}

#[derive(serde::Serialize)]
pub(super) struct OllamaCall<'a> {
    pub(super) id: CallId,
    pub(super) function: OllamaCalledFunction<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct OllamaCalledFunction<'a> {
    pub(super) index: usize,
    pub(super) name: &'a str,
    pub(super) arguments: BTreeMap<&'a str, &'a Value>,
}

/// One line of a stream, or a whole answer, which is a single line.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct OllamaChunk {
    pub(super) model: Value,
    pub(super) message: Value,
    pub(super) done: Value,
    pub(super) done_reason: Value,
    /// Tokens of the prompt.
    pub(super) prompt_eval_count: Value,
    /// Tokens of the answer.
    pub(super) eval_count: Value,
    pub(super) error: Value,
}
