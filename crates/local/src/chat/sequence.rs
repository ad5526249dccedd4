//! One answer on its way.

use llguidance::Matcher;
use model::{AnswerPiece, Error};
use protocol::{Finish, Usage};
use tokio::sync::mpsc;

use super::calls::{CallScanner, ChatAnswerPart};
use super::repetition::is_loop;
use super::stops::Stops;
use crate::grammar;
use crate::llama::{Cache, LlamaShape, StepPart};
use crate::sample::Sampler;
use crate::tokenizer::{Characters, Tokenizer};

/// A request, ready to be answered.
pub(super) struct ChatJob {
    pub(super) prompt: Vec<u32>,
    /// Tokens of the longest answer.
    pub(super) limit: usize,
    /// How often it may say the same phrase in a row.
    pub(super) repeats: usize,
    pub(super) sampler: Sampler,
    pub(super) stops: Stops,
    /// The bonus that is added to the scores of tokens that the answer may begin with.
    pub(super) first_bias: Vec<(u32, f32)>,
    /// The grammar that the answer follows.
    pub(super) grammar: Option<Matcher>,
    /// Finds the calls, where there may be some.
    pub(super) calls: Option<CallScanner>,
    /// Has room for every piece of the longest answer, so sending never waits.
    pub(super) out: mpsc::Sender<Result<AnswerPiece, Error>>,
}

pub(super) struct Sequence {
    job: ChatJob,
    cache: Cache,
    /// Tokens that the model has yet to read.
    pending: Vec<u32>,
    scores: Vec<f32>,
    characters: Characters,
    answered: usize,
    reused: usize,
}

/// The state of a sequence after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceState {
    GoOn,
    Ended,
}

impl Sequence {
    /// Goes on from what the cache has in common with the prompt.
    pub(super) fn new(job: ChatJob, mut cache: Cache, shape: &LlamaShape) -> Self {
        // At least one token is read, because only reading gives scores.
        let reused = common(cache.tokens(), &job.prompt).min(job.prompt.len().saturating_sub(1));
        cache.truncate(shape, reused);
        let pending = job.prompt.get(reused..).unwrap_or_default().to_vec();
        Self {
            job,
            cache,
            pending,
            scores: Vec::new(),
            characters: Characters::default(),
            answered: 0,
            reused,
        }
    }

    /// The memory of its cache once the answer is as long as it can be.
    pub(super) fn most_bytes(&self, shape: &LlamaShape) -> usize {
        shape.cache_bytes(self.job.prompt.len() + self.job.limit).max(self.cache.bytes())
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.job.out.is_closed()
    }

    pub(super) fn is_reading(&self) -> bool {
        self.answered == 0
    }

    pub(super) fn into_cache(self) -> Cache {
        self.cache
    }

    /// Its part in the next step, with at most `most` tokens.
    pub(super) fn part(&mut self, most: usize) -> StepPart<'_> {
        let tokens = self.pending.get(..most).unwrap_or(&self.pending);
        let last = tokens.len() == self.pending.len();
        StepPart { cache: &mut self.cache, tokens, scores: last.then_some(&mut self.scores) }
    }

    /// After a step that has read `read` tokens: chooses the next one if all have been read, and hands out its text.
    pub(super) fn advance(&mut self, read: usize, tokenizer: &Tokenizer) -> SequenceState {
        self.pending.drain(..read.min(self.pending.len()));
        if !self.pending.is_empty() {
            return SequenceState::GoOn;
        }
        for (token, bias) in self.job.first_bias.drain(..) {
            if let Some(score) = self.scores.get_mut(token as usize) {
                *score += bias;
            }
        }
        if let Some(grammar) = &mut self.job.grammar
            && let Err(reason) = grammar::mask(grammar, &mut self.scores)
        {
            return self.fail(reason);
        }
        let before = newest(self.cache.tokens(), self.answered);
        let Some(token) = self.job.sampler.choose(&mut self.scores, before) else {
            return self.finish(Finish::Stop);
        };
        self.answered += 1;
        if tokenizer.end_tokens().contains(&token) {
            return self.finish(Finish::Stop);
        }
        self.say(token, tokenizer)
    }

    fn say(&mut self, token: u32, tokenizer: &Tokenizer) -> SequenceState {
        let bytes = if tokenizer.is_control(token) { &[] } else { tokenizer.token(token) };
        let text = self.characters.push(bytes);
        if self.hand_out(text) {
            return self.finish(Finish::Stop);
        }
        let complete = match &mut self.job.grammar {
            Some(grammar) => match grammar::accept(grammar, token) {
                Ok(complete) => complete,
                Err(reason) => return self.fail(reason),
            },
            None => false,
        };
        if complete {
            return self.finish(Finish::Stop);
        }
        if self.answered >= self.job.limit
            || is_loop(newest(self.cache.tokens(), self.answered), self.job.repeats)
        {
            return self.finish(Finish::Length);
        }
        self.pending.push(token);
        SequenceState::GoOn
    }

    /// Hands out what the answer goes on with, as words and calls. True if the words have come to a stop text.
    fn hand_out(&mut self, text: String) -> bool {
        let parts = match &mut self.job.calls {
            Some(calls) => calls.push(&text),
            None => vec![ChatAnswerPart::Words(text)],
        };
        for part in parts {
            match part {
                ChatAnswerPart::Words(words) => {
                    let passed = self.job.stops.push(&words);
                    self.send_text(passed.text);
                    if passed.stopped {
                        return true;
                    }
                }
                ChatAnswerPart::Call { index, name, json } => {
                    let held = self.job.stops.finish();
                    self.send_text(held);
                    self.send(Ok(AnswerPiece::CallStart { index, provider_id: None, name }));
                    self.send(Ok(AnswerPiece::CallInput { index, json }));
                }
            }
        }
        false
    }

    fn finish(&mut self, finish: Finish) -> SequenceState {
        let rest = self.characters.finish();
        self.hand_out(rest);
        if let Some(unfinished) = self.job.calls.as_mut().map(CallScanner::finish) {
            self.send_text(unfinished);
        }
        let held = self.job.stops.finish();
        self.send_text(held);
        let usage = Usage {
            input_tokens: self.job.prompt.len() as u64,
            output_tokens: self.answered as u64,
            cached_input_tokens: self.reused as u64,
            ..Usage::default()
        };
        self.send(Ok(AnswerPiece::Usage(usage)));
        let called = self.job.calls.as_ref().is_some_and(CallScanner::found_any);
        let finish = if called && finish == Finish::Stop { Finish::ToolCalls } else { finish };
        self.send(Ok(AnswerPiece::Finish(finish)));
        SequenceState::Ended
    }

    fn fail(&mut self, reason: String) -> SequenceState {
        self.send(Err(Error::Broken(reason)));
        SequenceState::Ended
    }

    fn send_text(&self, text: String) {
        if !text.is_empty() {
            self.send(Ok(AnswerPiece::Text(text)));
        }
    }

    fn send(&self, piece: Result<AnswerPiece, Error>) {
        // There is room, so it fails only when the reader is gone, which is looked for before the next step.
        let _ = self.job.out.try_send(piece);
    }
}

/// The last `count` tokens.
fn newest(tokens: &[u32], count: usize) -> &[u32] {
    tokens.get(tokens.len().saturating_sub(count)..).unwrap_or_default()
}

/// How many tokens both begin with.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
