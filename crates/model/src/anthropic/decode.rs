//! Events of a stream as pieces of an answer. Blocks may be open side by side, fields may be missing, and events and
//! blocks of unknown kinds are passed over.
//!
//! Strict is only what safety needs: sizes are bounded, and without a stop reason there is no [`AnswerPiece::Finish`], so an
//! answer that was cut is never taken for a whole one.

use std::collections::BTreeMap;

use protocol::{Finish, Usage};
use serde_json::{Value, json};

use super::encode::THINKING;
use super::wire::{AnthropicAnswer, AnthropicDelta, AnthropicEvent, AnthropicReceivedBlock};
use crate::reading::{Decode, cut_short, parse};
use crate::refusal::Refusal;
use crate::request::PROVIDER;
use crate::stream::Pieces;
use crate::tally::{Tally, plausible};
use crate::{AnswerPiece, Error};

/// The weight of a block beside its texts, so that blocks without any are bounded too.
const BLOCK_BYTES: usize = 64;

/// Decodes one answer.
#[derive(Debug, Default)]
pub(super) struct AnthropicDecoder {
    provider: String,
    tally: Tally,
    /// The blocks that have begun and not ended, by the server's index.
    open: BTreeMap<u64, Block>,
    /// The index of the block that began last.
    last: u64,
    thoughts: Vec<Thought>,
    counts: UsageCounts,
    /// Held back until the end, because usage may follow it.
    finish: Option<Finish>,
    over: bool,
}

/// A block that is still open.
#[derive(Debug)]
enum Block {
    /// The call of this index, and the arguments that count if no others come.
    Call(usize, Option<String>),
    /// The thought of this index.
    Thought(usize),
    /// Text needs no memory, and what is unknown is passed over.
    Other,
}

/// Thinking, to be returned as it came.
#[derive(Debug)]
enum Thought {
    Open { text: String, signature: String },
    Redacted(String),
}

/// Tokens of the prompt as last reported; a later report replaces an earlier one, number by number.
#[derive(Debug, Default)]
struct UsageCounts {
    /// Tokens that were neither read from what the provider had kept nor written to it.
    fresh: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
}

impl Decode for AnthropicDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Pieces) -> Result<(), Error> {
        let data = data.trim();
        if self.over || (data.is_empty() && name != "error") {
            return Ok(());
        }
        if name == "error" {
            return Err(Refusal::read(data.as_bytes()).in_stream(&self.provider));
        }
        let event: AnthropicEvent = parse(data)?;
        if let Some(error) = event.error {
            return Err(Refusal::from_json(&error).in_stream(&self.provider));
        }
        let index = event.index.unwrap_or(self.last);
        match event.kind.as_deref().unwrap_or(name) {
            "message_start" => event.message.map_or(Ok(()), |answer| self.answer(answer, out)),
            "content_block_start" => {
                event.content_block.map_or(Ok(()), |block| self.start(index, block, out))
            }
            "content_block_delta" => event.delta.map_or(Ok(()), |delta| self.delta(index, delta, out)),
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                self.reason(event.delta.and_then(|delta| delta.stop_reason).as_deref());
                self.usage(event.usage.as_ref(), out);
                Ok(())
            }
            "message_stop" => self.end(out),
            "error" => Err(Refusal::read(data.as_bytes()).in_stream(&self.provider)),
            _ => Ok(()),
        }
    }

    fn whole_answer(&mut self, text: &str, out: &mut Pieces) -> Result<(), Error> {
        let mut answer: AnthropicAnswer = parse(text)?;
        if let Some(error) = answer.error {
            return Err(Refusal::from_json(&error).in_stream(&self.provider));
        }
        let usage = answer.usage.take();
        self.answer(answer, out)?;
        self.usage(usage.as_ref(), out);
        Ok(())
    }

    fn end(&mut self, out: &mut Pieces) -> Result<(), Error> {
        if self.over {
            return Ok(());
        }
        let finish = self.finish.ok_or_else(cut_short)?;
        for (_, block) in std::mem::take(&mut self.open) {
            self.close(block, out)?;
        }
        self.over = true;
        let thoughts: Vec<Value> = self.thoughts.drain(..).filter_map(Thought::into_json).collect();
        if !thoughts.is_empty() {
            out.push_back(AnswerPiece::Provider(json!({ PROVIDER: self.provider, THINKING: thoughts })));
        }
        out.push_back(AnswerPiece::Finish(self.tally.finish(finish)));
        Ok(())
    }

    fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl AnthropicDecoder {
    pub(super) fn new(model: &str, provider: &str) -> Self {
        Self { provider: provider.to_owned(), tally: Tally::new(model), ..Self::default() }
    }

    /// The beginning of an answer, or a whole one, which differs only in having content and a reason.
    fn answer(&mut self, answer: AnthropicAnswer, out: &mut Pieces) -> Result<(), Error> {
        self.tally.name_model(&answer.model.unwrap_or_default(), out);
        for (index, block) in (0..).zip(answer.content.unwrap_or_default()) {
            self.start(index, block, out)?;
            self.stop(index, out)?;
        }
        self.reason(answer.stop_reason.as_deref());
        self.counts.update_input(answer.usage.as_ref());
        Ok(())
    }

    fn start(&mut self, index: u64, block: AnthropicReceivedBlock, out: &mut Pieces) -> Result<(), Error> {
        self.tally.count(BLOCK_BYTES)?;
        self.last = index;
        let begun = match block.kind.as_deref().unwrap_or_default() {
            "text" => {
                self.tally.say(block.text.unwrap_or_default(), AnswerPiece::Text, out)?;
                Block::Other
            }
            "thinking" => {
                let (text, signature) = (String::new(), String::new());
                self.thoughts.push(Thought::Open { text, signature });
                let place = self.thoughts.len() - 1;
                self.think(place, block.thinking, block.signature, out)?;
                Block::Thought(place)
            }
            "redacted_thinking" => {
                let data = block.data.unwrap_or_default();
                self.tally.count(data.len())?;
                self.thoughts.push(Thought::Redacted(data));
                Block::Other
            }
            "tool_use" => {
                let (id, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
                let place = self.tally.begin(&id, &name, out)?;
                let given =
                    block.input.filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
                Block::Call(place, given.map(|input| input.to_string()))
            }
            _ => Block::Other,
        };
        match self.open.insert(index, begun) {
            Some(earlier) => self.close(earlier, out),
            None => Ok(()),
        }
    }

    fn delta(&mut self, index: u64, delta: AnthropicDelta, out: &mut Pieces) -> Result<(), Error> {
        self.tally.say(delta.text.unwrap_or_default(), AnswerPiece::Text, out)?;
        match self.open.get_mut(&index) {
            Some(Block::Thought(place)) => {
                let place = *place;
                self.think(place, delta.thinking, delta.signature, out)
            }
            Some(Block::Call(place, given)) => {
                let json = delta.partial_json.unwrap_or_default();
                if !json.is_empty() {
                    *given = None;
                }
                self.tally.input(*place, json, out)
            }
            Some(Block::Other) | None => Ok(()),
        }
    }

    fn think(
        &mut self,
        place: usize,
        more: Option<String>,
        signed: Option<String>,
        out: &mut Pieces,
    ) -> Result<(), Error> {
        let (more, signed) = (more.unwrap_or_default(), signed.unwrap_or_default());
        self.tally.count(signed.len())?;
        if let Some(Thought::Open { text, signature }) = self.thoughts.get_mut(place) {
            text.push_str(&more);
            signature.push_str(&signed);
        }
        self.tally.say(more, AnswerPiece::Reasoning, out)
    }

    fn stop(&mut self, index: u64, out: &mut Pieces) -> Result<(), Error> {
        self.open.remove(&index).map_or(Ok(()), |block| self.close(block, out))
    }

    fn close(&mut self, block: Block, out: &mut Pieces) -> Result<(), Error> {
        match block {
            Block::Call(place, Some(given)) => self.tally.input(place, given, out),
            Block::Call(_, None) | Block::Thought(_) | Block::Other => Ok(()),
        }
    }

    fn reason(&mut self, reason: Option<&str>) {
        self.finish = match reason.unwrap_or_default() {
            "" => return,
            "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
            "tool_use" => Some(Finish::ToolCalls),
            "refusal" => Some(Finish::ContentFilter),
            _ => Some(Finish::Stop),
        };
    }

    /// Takes the usage that is reported with the end; at the beginning the length of the answer is not known.
    fn usage(&mut self, usage: Option<&Value>, out: &mut Pieces) {
        self.counts.update_input(usage);
        out.extend(self.counts.usage(count(usage, "output_tokens")).map(AnswerPiece::Usage));
    }
}

impl Thought {
    /// None without a signature: the provider would refuse it.
    fn into_json(self) -> Option<Value> {
        match self {
            Thought::Open { text, signature } if !signature.is_empty() => {
                Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
            }
            Thought::Open { .. } => None,
            Thought::Redacted(data) => Some(json!({"type": "redacted_thinking", "data": data})),
        }
    }
}

impl UsageCounts {
    fn update_input(&mut self, usage: Option<&Value>) {
        self.fresh = count(usage, "input_tokens").or(self.fresh);
        self.read = count(usage, "cache_read_input_tokens").or(self.read);
        self.written = count(usage, "cache_creation_input_tokens").or(self.written);
    }

    /// None if counts are missing or cannot be true; the caller then estimates.
    fn usage(&self, output: Option<u64>) -> Option<Usage> {
        let cached_input_tokens = self.read.unwrap_or_default();
        Some(Usage {
            input_tokens: self.fresh? + cached_input_tokens + self.written.unwrap_or_default(),
            output_tokens: output?,
            cached_input_tokens,
            ..Usage::default()
        })
    }
}

fn count(usage: Option<&Value>, name: &str) -> Option<u64> {
    usage?.get(name)?.as_u64().and_then(plausible)
}
