//! OpenAI's Chat Completions: a run as chunks of one answer, or as one object.
//!
//! One fold reads the log ([`CompletionFold`]). [`ChatCompletionEncoder`] streams what it gives, and
//! [`CompletionCollector`] adds it up. An answer ends when the run has ended, when the client is to make calls, or when
//! the user has to decide. All three follow from the log alone, so a stream that is read again has the same bytes. Calls
//! of the server are left out: a client would try to make them.

mod fold;
mod wire;

use protocol::{Event, Failure, RunId};

use self::fold::{CompletionFold, CompletionPiece};
pub(crate) use self::wire::ChatCompletion;
use self::wire::{Choice, Chunk, ChunkCall, ChunkChoice, Delta, Function, Message, MessageCall, Usage};
use super::{AwaitedAnswer, BEGUN_AGAIN, Encoder, StreamState, write_data};
use crate::error::openai::{OpenAiError, OpenAiErrorBody};

/// The beginning of what is said about a call that waits for the user's approval. Clients send it back as a part of the
/// answer, and it is no part of the thread.
pub(crate) const APPROVAL_NOTICE: &str = "Approval needed: ";

const DONE: &[u8] = b"data: [DONE]\n\n";

/// A run of this contract.
#[derive(Debug, Clone, Default)]
struct CompletionNames {
    /// The model that the request named.
    model: String,
    run: Option<RunId>,
}

impl CompletionNames {
    fn id(&self) -> String {
        self.run.map(|run| format!("chatcmpl-{}", run.uuid().simple())).unwrap_or_default()
    }

    /// When the run was made, in seconds: the first 48 bits of its id are the milliseconds.
    fn created(&self) -> u64 {
        let millis = self.run.map_or(0, |run| run.uuid().as_u128() >> 80);
        u64::try_from(millis / 1000).unwrap_or_default()
    }
}

/// Streams chunks.
#[derive(Debug)]
pub(crate) struct ChatCompletionEncoder {
    fold: CompletionFold,
    names: CompletionNames,
    /// Whether the client wants to know the tokens.
    with_usage: bool,
}

impl ChatCompletionEncoder {
    pub(crate) fn new(model: String, with_usage: bool) -> Self {
        let names = CompletionNames { model, run: None };
        Self { fold: CompletionFold::default(), names, with_usage }
    }

    /// Gives only what comes after the first of these decisions and results, for a client that has seen the rest.
    pub(crate) fn after_answers(mut self, given: Vec<AwaitedAnswer>) -> Self {
        self.fold = CompletionFold::after_answers(given);
        self
    }

    fn send(&self, delta: Delta<'_>, finish_reason: Option<&str>, out: &mut Vec<u8>) {
        let choices = vec![ChunkChoice { index: 0, delta, logprobs: None, finish_reason }];
        self.send_chunk(choices, self.with_usage.then_some(None), out);
    }

    fn send_chunk(&self, choices: Vec<ChunkChoice<'_>>, usage: Option<Option<Usage>>, out: &mut Vec<u8>) {
        let (id, created, model) = (self.names.id(), self.names.created(), self.names.model.as_str());
        write_data(out, &Chunk { id, object: "chat.completion.chunk", created, model, choices, usage });
    }

    fn piece(&mut self, piece: CompletionPiece, out: &mut Vec<u8>) -> StreamState {
        match piece {
            CompletionPiece::Begin(run) => {
                self.names.run = Some(run);
                let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
                self.send(delta, None, out);
            }
            CompletionPiece::StepBegin => {}
            CompletionPiece::Content(text) => {
                self.send(Delta { content: Some(&text), ..Delta::default() }, None, out);
            }
            CompletionPiece::Reasoning(text) => {
                self.send(Delta { reasoning_content: Some(&text), ..Delta::default() }, None, out);
            }
            CompletionPiece::Call { index, call, name, arguments } => {
                let function = Function { name: &name, arguments: &arguments };
                let call = ChunkCall { index, id: call, kind: "function", function };
                self.send(Delta { tool_calls: Some([call]), ..Delta::default() }, None, out);
            }
            CompletionPiece::StepReset => {
                return fail(&Failure { code: "step_reset".into(), message: BEGUN_AGAIN.into() }, out);
            }
            CompletionPiece::Finish { reason, usage } => {
                self.send(Delta::default(), Some(reason), out);
                if self.with_usage {
                    self.send_chunk(Vec::new(), Some(Some(Usage::from(usage))), out);
                }
                out.extend_from_slice(DONE);
                return StreamState::Ended;
            }
            CompletionPiece::Fail(failure) => return fail(&failure, out),
        }
        StreamState::Open
    }
}

impl Encoder for ChatCompletionEncoder {
    fn write(&mut self, event: Event, out: &mut Vec<u8>) -> StreamState {
        for piece in self.fold.read(event) {
            if self.piece(piece, out) == StreamState::Ended {
                return StreamState::Ended;
            }
        }
        StreamState::Open
    }

    fn cut(&mut self, why: &str, out: &mut Vec<u8>) {
        fail(&Failure { code: "stream_cut".into(), message: why.into() }, out);
    }

    /// Nothing: that an answer ends where its run waits follows from the log.
    fn waits_for(&self) -> Vec<AwaitedAnswer> {
        Vec::new()
    }

    fn park(&mut self, _: &mut Vec<u8>) {}
}

/// Client libraries end the stream at an error.
fn fail(failure: &Failure, out: &mut Vec<u8>) -> StreamState {
    write_data(out, &OpenAiErrorBody { error: OpenAiError::of_failure(failure) });
    StreamState::Ended
}

/// Adds up the answer of a run.
#[derive(Debug, Default)]
pub(crate) struct CompletionCollector {
    fold: CompletionFold,
    names: CompletionNames,
    content: String,
    reasoning: String,
    /// Lengths of both when the step under way began.
    before_step: (usize, usize),
    calls: Vec<MessageCall>,
}

/// An answer, or why there is none.
pub(crate) type CollectedCompletion = Result<ChatCompletion, Failure>;

impl CompletionCollector {
    pub(crate) fn new(model: String) -> Self {
        Self { names: CompletionNames { model, run: None }, ..Self::default() }
    }

    /// Gives only what comes after the first of these decisions and results, for a client that has seen the rest.
    pub(crate) fn after_answers(mut self, given: Vec<AwaitedAnswer>) -> Self {
        self.fold = CompletionFold::after_answers(given);
        self
    }

    /// The answer, once the event is its last.
    pub(crate) fn read(&mut self, event: Event) -> Option<CollectedCompletion> {
        self.fold.read(event).into_iter().find_map(|piece| self.piece(piece))
    }

    fn piece(&mut self, piece: CompletionPiece) -> Option<CollectedCompletion> {
        match piece {
            CompletionPiece::Begin(run) => self.names.run = Some(run),
            CompletionPiece::StepBegin => self.before_step = (self.content.len(), self.reasoning.len()),
            CompletionPiece::Content(text) => self.content.push_str(&text),
            CompletionPiece::Reasoning(text) => self.reasoning.push_str(&text),
            CompletionPiece::Call { call, name, arguments, .. } => {
                self.calls.push(MessageCall::new(call, name, arguments));
            }
            CompletionPiece::StepReset => {
                let (content, reasoning) = self.before_step;
                self.content.truncate(content);
                self.reasoning.truncate(reasoning);
            }
            CompletionPiece::Finish { reason, usage } => return Some(Ok(self.answer(reason, usage))),
            CompletionPiece::Fail(failure) => return Some(Err(failure)),
        }
        None
    }

    fn answer(&mut self, finish_reason: &'static str, usage: protocol::Usage) -> ChatCompletion {
        let content = std::mem::take(&mut self.content);
        let reasoning = std::mem::take(&mut self.reasoning);
        let calls = std::mem::take(&mut self.calls);
        let message = Message {
            role: "assistant",
            content: Some(content).filter(|content| !content.is_empty() || calls.is_empty()),
            refusal: None,
            reasoning_content: Some(reasoning).filter(|text| !text.is_empty()),
            tool_calls: Some(calls).filter(|calls| !calls.is_empty()),
        };
        ChatCompletion {
            id: self.names.id(),
            object: "chat.completion",
            created: self.names.created(),
            model: self.names.model.clone(),
            choices: vec![Choice { index: 0, message, logprobs: None, finish_reason }],
            usage: usage.into(),
        }
    }
}
