//! What a model is asked, free of any provider's shape.

use std::sync::Arc;

use protocol::{CallId, Settings};
use serde_json::Value;

/// One model call.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The provider's name of the model.
    pub model: String,
    pub system: String,
    pub messages: Vec<Message>,
    /// The tools on offer; empty when the model must answer in words.
    pub tools: Arc<[ToolSpec]>,
    pub settings: Settings,
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(String),
    Assistant {
        text: String,
        /// A call and its result travel together, so a prompt in which one lacks the other cannot be written down.
        exchanges: Vec<Exchange>,
        /// What the provider sent with this turn and wants back unchanged.
        provider: Option<Value>,
    },
}

/// A tool call with its one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    pub id: CallId,
    /// Letters, digits, `_` and `-`, at most 64: what every provider takes.
    pub name: String,
    /// A JSON object.
    pub input: Value,
    pub result: Answered,
}

/// What a call came to, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub text: String,
    pub success: bool,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
}
