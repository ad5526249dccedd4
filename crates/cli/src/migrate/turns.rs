//! Messages of another product, put together to turns: what the user said, and all that answered it.

use jiff::Timestamp;
use protocol::{ImportedCall, ImportedStep, ImportedTurn};
use serde_json::Value;

/// Bytes of a text that the server takes; longer ones are cut.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Calls of one step that the server takes.
const MAX_CALLS_PER_STEP: usize = 32;

/// Turns under way.
#[derive(Debug, Default)]
pub(super) struct TurnBuilder {
    turns: Vec<ImportedTurn>,
}

impl TurnBuilder {
    pub(super) fn user(&mut self, text: &str, at: Option<Timestamp>) {
        self.turns.push(ImportedTurn { text: cut_to_limit(text), steps: Vec::new(), at });
    }

    /// A step of an answer. Without a message of the user before it, it answers nothing.
    pub(super) fn assistant(&mut self, text: &str, calls: Vec<ImportedCall>, at: Option<Timestamp>) {
        if text.trim().is_empty() && calls.is_empty() {
            return;
        }
        let turn = match self.turns.last_mut() {
            Some(turn) => turn,
            None => {
                self.turns.push(ImportedTurn { at, ..ImportedTurn::default() });
                let Some(turn) = self.turns.last_mut() else { return };
                turn
            }
        };
        let mut calls = calls.into_iter();
        turn.steps.push(ImportedStep {
            text: cut_to_limit(text),
            calls: calls.by_ref().take(MAX_CALLS_PER_STEP).collect(),
        });
        while calls.len() > 0 {
            let more = calls.by_ref().take(MAX_CALLS_PER_STEP).collect();
            turn.steps.push(ImportedStep { text: String::new(), calls: more });
        }
    }

    /// The result of a call. One that no step has asked for is a call of its own.
    pub(super) fn result(&mut self, id: &str, name: &str, result: &str, failed: bool) {
        let steps = self.turns.last_mut().into_iter().flat_map(|turn| turn.steps.iter_mut().rev());
        let mut open = steps.flat_map(|step| &mut step.calls).filter(|call| call.result.is_none());
        let call = open.find(|call| if id.is_empty() { call.name == name } else { call.id == id });
        if let Some(call) = call {
            (call.result, call.failed) = (Some(cut_to_limit(result)), failed);
            return;
        }
        let call = ImportedCall {
            id: id.to_owned(),
            name: name.to_owned(),
            input: Value::Null,
            result: Some(cut_to_limit(result)),
            failed,
        };
        self.assistant("", vec![call], None);
    }

    /// The turns that have something in them.
    pub(super) fn into_turns(self) -> Vec<ImportedTurn> {
        let says = |turn: &ImportedTurn| !turn.text.trim().is_empty() || !turn.steps.is_empty();
        self.turns.into_iter().filter(says).collect()
    }
}

/// A text within the limit of the server.
fn cut_to_limit(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text).to_owned()
}

/// A text, or the texts of parts of the kind `{type: "text", text}`; other parts are named.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(part_text).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
        Value::Object(_) => part_text(content),
    }
}

fn part_text(part: &Value) -> String {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    match (part.as_str(), field("text"), field("type").or_else(|| field("content_type"))) {
        (Some(text), _, _) | (None, Some(text), _) => text.to_owned(),
        // Calls stand in a field of their own too, and thoughts are not said.
        (None, None, Some("tool_use" | "tool_call" | "thinking" | "reasoning" | "redacted_thinking"))
        | (None, None, None) => String::new(),
        (None, None, Some(kind)) => format!("[{kind}]"),
    }
}

/// A moment in seconds since 1970, as a number, or as a text of ISO 8601.
pub(super) fn moment(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::Number(seconds) => {
            let millis = seconds.as_f64()? * 1000.0;
            #[expect(clippy::cast_possible_truncation, reason = "a time out of range is no time")]
            Timestamp::from_millisecond(millis as i64).ok()
        }
        Value::String(text) => {
            let text = text.trim();
            let in_utc = || format!("{}Z", text.replacen(' ', "T", 1)).parse().ok();
            text.parse().ok().or_else(in_utc)
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Arguments of a call, which are an object or its JSON text.
pub(super) fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    }
}
