//! Vectors of texts from a network in this process: BERT and its family, such as all-MiniLM-L6-v2 and bge-small-en-v1.5,
//! from a folder with `config.json`, `tokenizer.json`, `model.safetensors` and `1_Pooling/config.json`.
//!
//! Threads of its own make the vectors, so the runtime is never held up. All of them work on one job at a time. A request
//! of many texts is split into jobs of a few milliseconds, and a request of one text goes before them: a question is not
//! stuck behind ten thousand documents.

mod bert;
mod load;
mod queue;
#[cfg(test)]
mod tests;
mod weights;
mod wordpiece;

use std::num::NonZero;
use std::path::Path;
use std::thread;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use model::{Embedder, Error};
use tokio::sync::oneshot;

use self::bert::{Bert, Machine, Room};
pub use self::load::EmbedderLoadError;
use self::queue::{EmbedPriority, EmbedQueue, EmbedWork, queue};
use self::wordpiece::WordPiece;
use crate::kernels::{Cpu, KernelPool};

/// Texts of a job.
const MAX_JOB_TEXTS: usize = 16;
/// Bytes of text in a job, unless a single text is longer: about a hundred tokens, which are multiplied nearly as fast
/// as a thousand at once.
const MAX_JOB_BYTES: usize = 400;
/// Jobs of one request that are queued or under way: one to work on, and some to go on with.
const JOBS_AT_ONCE: usize = 4;

/// A model of the BERT family in this process.
#[derive(Debug)]
pub struct LocalEmbedder {
    model: String,
    dimensions: usize,
    weights: usize,
    jobs: EmbedQueue<Job>,
}

#[derive(Debug)]
struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Vec<Vec<f32>>>,
}

struct Network {
    tokenizer: WordPiece,
    bert: Bert,
    max_tokens: usize,
}

impl LocalEmbedder {
    /// Reads the folder, which takes a moment and blocks, and starts the threads: one for each core unless `threads` says
    /// otherwise. They end with the embedder.
    pub fn load(
        folder: &Path,
        model: String,
        threads: Option<NonZero<usize>>,
    ) -> Result<Self, EmbedderLoadError> {
        let network = Network::read(folder)?;
        let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
        let pool = KernelPool::new(threads).map_err(EmbedderLoadError::Thread)?;
        let machine = Machine { cpu: Cpu::detect(), pool };
        let (dimensions, weights) = (network.bert.shape().hidden_size, network.bert.bytes());
        let (jobs, work) = queue();
        let thread = thread::Builder::new().name("local-embed".into());
        thread.spawn(move || network.serve(machine, work)).map_err(EmbedderLoadError::Thread)?;
        Ok(Self { model, dimensions, weights, jobs })
    }

    /// The length of the vectors.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Memory that the weights take, in bytes. Memory beyond them is bounded by a job, and small beside them.
    pub fn weight_bytes(&self) -> usize {
        self.weights
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let kind = if texts.len() == 1 { EmbedPriority::Question } else { EmbedPriority::Part };
        let jobs: Vec<_> = batches(texts).map(|batch| self.embed_batch(kind, batch)).collect();
        let answers = stream::iter(jobs).buffered(JOBS_AT_ONCE);
        let vectors: Vec<Vec<Vec<f32>>> = answers.try_collect().await?;
        Ok(vectors.into_iter().flatten().collect())
    }

    async fn embed_batch(&self, kind: EmbedPriority, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let (reply, answer) = oneshot::channel();
        let ended = || Error::Unavailable { reason: "the threads for embeddings ended".into(), after: None };
        if !self.jobs.push(kind, Job { texts: texts.to_vec(), reply }).await {
            return Err(ended());
        }
        answer.await.map_err(|_| ended())
    }
}

impl Embedder for LocalEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        self.embed_all(texts).boxed()
    }
}

impl Network {
    fn read(folder: &Path) -> Result<Self, EmbedderLoadError> {
        let bert = Bert::read(folder, load::pooling(folder)?)?;
        let tokenizer = WordPiece::read(folder, bert.shape().vocab_size)?;
        let max_tokens = load::max_tokens(folder, bert.shape().max_position_embeddings)?;
        Ok(Self { tokenizer, bert, max_tokens })
    }

    /// One job after the other, until all senders are gone.
    fn serve(&self, mut machine: Machine, mut work: EmbedWork<Job>) {
        let mut room = Room::default();
        while let Some(Job { texts, reply }) = work.pop() {
            // The caller may have gone away; then there is nothing to do.
            if !reply.is_closed() {
                drop(reply.send(self.embed(&mut machine, &texts, &mut room)));
            }
        }
    }

    fn embed(&self, machine: &mut Machine, texts: &[String], room: &mut Room) -> Vec<Vec<f32>> {
        let ids: Vec<Vec<u32>> =
            texts.iter().map(|text| self.tokenizer.encode_within(text, self.max_tokens)).collect();
        self.bert.embed(machine, &ids, room)
    }
}

/// The texts in runs that are a job each.
fn batches(mut texts: &[String]) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = texts.iter().take(MAX_JOB_TEXTS).take_while(|text| {
            bytes += text.len();
            bytes <= MAX_JOB_BYTES
        });
        let count = fitting.count().max(1);
        let (batch, rest) = texts.split_at_checked(count)?;
        texts = rest;
        Some(batch)
    })
}
