//! A model in this process, as one that answers requests.
//!
//! One thread owns the weights and computes; requests wait in a bounded queue for a place among the few sequences that it
//! runs side by side. An answer whose reader is gone ends before its next token.

mod calls;
mod repetition;
mod sequence;
mod stops;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use model::{AnswerFormat, AnswerPiece, ChatModel, Error, ModelRequest, PieceStream, ToolSpec};
use protocol::Finish;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::gguf::Gguf;
use crate::grammar::{Grammars, ToolChoice};
use crate::llama::{self, LlamaLoadError, LlamaShape, Runner};
use crate::sample::Sampler;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use crate::tool_choice::{ToolCallChoice, ToolQuestion, with_results_as_notes};
use calls::CallScanner;
use sequence::ChatJob;
use stops::Stops;
use worker::Worker;

const MAX_SEQUENCES: usize = 8;
const MAX_WAITING: usize = 1024;
/// When to ask again after the queue was full: about as long as a short answer takes.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Tokens that structured output has room for at least, because a part of it is worth nothing.
const MIN_STRUCTURED_ANSWER: usize = 1024;
/// Pieces beside those of the text: usage, the end, and what is left of a stop text.
const OTHER_PIECES: usize = 4;

/// How a model is run. Memory grows with the context, for each of the sequences.
#[derive(Debug, Clone, Copy)]
pub struct LocalChatOptions {
    /// Threads that compute; as many as the machine has processors, if it is not said.
    pub threads: Option<usize>,
    /// Tokens of the longest prompt with its answer, if the model can do that many.
    pub context: usize,
    /// Answers that are written side by side.
    pub sequences: usize,
    /// Requests that may wait.
    pub waiting: usize,
    /// Tokens of the longest answer, where the request names no limit.
    pub answer: usize,
    /// How often an answer may say the same phrase in a row before it is ended.
    pub repeats: usize,
}

impl Default for LocalChatOptions {
    fn default() -> Self {
        Self { threads: None, context: 8192, sequences: 2, waiting: 32, answer: 400, repeats: 4 }
    }
}

/// A loaded model. Its thread ends when this value and all answers under way are gone.
pub struct LocalChat {
    shared: Arc<Shared>,
    queue: mpsc::Sender<ChatJob>,
    weights: usize,
    max_cache: usize,
    /// Written by the thread that computes.
    cache: Arc<AtomicUsize>,
}

/// The memory that a model takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelMemory {
    pub weights: usize,
    /// Caches of the sequences under way and of those that ended last.
    pub cache: usize,
    /// The most that the cache can come to: every sequence as long as the context.
    pub max_cache: usize,
}

/// The parts that turn a request into a job.
struct Shared {
    shape: LlamaShape,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    grammars: Grammars,
    answer: usize,
    repeats: usize,
}

impl LocalChat {
    /// Reads the file and repacks its weights, which takes a second for every hundred million of them.
    pub fn load(path: &Path, options: &LocalChatOptions) -> Result<Self, LlamaLoadError> {
        let mut file = Gguf::open(path)?;
        let tokenizer = Arc::new(Tokenizer::load(&file)?);
        let template = ChatTemplate::new(file.text("tokenizer.chat_template"));
        let model = llama::load(&mut file, options.context)?;
        if tokenizer.vocabulary() > model.shape.vocabulary {
            return Err(LlamaLoadError::Unsupported("vocabulary, which has more tokens than weights,"));
        }
        let grammars = Grammars::new(&tokenizer, model.shape.vocabulary)?;
        let threads = options.threads.map_or_else(std::thread::available_parallelism, |threads| {
            Ok(std::num::NonZero::new(threads).unwrap_or(std::num::NonZero::<usize>::MIN))
        })?;
        let (queue, jobs) = mpsc::channel(options.waiting.clamp(1, MAX_WAITING));
        let (weights, shape) = (model.bytes(), model.shape.clone());
        let runner = Runner::new(threads.get())?;
        let sequences = options.sequences.clamp(1, MAX_SEQUENCES);
        let max_cache = sequences * shape.cache_bytes(shape.context);
        tracing::info!(
            megabytes = weights >> 20,
            most_cache_megabytes = max_cache >> 20,
            context = shape.context,
            threads = threads.get(),
            processor = runner.cpu().name(),
            "a model runs in this process"
        );
        let cache = Arc::new(AtomicUsize::new(0));
        let worker = Worker::new(model, runner, Arc::clone(&tokenizer), sequences, Arc::clone(&cache));
        std::thread::Builder::new().name("local-chat".into()).spawn(move || worker.serve(jobs))?;
        let (answer, repeats) = (options.answer, options.repeats);
        let shared = Shared { shape, tokenizer, template, grammars, answer, repeats };
        Ok(Self { shared: Arc::new(shared), queue, weights, max_cache, cache })
    }

    /// Tokens of the longest prompt with its answer.
    pub fn context(&self) -> usize {
        self.shared.shape.context
    }

    pub fn memory(&self) -> ModelMemory {
        let cache = self.cache.load(Ordering::Relaxed);
        ModelMemory { weights: self.weights, cache, max_cache: self.max_cache }
    }

    /// Asks for a call first if a tool may be called, and for words if no tool is needed.
    async fn ask(&self, request: &ModelRequest) -> Result<PieceStream, Error> {
        if is_free(request) && !request.tools.is_empty() {
            if let Some(call) = self.chosen_call(request).await? {
                return Ok(stream::iter(call_pieces(call).map(Ok)).boxed());
            }
            let words = ModelRequest { tools: Arc::default(), ..with_results_as_notes(request) };
            return self.send(move |shared| shared.prepare(&words)).await;
        }
        let request = if is_free(request) { with_results_as_notes(request) } else { request.clone() };
        self.send(move |shared| shared.prepare(&request)).await
    }

    /// The call that the model decides for, if any.
    async fn chosen_call(&self, request: &ModelRequest) -> Result<Option<ToolCallChoice>, Error> {
        let Some(question) = ToolQuestion::of(request) else { return Ok(None) };
        let asked = question.clone();
        let mut pieces = self.send(move |shared| shared.prepare_choice(&asked)).await?;
        let mut answer = String::new();
        while let Some(piece) = pieces.next().await {
            if let AnswerPiece::Text(text) = piece? {
                answer.push_str(&text);
            }
        }
        Ok(question.decision(&answer))
    }

    /// Hands a job to the thread that computes. Preparing it may take a while, so it is done elsewhere.
    async fn send(
        &self,
        prepare: impl FnOnce(&Shared) -> Result<(ChatJob, PieceReceiver), Error> + Send + 'static,
    ) -> Result<PieceStream, Error> {
        let shared = Arc::clone(&self.shared);
        let prepared = tokio::task::spawn_blocking(move || prepare(&shared)).await;
        let (job, pieces) = prepared.map_err(|_| thread_ended())??;
        match self.queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Error::RateLimited { after: Some(ASK_AGAIN) }),
            Err(TrySendError::Closed(_)) => return Err(thread_ended()),
        }
        let next = |mut pieces: mpsc::Receiver<_>| async { pieces.recv().await.map(|piece| (piece, pieces)) };
        Ok(stream::unfold(pieces, next).boxed())
    }
}

/// Whether the model may choose between calls and words. `tool_choice` is what others call that.
fn is_free(request: &ModelRequest) -> bool {
    !matches!(request.extra.get("tool_choice").and_then(Value::as_str), Some("none" | "required"))
}

/// An answer that is one call. Its tokens are not those of the request's prompt, so no usage is told.
fn call_pieces(call: ToolCallChoice) -> impl Iterator<Item = AnswerPiece> + Send {
    let ToolCallChoice { name, json } = call;
    let begin = AnswerPiece::CallStart { index: 0, provider_id: None, name };
    [begin, AnswerPiece::CallInput { index: 0, json }, AnswerPiece::Finish(Finish::ToolCalls)].into_iter()
}

fn thread_ended() -> Error {
    Error::Unavailable { reason: "the model's thread has ended".into(), after: None }
}

fn rejected_request(summary: String) -> Error {
    Error::Rejected { status: 400, summary }
}

impl ChatModel for LocalChat {
    fn stream<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, Result<PieceStream, Error>> {
        self.ask(request).boxed()
    }
}

type PieceReceiver = mpsc::Receiver<Result<AnswerPiece, Error>>;

impl Shared {
    /// The job that decides about a tool call.
    fn prepare_choice(&self, question: &ToolQuestion) -> Result<(ChatJob, PieceReceiver), Error> {
        let (mut job, pieces) = self.prepare(&question.request)?;
        let tools = question.tools.iter();
        let first = |name: &str| self.tokenizer.encode(name).first().copied();
        let mut bias: BTreeMap<u32, f32> = BTreeMap::new();
        for (token, lead) in tools.filter_map(|(tool, lead)| Some((first(&tool.name)?, *lead))) {
            bias.entry(token).and_modify(|other| *other = other.max(lead)).or_insert(lead);
        }
        let grammar =
            self.grammars.choice(question.tools.iter().map(|(tool, _)| tool)).map_err(rejected_request)?;
        (job.first_bias, job.grammar) = (bias.into_iter().collect(), Some(grammar));
        (job.repeats, job.sampler) = (usize::MAX, Sampler::new(&question.request.settings, None, false));
        Ok((job, pieces))
    }

    fn prepare(&self, request: &ModelRequest) -> Result<(ChatJob, PieceReceiver), Error> {
        let (tools, choice) = offered_tools(request);
        let prompt = self.template.render(request, tools, &self.tokenizer);
        let prompt =
            prompt.map_err(|error| rejected_request(format!("the model's template failed: {error}")))?;
        // No need to count the tokens of what cannot fit.
        if prompt.len() > self.shape.context.saturating_mul(self.tokenizer.longest_token_bytes()) {
            return Err(Error::ContextLength);
        }
        let mut tokens: Vec<u32> = self.tokenizer.begin().into_iter().collect();
        let text = self.tokenizer.encode(&prompt);
        // Some templates begin with that token themselves.
        tokens.extend(text.iter().skip(usize::from(!tokens.is_empty() && text.starts_with(&tokens))));
        let left = self.shape.context.saturating_sub(tokens.len());
        if tokens.is_empty() || left == 0 {
            return Err(Error::ContextLength);
        }
        let asked = request.settings.max_tokens.or(request.max_output);
        let is_text = matches!(request.format, AnswerFormat::Text);
        let usual = if is_text { self.answer } else { self.answer.max(MIN_STRUCTURED_ANSWER) };
        let limit = asked.map_or(usual, |asked| asked as usize).min(left).max(1);
        let grammar = self.grammars.matcher(&request.format, tools, choice).map_err(rejected_request)?;
        let calls = if tools.is_empty() { None } else { Some(CallScanner::default()) };
        let (out, pieces) = mpsc::channel(limit + OTHER_PIECES);
        let seed = request.extra.get("seed").and_then(Value::as_u64);
        let sampler = Sampler::new(&request.settings, seed, is_text);
        let repeats = if is_text { self.repeats } else { usize::MAX };
        let stops = Stops::from_value(request.extra.get("stop"));
        let first_bias = Vec::new();
        Ok((
            ChatJob { prompt: tokens, limit, repeats, sampler, stops, first_bias, grammar, calls, out },
            pieces,
        ))
    }
}

/// The tools that the answer may call, and whether it has to. `tool_choice` is what others call that.
fn offered_tools(request: &ModelRequest) -> (&[ToolSpec], ToolChoice) {
    match request.extra.get("tool_choice").and_then(Value::as_str) {
        Some("none") => (&[], ToolChoice::Free),
        Some("required") => (&request.tools, ToolChoice::Required),
        Some(_) | None => (&request.tools, ToolChoice::Free),
    }
}
