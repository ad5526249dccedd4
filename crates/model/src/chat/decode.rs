//! Events of a stream as pieces of an answer: a small state machine that forgives what servers get wrong.
//!
//! Strict is only what safety needs. Sizes are bounded. A stream that ends with neither a finish reason nor a `[DONE]`
//! after words has no [`AnswerPiece::Finish`], so an answer that was cut is never taken for a whole one.

use std::borrow::Cow;
use std::collections::HashMap;

use protocol::Finish;
use serde_json::{Map, Value, json};

use super::encode::EXTRA;
use super::wire::{CallDelta, ChatChoice, ChatChunk, ChatDelta, LooseText};
use crate::reading::{Decode, cut_short, parse};
use crate::refusal::Refusal;
use crate::request::PROVIDER;
use crate::stream::Pieces;
use crate::tally::{Tally, UsagePointers, short_name};
use crate::{AnswerPiece, Error};

const USAGE: UsagePointers = UsagePointers {
    input: "/prompt_tokens",
    output: "/completion_tokens",
    cached: "/prompt_tokens_details/cached_tokens",
    reasoning: "/completion_tokens_details/reasoning_tokens",
};

/// Decodes one answer.
#[derive(Debug, Default)]
pub(super) struct ChatDecoder {
    provider: String,
    tally: Tally,
    /// The server's id of each call, empty where it gave none.
    ids: Vec<String>,
    /// The server's index of a call to its place among the calls.
    places: HashMap<u64, usize>,
    /// Content that the server wants back, by place of the call.
    extra: Map<String, Value>,
    refused: bool,
    /// Words have come that are not white space.
    spoke: bool,
    /// The calls are not to be made.
    void: bool,
    /// Held back until the end, because usage may follow it.
    finish: Option<Finish>,
    over: bool,
}

impl Decode for ChatDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Pieces) -> Result<(), Error> {
        if self.over {
            return Ok(());
        }
        let data = data.trim();
        if name == "error" {
            return Err(Refusal::read(data.as_bytes()).in_stream(&self.provider));
        }
        match data {
            "" => Ok(()),
            "[DONE]" => {
                self.finish_without_reason(out);
                self.end(out)
            }
            _ => self.chunk(data, out),
        }
    }

    fn end(&mut self, out: &mut Pieces) -> Result<(), Error> {
        if self.over {
            return Ok(());
        }
        let finish = self.finish.ok_or_else(cut_short)?;
        self.over = true;
        if !self.extra.is_empty() {
            out.push_back(AnswerPiece::Provider(json!({ PROVIDER: self.provider, EXTRA: self.extra })));
        }
        let finish = if self.void { finish } else { self.tally.finish(finish) };
        let filtered = self.refused && matches!(finish, Finish::Stop | Finish::ToolCalls);
        out.push_back(AnswerPiece::Finish(if filtered { Finish::ContentFilter } else { finish }));
        Ok(())
    }

    fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl ChatDecoder {
    pub(super) fn new(model: &str, provider: &str) -> Self {
        Self { provider: provider.to_owned(), tally: Tally::new(model), ..Self::default() }
    }

    /// Ends the answer of a server that sends `[DONE]` without a finish reason. Words are then an answer. Calls are not
    /// made, because the server did not say that they are whole.
    fn finish_without_reason(&mut self, out: &mut Pieces) {
        if self.finish.is_none() && self.spoke {
            self.finish = Some(Finish::Stop);
            self.void = true;
            self.extra.clear();
            out.push_back(AnswerPiece::CallsVoid);
        }
    }

    fn chunk(&mut self, data: &str, out: &mut Pieces) -> Result<(), Error> {
        let chunk: ChatChunk<'_> = parse(data)?;
        if let Some(error) = chunk.error {
            return Err(Refusal::from_json(&error).in_stream(&self.provider));
        }
        if chunk.object.is_some_and(|LooseText(object)| object == "error") {
            return Err(Refusal::read(data.as_bytes()).in_stream(&self.provider));
        }
        self.tally.name_model(&text(chunk.model), out);
        if let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) {
            self.choice(choice, out)?;
        }
        out.extend(chunk.usage.as_ref().and_then(|usage| USAGE.read(usage)).map(AnswerPiece::Usage));
        Ok(())
    }

    fn choice(&mut self, choice: ChatChoice<'_>, out: &mut Pieces) -> Result<(), Error> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(delta, out)?;
        }
        let reason = text(choice.finish_reason);
        self.finish = match &*reason.to_ascii_lowercase() {
            "" => return Ok(()),
            "length" | "max_tokens" => Some(Finish::Length),
            "tool_calls" | "function_call" => Some(Finish::ToolCalls),
            "content_filter" | "safety" => Some(Finish::ContentFilter),
            "error" | "abort" | "insufficient_system_resource" => {
                return Err(Error::Unavailable {
                    reason: "it stopped before the end of the answer".into(),
                    after: None,
                });
            }
            _ => Some(Finish::Stop),
        };
        Ok(())
    }

    fn delta(&mut self, delta: ChatDelta<'_>, out: &mut Pieces) -> Result<(), Error> {
        let reasoning =
            delta.reasoning_content.filter(|LooseText(text)| !text.is_empty()).or(delta.reasoning);
        self.tally.say(text(reasoning), AnswerPiece::Reasoning, out)?;
        let content = text(delta.content);
        self.spoke |= !content.trim().is_empty();
        self.tally.say(content, AnswerPiece::Text, out)?;
        let refusal = text(delta.refusal);
        self.refused |= !refusal.is_empty();
        self.tally.say(refusal, AnswerPiece::Text, out)?;
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta<'_>, out: &mut Pieces) -> Result<(), Error> {
        let id = text(delta.id);
        let (name, arguments) = delta
            .function
            .map(|function| (text(function.name), text(function.arguments)))
            .unwrap_or_default();
        let place = match self.place(delta.index, &id, &name) {
            Some(place) => place,
            None => self.begin(delta.index, &id, &name, out)?,
        };
        if let Some(extra) = delta.extra_content {
            self.tally.count(extra.to_string().len())?;
            self.extra.insert(place.to_string(), extra);
        }
        self.tally.input(place, arguments, out)
    }

    /// The call that a fragment goes on with, or none if it begins one. A server that gives no index sends whole calls,
    /// each with its name; one that gives every call the same index tells them apart by id.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let Some(index) = index else {
            return if name.is_empty() { self.tally.calls().checked_sub(1) } else { None };
        };
        let place = *self.places.get(&index)?;
        let known = self.ids.get(place)?;
        let another = !name.is_empty() && !id.is_empty() && !known.is_empty() && *known != short_name(id);
        (!another).then_some(place)
    }

    fn begin(&mut self, index: Option<u64>, id: &str, name: &str, out: &mut Pieces) -> Result<usize, Error> {
        let place = self.tally.begin(id, name, out)?;
        self.ids.push(short_name(id));
        if let Some(index) = index {
            self.places.insert(index, place);
        }
        Ok(place)
    }
}

fn text(text: Option<LooseText<'_>>) -> Cow<'_, str> {
    text.map(|LooseText(text)| text).unwrap_or_default()
}
