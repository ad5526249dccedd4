//! The JSON of Chat Completions that is received, as types that borrow from the event.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

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
