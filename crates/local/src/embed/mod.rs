//! Vectors of texts from a network in this process: BERT and its family, such as all-MiniLM-L6-v2 and bge-small-en-v1.5,
//! from a folder with `config.json`, `tokenizer.json`, `model.safetensors` and `1_Pooling/config.json`.
//!
//! Threads of its own make the vectors, so the runtime is never held up. A request is split into jobs of about a
//! screenful, and only a few of them wait at a time: a short question is not stuck behind ten thousand documents.

mod bert;
mod cpu;
mod functions;
mod load;
mod matrix;
#[cfg(test)]
mod tests;
mod weights;
mod wordpiece;

use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use model::{Embedder, Error};
use tokio::sync::{mpsc, oneshot};

use self::bert::{Bert, Room};
use self::cpu::Cpu;
pub use self::load::LoadError;
use self::wordpiece::WordPiece;

/// Jobs that wait over all requests; who comes later waits with the job in hand.
const MAX_QUEUED_JOBS: usize = 64;
/// Texts of a job.
const MAX_JOB_TEXTS: usize = 32;
/// Bytes of text in a job, unless a single text is longer: about 300 tokens, which is enough to keep a thread busy.
const MAX_JOB_BYTES: usize = 1200;
/// Jobs of one request that are queued or under way, for each thread: one to work on, and one to go on with.
const JOBS_PER_THREAD: usize = 2;
const MAX_THREADS: usize = 64;

/// A model of the BERT family in this process.
#[derive(Debug)]
pub struct LocalEmbedder {
    model: String,
    dimensions: usize,
    jobs: mpsc::Sender<Job>,
    /// Jobs of one request that may be outstanding.
    jobs_at_once: usize,
}

#[derive(Debug)]
struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Vec<Vec<f32>>>,
}

#[derive(Debug)]
struct Network {
    tokenizer: WordPiece,
    bert: Bert,
    max_tokens: usize,
}

impl LocalEmbedder {
    /// Reads the folder, which takes a moment and blocks, and starts the threads: one for each core unless `threads` says
    /// otherwise. They end with the embedder.
    pub fn load(folder: &Path, model: String, threads: Option<NonZero<usize>>) -> Result<Self, LoadError> {
        let network = Arc::new(Network::read(folder, Cpu::best())?);
        let threads = threads.or_else(|| thread::available_parallelism().ok());
        let threads = threads.map_or(1, NonZero::get).min(MAX_THREADS);
        let (jobs, queue) = mpsc::channel(MAX_QUEUED_JOBS);
        let dimensions = network.bert.shape().hidden;
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..threads {
            let (network, queue) = (Arc::clone(&network), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("rondo-embed-{index}"));
            thread.spawn(move || network.serve(&queue)).map_err(LoadError::Thread)?;
        }
        Ok(Self { model, dimensions, jobs, jobs_at_once: threads * JOBS_PER_THREAD })
    }

    /// The length of the vectors.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let jobs: Vec<_> = batches(texts).map(|batch| self.embed_batch(batch)).collect();
        let answers = stream::iter(jobs).buffered(self.jobs_at_once);
        let vectors: Vec<Vec<Vec<f32>>> = answers.try_collect().await?;
        Ok(vectors.into_iter().flatten().collect())
    }

    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let (reply, answer) = oneshot::channel();
        let ended = || Error::Unavailable { reason: "the threads for embeddings ended".into(), after: None };
        self.jobs.send(Job { texts: texts.to_vec(), reply }).await.map_err(|_| ended())?;
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
    fn read(folder: &Path, cpu: Cpu) -> Result<Self, LoadError> {
        let bert = Bert::read(folder, load::pooling(folder)?, cpu)?;
        let tokenizer = WordPiece::read(folder, bert.shape().words)?;
        let max_tokens = load::max_tokens(folder, bert.shape().positions)?;
        Ok(Self { tokenizer, bert, max_tokens })
    }

    /// One job after the other, until nobody can send any more.
    fn serve(&self, queue: &Mutex<mpsc::Receiver<Job>>) {
        let mut room = Room::default();
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        while let Some(Job { texts, reply }) = next() {
            // Whoever asked may have gone away; then there is nothing to do.
            if !reply.is_closed() {
                drop(reply.send(self.embed(&texts, &mut room)));
            }
        }
    }

    fn embed(&self, texts: &[String], room: &mut Room) -> Vec<Vec<f32>> {
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| self.tokenizer.cut(text, self.max_tokens)).collect();
        self.bert.embed(&ids, room)
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
