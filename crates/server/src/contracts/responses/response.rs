//! The response object of OpenAI's Responses: who it is, and the fields that it repeats of its request.

use std::fmt;
use std::str::FromStr;

use protocol::{AnswerSchema, OutputFormat, RunId, RunStart, ThreadId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Hexadecimal digits of an id.
const HEX_DIGITS: usize = 32;

/// The id of a response: `resp_`, the digits of its run, and for a later part `_` and the number of decisions and
/// results before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseId {
    pub(crate) run: RunId,
    pub(crate) part: u32,
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{}", self.run.uuid().simple())?;
        if self.part > 0 { write!(f, "_{}", self.part) } else { Ok(()) }
    }
}

impl FromStr for ResponseId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("resp_").ok_or(())?;
        let (hex, part) = match rest.split_once('_') {
            // One spelling for each id.
            Some((hex, part)) if !part.starts_with(['0', '+']) => (hex, part.parse().map_err(|_| ())?),
            Some(_) => return Err(()),
            None => (rest, 0),
        };
        Ok(Self { run: RunId::new(read_hex(hex).ok_or(())?), part })
    }
}

/// The id of a conversation: `conv_` and the digits of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConversationId(pub(crate) ThreadId);

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conv_{}", self.0.uuid().simple())
    }
}

impl FromStr for ConversationId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let hex = text.strip_prefix("conv_").ok_or(())?;
        Ok(Self(ThreadId::new(read_hex(hex).ok_or(())?)))
    }
}

fn read_hex(hex: &str) -> Option<Uuid> {
    let is_good = hex.len() == HEX_DIGITS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    Uuid::try_parse(hex).ok().filter(|_| is_good)
}

/// Fields of a request that its responses repeat and that do not change the run. They are kept in the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResponseEcho {
    /// The model as the request names it.
    pub(crate) model: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) background: bool,
    /// Whether the request said `store: false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unstored: bool,
    /// Whether the request named a conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_conversation: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<String>,
}

impl ResponseEcho {
    /// As it is kept in `run:start`.
    pub(crate) fn into_value(self) -> Value {
        json!({ "responses": self })
    }

    fn of_start(start: &RunStart) -> Self {
        let kept = start.echo.as_ref().and_then(|echo| echo.get("responses"));
        kept.and_then(|echo| Self::deserialize(echo).ok()).unwrap_or_default()
    }
}

/// The run that a response tells of, as its row says it.
#[derive(Debug, Clone)]
pub(crate) struct ToldRun {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) app: String,
    pub(crate) model: Option<String>,
    /// Seconds since 1970.
    pub(crate) created_at: i64,
}

/// The part of a response that its run decides.
pub(super) struct ResponseState<'a> {
    pub(super) status: &'a str,
    pub(super) output: Vec<&'a Value>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Value,
    pub(super) incomplete: Option<&'a str>,
}

/// The response object.
pub(super) fn response_object(
    told: &ToldRun,
    start: Option<&RunStart>,
    (part, previous): (u32, Option<u32>),
    state: &ResponseState<'_>,
) -> Value {
    let id = |part| ResponseId { run: told.run, part }.to_string();
    let echo = start.map(ResponseEcho::of_start).unwrap_or_default();
    let settings = start.map(|start| start.settings.clone()).unwrap_or_default();
    let model = if echo.model.is_empty() { model_name(told) } else { echo.model };
    let mut object = json!({
        "id": id(part),
        "object": "response",
        "created_at": told.created_at,
        "status": state.status,
        "background": echo.background,
        "error": state.error,
        "incomplete_details": state.incomplete.map(|reason| json!({ "reason": reason })),
        "instructions": start.and_then(|start| start.system_prompt.as_deref()),
        "max_output_tokens": settings.max_tokens,
        "model": model,
        "output": state.output,
        "parallel_tool_calls": true,
        "previous_response_id": previous.map(id).or(echo.previous),
        "reasoning": { "effort": settings.reasoning_effort.map(protocol::Effort::name), "summary": null },
        "store": !echo.unstored,
        "temperature": settings.temperature,
        "text": { "format": start.map_or_else(|| json!({ "type": "text" }), answer_format) },
        "tool_choice": "auto",
        "tools": start.map(function_tools).unwrap_or_default(),
        "top_p": settings.top_p,
        "truncation": "disabled",
        "usage": state.usage.as_ref().map(usage_object),
        "metadata": echo.metadata,
    });
    if echo.in_conversation
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("conversation".into(), json!({ "id": ConversationId(told.thread).to_string() }));
    }
    object
}

fn answer_format(start: &RunStart) -> Value {
    if let Some(AnswerSchema { name, schema }) = &start.answer_schema {
        return json!({ "type": "json_schema", "name": name, "schema": schema, "strict": true });
    }
    match start.settings.output_format {
        Some(OutputFormat::Json) => json!({ "type": "json_object" }),
        Some(OutputFormat::Text) | None => json!({ "type": "text" }),
    }
}

fn model_name(told: &ToldRun) -> String {
    match &told.model {
        Some(model) => format!("{}/{model}", told.app),
        None => told.app.clone(),
    }
}

fn function_tools(start: &RunStart) -> Vec<Value> {
    let tool = |tool: &protocol::ClientTool| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": null,
        })
    };
    start.tools.iter().map(tool).collect()
}

fn usage_object(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": usage.total(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let run = RunId::new(Uuid::from_u128(0xab));
        for part in [0, 1, 12] {
            let id = ResponseId { run, part };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let hex = format!("{:032x}", 0xab);
        for wrong in [
            "",
            "resp_",
            "resp_ab",
            &format!("run_{hex}"),
            &format!("resp_{hex}_0"),
            &format!("resp_{hex}_01"),
        ] {
            assert_eq!(wrong.parse::<ResponseId>(), Err(()), "{wrong}");
        }
        assert_eq!(format!("resp_{}", hex.to_uppercase()).parse::<ResponseId>(), Err(()));
        let conversation = ConversationId(ThreadId::new(Uuid::from_u128(7)));
        assert_eq!(conversation.to_string().parse(), Ok(conversation));
    }
}
