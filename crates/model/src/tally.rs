//! The tally of an answer: its bounds, kept by every decoder in the same way.

use protocol::{Finish, Usage};
use serde_json::Value;

use crate::stream::Pieces;
use crate::{AnswerPiece, Error};

/// All text, reasoning and arguments of one answer together.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The arguments of one call.
pub(crate) const MAX_CALL_INPUT_BYTES: usize = 1 << 20;
/// A model's name, a tool's name or a provider's id; what is longer is cut.
const MAX_NAME_BYTES: usize = 256;
/// The weight of a call beside its texts, so that calls without any are bounded too.
const CALL_BYTES: usize = 64;
/// More tokens than any model takes; such a count is a mistake.
const MAX_PLAUSIBLE_TOKENS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The model asked for, until the provider has named one.
    asked: Option<String>,
    bytes: usize,
    /// Bytes of arguments, by call.
    calls: Vec<usize>,
}

impl Tally {
    pub(crate) fn new(model: &str) -> Self {
        Self { asked: Some(model.to_owned()), ..Self::default() }
    }

    /// Hands out the name by which the provider calls the model, if it is another than was asked for.
    pub(crate) fn name_model(&mut self, name: &str, out: &mut Pieces) {
        if !name.is_empty() && self.asked.take().is_some_and(|asked| asked != name) {
            out.push_back(AnswerPiece::Model(short_name(name)));
        }
    }

    /// How many calls have begun.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// The reason an answer ended. Servers disagree on it when there are calls; the calls themselves are what counts.
    pub(crate) fn finish(&self, said: Finish) -> Finish {
        match said {
            Finish::Stop | Finish::ToolCalls if self.calls.is_empty() => Finish::Stop,
            Finish::Stop | Finish::ToolCalls => Finish::ToolCalls,
            Finish::Length | Finish::ContentFilter | Finish::Cancelled | Finish::Failed => said,
        }
    }

    /// Counts what is kept without being handed out as text.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Error::Broken(format!("an answer longer than {MAX_ANSWER_BYTES} bytes")));
        }
        Ok(())
    }

    /// Hands out a text as the piece it is, unless it is empty.
    pub(crate) fn say(
        &mut self,
        text: impl AsRef<str> + Into<String>,
        piece: fn(String) -> AnswerPiece,
        out: &mut Pieces,
    ) -> Result<(), Error> {
        if !text.as_ref().is_empty() {
            self.count(text.as_ref().len())?;
            out.push_back(piece(text.into()));
        }
        Ok(())
    }

    /// Begins a call and gives its index.
    pub(crate) fn begin(&mut self, id: &str, name: &str, out: &mut Pieces) -> Result<usize, Error> {
        self.count(id.len() + name.len() + CALL_BYTES)?;
        let index = self.calls.len();
        self.calls.push(0);
        let provider_id = Some(short_name(id)).filter(|id| !id.is_empty());
        out.push_back(AnswerPiece::CallStart { index, provider_id, name: short_name(name) });
        Ok(index)
    }

    /// More of the arguments of a call that has begun.
    pub(crate) fn input(
        &mut self,
        index: usize,
        json: impl AsRef<str> + Into<String>,
        out: &mut Pieces,
    ) -> Result<(), Error> {
        let bytes = json.as_ref().len();
        if bytes == 0 {
            return Ok(());
        }
        self.count(bytes)?;
        if let Some(total) = self.calls.get_mut(index) {
            *total += bytes;
            if *total > MAX_CALL_INPUT_BYTES {
                return Err(Error::Broken(format!("arguments longer than {MAX_CALL_INPUT_BYTES} bytes")));
            }
        }
        out.push_back(AnswerPiece::CallInput { index, json: json.into() });
        Ok(())
    }
}

/// A name, cut to what is kept of one.
pub(crate) fn short_name(name: &str) -> String {
    name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(name).to_owned()
}

/// A count of tokens, unless it cannot be true.
pub(crate) fn plausible(count: u64) -> Option<u64> {
    (count <= MAX_PLAUSIBLE_TOKENS).then_some(count)
}

/// The places of a provider's counts of tokens, as JSON pointers.
pub(crate) struct UsagePointers {
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    pub(crate) cached: &'static str,
    pub(crate) reasoning: &'static str,
}

impl UsagePointers {
    /// None if the counts are missing or cannot be true; the caller then estimates.
    pub(crate) fn read(&self, usage: &Value) -> Option<Usage> {
        let count = |pointer| usage.pointer(pointer).and_then(Value::as_u64).and_then(plausible);
        let (input, output) = (count(self.input)?, count(self.output)?);
        Some(Usage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: count(self.cached).unwrap_or_default().min(input),
            reasoning_tokens: count(self.reasoning).unwrap_or_default().min(output),
            ..Usage::default()
        })
    }
}
