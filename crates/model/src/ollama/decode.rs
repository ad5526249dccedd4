//! Lines of a stream as pieces of an answer.
//!
//! Strict is only what safety needs: sizes are bounded, and without a line that says it is the last there is no
//! [`AnswerPiece::Finish`], so an answer that was cut is never taken for a whole one.

use protocol::{Finish, Usage};
use serde_json::Value;

use super::wire::OllamaChunk;
use crate::reading::{Decode, parse};
use crate::refusal::Refusal;
use crate::stream::Pieces;
use crate::tally::{Tally, plausible};
use crate::{AnswerPiece, Error};

/// Decodes one answer.
#[derive(Debug, Default)]
pub(super) struct OllamaDecoder {
    provider: String,
    tally: Tally,
    /// Text, reasoning or a call has come.
    answered: bool,
    over: bool,
}

impl Decode for OllamaDecoder {
    fn event(&mut self, _: &str, data: &str, out: &mut Pieces) -> Result<(), Error> {
        let data = data.trim();
        if self.over || data.is_empty() {
            return Ok(());
        }
        let chunk: OllamaChunk = parse(data)?;
        if !chunk.error.is_null() {
            return Err(Refusal::read(data.as_bytes()).in_stream(&self.provider));
        }
        self.tally.name_model(chunk.model.as_str().unwrap_or_default(), out);
        self.message(&chunk.message, out)?;
        if chunk.done == true { self.finish(&chunk, out) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl OllamaDecoder {
    pub(super) fn new(model: &str, provider: &str) -> Self {
        Self { provider: provider.to_owned(), tally: Tally::new(model), ..Self::default() }
    }

    fn message(&mut self, message: &Value, out: &mut Pieces) -> Result<(), Error> {
        let text = |name| message.get(name).and_then(Value::as_str).unwrap_or_default();
        let (thinking, content) = (text("thinking"), text("content"));
        self.answered |= !thinking.is_empty() || !content.is_empty();
        self.tally.say(thinking, AnswerPiece::Reasoning, out)?;
        self.tally.say(content, AnswerPiece::Text, out)?;
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, out)?;
        }
        Ok(())
    }

    /// Calls come whole.
    fn call(&mut self, call: &Value, out: &mut Pieces) -> Result<(), Error> {
        let text = |pointer| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        self.answered = true;
        let index = self.tally.begin(text("/id"), text("/function/name"), out)?;
        match call.pointer("/function/arguments") {
            Some(Value::String(json)) => self.tally.input(index, json.as_str(), out),
            Some(object @ Value::Object(_)) => self.tally.input(index, object.to_string(), out),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => Ok(()),
        }
    }

    fn finish(&mut self, chunk: &OllamaChunk, out: &mut Pieces) -> Result<(), Error> {
        let finish = match chunk.done_reason.as_str().unwrap_or_default() {
            "length" => Finish::Length,
            // Ollama says so when it made the model ready and asked it nothing.
            "load" | "unload" if !self.answered => {
                return Err(Error::Unavailable { reason: "it only loaded the model".into(), after: None });
            }
            _ if self.tally.calls() > 0 => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        out.extend(usage(chunk).map(AnswerPiece::Usage));
        out.push_back(AnswerPiece::Finish(finish));
        self.over = true;
        Ok(())
    }
}

/// None if the counts are missing or cannot be true; the caller then estimates.
fn usage(chunk: &OllamaChunk) -> Option<Usage> {
    let count = |value: &Value| value.as_u64().and_then(plausible);
    Some(Usage {
        input_tokens: count(&chunk.prompt_eval_count)?,
        output_tokens: count(&chunk.eval_count)?,
        ..Usage::default()
    })
}
