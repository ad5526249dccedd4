//! The output of one try of a step so far: pieces in, deltas and in the end a `step:end` out.

use std::collections::HashSet;
use std::sync::Arc;

use ::model::{AnswerPiece, Model, ModelRequest};
use protocol::{
    Call, CallId, Delta, Failure, Finish, Ids, MAX_JSON_DEPTH, PromptLedger, StepEnd, Structured, Usage,
    json_depth, value_depth,
};
use serde_json::Value;

use crate::context::{TextOf, WantedAnswer};
use crate::transcript::MAX_CALLS_PER_STEP;

/// Names of calls beyond the bound that are kept to tell the model.
const MAX_DROPPED_NAMED: usize = 8;

#[derive(Debug)]
pub(super) struct Collected {
    pub(super) step: u32,
    /// The model that was asked in another's place.
    pub(super) fallback: Option<String>,
    wanted: WantedAnswer,
    /// The text that the model wrote, where that is not what people read.
    raw: String,
    /// Finds in it what people read.
    text_of: TextOf,
    text: String,
    reasoning: String,
    calls: Vec<Partial>,
    dropped: Vec<String>,
    dropped_count: usize,
    usage: Option<Usage>,
    model: Option<String>,
    provider: Option<Value>,
    /// The parts of the prompt.
    pub(super) ledger: Option<PromptLedger>,
}

/// A call whose arguments are still arriving.
#[derive(Debug)]
struct Partial {
    id: CallId,
    index: usize,
    provider_id: Option<String>,
    name: Arc<str>,
    json: String,
}

impl Collected {
    pub(super) fn new(step: u32, wanted: WantedAnswer) -> Self {
        Self {
            step,
            fallback: None,
            wanted,
            raw: String::new(),
            text_of: TextOf::default(),
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            dropped: Vec::new(),
            dropped_count: 0,
            usage: None,
            ledger: None,
            model: None,
            provider: None,
        }
    }

    /// A try that was cut, as the log has it.
    pub(super) fn of_log(step: u32, text: String, reasoning: String) -> Self {
        Self { text, reasoning, ..Self::new(step, WantedAnswer::Words) }
    }

    /// Whether a reader may have seen any of it.
    pub(super) fn is_streamed(&self) -> bool {
        !self.text.is_empty()
            || !self.reasoning.is_empty()
            || self.calls.iter().any(|call| !call.json.is_empty())
    }

    /// Takes a piece in, and gives what readers get to see of it.
    pub(super) fn take(&mut self, piece: AnswerPiece, ids: &dyn Ids) -> Option<Delta> {
        let step = self.step;
        match piece {
            AnswerPiece::Text(written) => {
                let delta = self.read(written);
                self.text.push_str(&delta);
                (!delta.is_empty()).then_some(Delta::Text { step, delta })
            }
            AnswerPiece::Reasoning(delta) => {
                self.reasoning.push_str(&delta);
                (!delta.is_empty()).then_some(Delta::Reasoning { step, delta })
            }
            AnswerPiece::CallStart { index, provider_id, name } => {
                self.start_call(index, provider_id, name, ids);
                None
            }
            AnswerPiece::CallInput { index, json } => self.more_input(index, json),
            AnswerPiece::CallsVoid => {
                self.drop_calls();
                None
            }
            AnswerPiece::Model(name) => {
                self.model = Some(name);
                None
            }
            AnswerPiece::Usage(usage) => {
                self.usage = Some(usage);
                None
            }
            AnswerPiece::Provider(items) => {
                let fits = value_depth(&items) <= MAX_JSON_DEPTH;
                if !fits {
                    tracing::warn!(
                        step,
                        "the provider's data for the next request is nested too deep and is left out"
                    );
                }
                self.provider = fits.then_some(items);
                None
            }
            AnswerPiece::Finish(_) => None,
        }
    }

    /// The part for people of what the model wrote.
    fn read(&mut self, written: String) -> String {
        match &self.wanted {
            WantedAnswer::Words => written,
            WantedAnswer::Calls => {
                self.raw.push_str(&written);
                String::new()
            }
            WantedAnswer::Object(shape) => {
                self.raw.push_str(&written);
                if shape.has_text { self.text_of.feed(&written) } else { written }
            }
        }
    }

    fn start_call(&mut self, index: usize, provider_id: Option<String>, name: String, ids: &dyn Ids) {
        if self.calls.len() < MAX_CALLS_PER_STEP {
            let id = ids.call();
            self.calls.push(Partial { id, index, provider_id, name: name.into(), json: String::new() });
        } else {
            self.dropped_count += 1;
            if self.dropped.len() < MAX_DROPPED_NAMED {
                self.dropped.push(name);
            }
        }
    }

    fn more_input(&mut self, index: usize, json: String) -> Option<Delta> {
        let call = self.calls.iter_mut().rev().find(|call| call.index == index)?;
        call.json.push_str(&json);
        let delta =
            Delta::ToolInput { step: self.step, call: call.id, name: Arc::clone(&call.name), delta: json };
        Some(delta)
    }

    pub(super) fn drop_calls(&mut self) {
        self.calls.clear();
        self.dropped.clear();
        self.dropped_count = 0;
    }

    /// Fills in the tokens where the provider did not count them, and what they cost. Where it did, how we count is
    /// measured by it.
    pub(super) fn count(&mut self, request: &ModelRequest, model: &Model) {
        let counter = model.tokens();
        let asked = self.ledger.as_ref().map_or(0, |ledger| ledger.tokens);
        if let Some(usage) = &self.usage {
            counter.learn(request, usage.input_tokens);
        }
        let usage = self.usage.unwrap_or_else(|| {
            let written = if self.text.len() > self.raw.len() { &self.text } else { &self.raw };
            let arguments = self.calls.iter().map(|call| counter.text(&call.json)).sum::<usize>();
            let tokens = counter.text(written) + counter.text(&self.reasoning) + arguments;
            Usage { input_tokens: asked, output_tokens: tokens as u64, estimated: true, ..Usage::default() }
        });
        self.usage = Some(model.with_cost(usage));
    }

    /// The cost, once that was counted.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The object that was written, if one was wanted and this is one.
    fn structured_answer(&self) -> Option<Structured> {
        let WantedAnswer::Object(shape) = &self.wanted else { return None };
        let Some(structured) = shape.read(&self.raw) else {
            tracing::warn!(step = self.step, "the model's answer does not match the schema of the answer");
            return None;
        };
        if structured.dropped > 0 {
            let dropped = structured.dropped;
            tracing::warn!(
                step = self.step,
                dropped,
                "the answer names memories that were not in its prompt; these references are dropped"
            );
        }
        Some(structured)
    }

    pub(super) fn end(mut self, finish: Finish, error: Option<Failure>) -> StepEnd {
        // A stream that was cut, or stopped by its length, may have left half a call behind.
        let calls =
            if matches!(finish, Finish::Cancelled | Finish::Failed) { Vec::new() } else { self.take_calls() };
        let structured =
            if calls.is_empty() && finish == Finish::Stop { self.structured_answer() } else { None };
        let finish = if calls.is_empty() && finish == Finish::ToolCalls { Finish::Stop } else { finish };
        if self.dropped_count > self.dropped.len() {
            self.dropped.push(format!("and {} more", self.dropped_count - self.dropped.len()));
        }
        StepEnd {
            step: self.step,
            text: self.text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            calls,
            usage: self.usage.unwrap_or_default(),
            finish,
            error,
            model: self.model,
            dropped: self.dropped,
            provider: self.provider,
            fallback: self.fallback,
            structured,
            prompt: self.ledger,
        }
    }

    /// The calls, each with arguments or the text that was none, and with a provider id no sibling has.
    fn take_calls(&mut self) -> Vec<Call> {
        let mut seen = HashSet::new();
        let finished = |partial: Partial| {
            let (input, raw) = parse(partial.json);
            let provider_id = partial.provider_id.filter(|id| !id.is_empty() && seen.insert(id.clone()));
            Call { id: partial.id, name: partial.name.to_string(), input, raw, provider_id }
        };
        self.calls.drain(..).map(finished).collect()
    }
}

/// Arguments as an object, or null and the text. No text at all means no arguments.
fn parse(json: String) -> (Value, Option<String>) {
    if json.trim().is_empty() {
        return (Value::Object(serde_json::Map::new()), None);
    }
    if json_depth(&json) > MAX_JSON_DEPTH {
        return (Value::Null, Some(json));
    }
    match serde_json::from_str(&json) {
        Ok(input @ Value::Object(_)) => (input, None),
        Ok(_) | Err(_) => (Value::Null, Some(json)),
    }
}
