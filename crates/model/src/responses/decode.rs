//! Events of a stream as pieces of an answer, forgiving what servers leave out.
//!
//! Strict is only what safety needs: sizes are bounded, and only the event that ends the answer gives a
//! [`AnswerPiece::Finish`], so an answer that was cut is never taken for a whole one.

use protocol::Finish;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

use super::calls::{ResponsesCallMarks, ResponsesCalls};
use super::encode::REASONING;
use super::wire::ResponsesEvent;
use crate::reading::{Decode, parse};
use crate::refusal::Refusal;
use crate::request::PROVIDER;
use crate::stream::Pieces;
use crate::tally::{Tally, UsagePointers};
use crate::{AnswerPiece, Error};

const USAGE: UsagePointers = UsagePointers {
    input: "/input_tokens",
    output: "/output_tokens",
    cached: "/input_tokens_details/cached_tokens",
    reasoning: "/output_tokens_details/reasoning_tokens",
};

/// Decodes one answer.
#[derive(Debug, Default)]
pub(super) struct ResponsesDecoder {
    provider: String,
    tally: Tally,
    calls: ResponsesCalls,
    /// Items the provider wants back.
    reasoning: Vec<Value>,
    /// Text has come.
    said: bool,
    /// Reasoning has come.
    thought: bool,
    refused: bool,
    over: bool,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl Ending {
    fn parse(status: &str) -> Option<Self> {
        match status {
            "completed" => Some(Ending::Completed),
            "incomplete" => Some(Ending::Incomplete),
            "failed" => Some(Ending::Failed),
            "cancelled" => Some(Ending::Cancelled),
            _ => None,
        }
    }
}

impl Decode for ResponsesDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Pieces) -> Result<(), Error> {
        if self.over {
            return Ok(());
        }
        match data.trim() {
            "" => Ok(()),
            "[DONE]" => self.end(out),
            data if name == "error" => Err(self.refusal(data)),
            data => {
                let event: ResponsesEvent = parse(data)?;
                let kind = event.kind.as_str().unwrap_or(name);
                if kind == "error" || !event.error.is_null() {
                    return Err(self.refusal(data));
                }
                self.decode_kind(kind, &event, out)
            }
        }
    }

    fn whole_answer(&mut self, text: &str, out: &mut Pieces) -> Result<(), Error> {
        let response: Value = parse(text)?;
        let is_error = response.get("error").is_some_and(|error| !error.is_null());
        if is_error || field(&response, "object") == "error" {
            return Err(self.refusal(text));
        }
        let ending = match field(&response, "status") {
            "" if response.get("output").is_some_and(Value::is_array) => Some(Ending::Completed),
            status => Ending::parse(status),
        };
        ending.map_or(Ok(()), |ending| self.finish(ending, &response, out))
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl ResponsesDecoder {
    pub(super) fn new(model: &str, provider: &str) -> Self {
        Self { provider: provider.to_owned(), tally: Tally::new(model), ..Self::default() }
    }

    fn decode_kind(&mut self, kind: &str, event: &ResponsesEvent, out: &mut Pieces) -> Result<(), Error> {
        let delta = event.delta.as_str().unwrap_or_default();
        let output = event.output_index.as_u64();
        let marks = ResponsesCallMarks { ids: [event.item_id.as_str().unwrap_or_default(), ""], output };
        match kind {
            "response.created" | "response.in_progress" => {
                self.tally.name_model(field(&event.response, "model"), out);
                Ok(())
            }
            "response.output_text.delta" => self.say(delta, out),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(delta, out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(delta, out)
            }
            "response.reasoning_summary_part.added" => self.paragraph(out),
            "response.output_item.added" => self.begin_item(&event.item, output, out),
            "response.function_call_arguments.delta" => match self.calls.growing_call(marks) {
                Some(place) if !delta.is_empty() => {
                    self.calls.note_arguments(place);
                    self.tally.input(place, delta, out)
                }
                _ => Ok(()),
            },
            "response.function_call_arguments.done" => match self.calls.complete_call(marks) {
                Some(place) => self.arguments(place, &event.arguments, out),
                None => Ok(()),
            },
            "response.output_item.done" => self.finish_item(&event.item, output, out),
            _ => match kind.strip_prefix("response.").and_then(Ending::parse) {
                Some(ending) => self.finish(ending, &event.response, out),
                None => Ok(()),
            },
        }
    }

    fn say(&mut self, text: &str, out: &mut Pieces) -> Result<(), Error> {
        self.said |= !text.is_empty();
        self.tally.say(text, AnswerPiece::Text, out)
    }

    fn think(&mut self, text: &str, out: &mut Pieces) -> Result<(), Error> {
        self.thought |= !text.is_empty();
        self.tally.say(text, AnswerPiece::Reasoning, out)
    }

    /// Parts of a summary stand apart.
    fn paragraph(&mut self, out: &mut Pieces) -> Result<(), Error> {
        if self.thought { self.think("\n\n", out) } else { Ok(()) }
    }

    fn begin_item(&mut self, item: &Value, output: Option<u64>, out: &mut Pieces) -> Result<(), Error> {
        let marks = marks(item, output);
        if field(item, "type") == "function_call" && self.calls.call_of(marks).is_none() {
            self.begin(marks, item, out)?;
        }
        Ok(())
    }

    fn finish_item(&mut self, item: &Value, output: Option<u64>, out: &mut Pieces) -> Result<(), Error> {
        match field(item, "type") {
            "function_call" => {
                let marks = marks(item, output);
                let name = field(item, "name");
                let place = match self.calls.end_call(marks, name) {
                    Some(place) => place,
                    None => {
                        let place = self.begin(marks, item, out)?;
                        self.calls.end_call(marks, name);
                        place
                    }
                };
                self.arguments(place, item.get("arguments").unwrap_or(&Value::Null), out)
            }
            "reasoning" => self.keep_reasoning(item),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        marks: ResponsesCallMarks<'_>,
        item: &Value,
        out: &mut Pieces,
    ) -> Result<usize, Error> {
        let [item_id, call_id] = marks.ids;
        self.tally.count(item_id.len())?;
        let name = field(item, "name");
        self.calls.begin(marks, name);
        self.tally.begin(if call_id.is_empty() { item_id } else { call_id }, name, out)
    }

    /// Takes all arguments of a call at once, unless they have come piece by piece.
    fn arguments(&mut self, place: usize, arguments: &Value, out: &mut Pieces) -> Result<(), Error> {
        let arguments = match arguments {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Object(_) => Cow::Owned(arguments.to_string()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Cow::Borrowed(""),
        };
        if arguments.is_empty() || self.calls.note_arguments(place) {
            return Ok(());
        }
        self.tally.input(place, arguments, out)
    }

    /// Keeps reasoning that can come back. Without its encrypted content the server would look for it among what it
    /// has stored, find nothing and refuse.
    fn keep_reasoning(&mut self, item: &Value) -> Result<(), Error> {
        if field(item, "encrypted_content").is_empty() {
            return Ok(());
        }
        let fields = ["type", "id", "summary", "encrypted_content"];
        let mut kept: Map<String, Value> =
            fields.into_iter().filter_map(|name| Some((name.to_owned(), item.get(name)?.clone()))).collect();
        kept.entry("summary").or_insert_with(|| json!([]));
        let kept = Value::Object(kept);
        self.tally.count(kept.to_string().len())?;
        self.reasoning.push(kept);
        Ok(())
    }

    /// Takes from the whole answer what was not streamed.
    fn take_unstreamed(&mut self, response: &Value, out: &mut Pieces) -> Result<(), Error> {
        let (said, thought) = (self.said, self.thought);
        let (called, kept) = (self.tally.calls() > 0, !self.reasoning.is_empty());
        for item in list(response, "output") {
            match field(item, "type") {
                "message" => self.message(item, said, out)?,
                "reasoning" => {
                    for part in list(item, "summary").chain(list(item, "content")).filter(|_| !thought) {
                        self.paragraph(out)?;
                        self.think(field(part, "text"), out)?;
                    }
                    if !kept {
                        self.keep_reasoning(item)?;
                    }
                }
                "function_call" if !called => self.finish_item(item, None, out)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, item: &Value, said: bool, out: &mut Pieces) -> Result<(), Error> {
        for part in list(item, "content") {
            let refusal = field(part, "refusal");
            self.refused |= !refusal.is_empty();
            if !said {
                self.say(field(part, "text"), out)?;
                self.say(refusal, out)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, ending: Ending, response: &Value, out: &mut Pieces) -> Result<(), Error> {
        self.tally.name_model(field(response, "model"), out);
        let cut = match ending {
            Ending::Completed => None,
            Ending::Incomplete => match response.pointer("/incomplete_details/reason") {
                Some(reason) if reason == "content_filter" => Some(Finish::ContentFilter),
                _ => Some(Finish::Length),
            },
            Ending::Failed => return Err(Refusal::from_json(response).in_stream(&self.provider)),
            Ending::Cancelled => {
                return Err(Error::Unavailable {
                    reason: "it stopped before the end of the answer".into(),
                    after: None,
                });
            }
        };
        self.take_unstreamed(response, out)?;
        out.extend(response.get("usage").and_then(|usage| USAGE.read(usage)).map(AnswerPiece::Usage));
        if !self.reasoning.is_empty() {
            let reasoning = std::mem::take(&mut self.reasoning);
            out.push_back(AnswerPiece::Provider(json!({ PROVIDER: self.provider, REASONING: reasoning })));
        }
        out.push_back(AnswerPiece::Finish(match cut {
            Some(cut) => cut,
            None if self.refused => Finish::ContentFilter,
            None if self.tally.calls() > 0 => Finish::ToolCalls,
            None => Finish::Stop,
        }));
        self.over = true;
        Ok(())
    }

    fn refusal(&self, data: &str) -> Error {
        let refusal = match serde_json::from_str(data) {
            Ok(Value::Object(mut notice)) => {
                // It only says that this is an error, and would be taken for the kind of it.
                if notice.get("type").is_some_and(|kind| kind == "error") {
                    notice.remove("type");
                }
                Refusal::from_json(&Value::Object(notice))
            }
            _ => Refusal::read(data.as_bytes()),
        };
        refusal.in_stream(&self.provider)
    }
}

/// A field that is a text; what is not counts as empty.
fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn marks(item: &Value, output: Option<u64>) -> ResponsesCallMarks<'_> {
    ResponsesCallMarks { ids: [field(item, "id"), field(item, "call_id")], output }
}
