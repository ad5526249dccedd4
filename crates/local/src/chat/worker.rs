//! The thread that computes: a few sequences side by side, each a token at a time.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::sequence::{Job, Next, Sequence, common};
use crate::llama::{Cache, Llama, Runner};
use crate::tokenizer::Tokenizer;

/// Tokens of prompts that one step reads. More are hardly faster, and a step cannot be ended early.
const READ_ALONE: usize = 128;
/// The same while others write, who wait meanwhile.
const READ_BESIDE: usize = 32;

pub(super) struct Worker {
    model: Llama,
    runner: Runner,
    tokenizer: Arc<Tokenizer>,
    active: Vec<Sequence>,
    /// What ended sequences have left, the oldest first. A prompt that begins like one of them goes on from there.
    idle: Vec<Cache>,
    sequences: usize,
}

impl Worker {
    pub(super) fn new(model: Llama, runner: Runner, tokenizer: Arc<Tokenizer>, sequences: usize) -> Self {
        Self { model, runner, tokenizer, active: Vec::new(), idle: Vec::new(), sequences }
    }

    /// Works until nobody can ask any more.
    pub(super) fn serve(mut self, mut jobs: mpsc::Receiver<Job>) {
        loop {
            if self.active.is_empty() {
                let Some(job) = jobs.blocking_recv() else { return };
                self.begin(job);
            }
            while self.active.len() < self.sequences {
                match jobs.try_recv() {
                    Ok(job) => self.begin(job),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.step();
        }
    }

    fn begin(&mut self, job: Job) {
        let cache = self.cache_for(&job.prompt);
        self.active.push(Sequence::new(job, cache, &self.model.shape));
    }

    /// The cache with most of the prompt in it. A new one where none helps, as long as there may be more of them.
    fn cache_for(&mut self, prompt: &[u32]) -> Cache {
        let helps = |cache: &Cache| common(cache.tokens(), prompt);
        let best = (0..).zip(&self.idle).map(|(index, cache)| (helps(cache), std::cmp::Reverse(index))).max();
        let full = self.idle.len() + self.active.len() >= self.sequences;
        match best {
            Some((shared, std::cmp::Reverse(index))) if shared > 0 || full => self.idle.remove(index),
            Some(_) | None => Cache::default(),
        }
    }

    fn step(&mut self) {
        self.end_where(Sequence::is_abandoned);
        let writing = self.active.iter().any(|sequence| !sequence.is_reading());
        let mut left = if writing { READ_BESIDE } else { READ_ALONE };
        let mut read = Vec::new();
        let mut parts = Vec::new();
        for sequence in &mut self.active {
            let most = if sequence.is_reading() { left } else { 1 };
            let reading = sequence.is_reading();
            let part = sequence.part(most);
            left -= if reading { part.tokens.len() } else { 0 };
            read.push(part.tokens.len());
            parts.push(part);
        }
        self.runner.step(&self.model, &mut parts);
        let mut ended = Vec::new();
        for (sequence, read) in self.active.iter_mut().zip(read) {
            let next = if read == 0 { Next::GoOn } else { sequence.advance(read, &self.tokenizer) };
            ended.push(next == Next::Ended);
        }
        let mut ended = ended.into_iter();
        self.end_where(|_| ended.next().unwrap_or(false));
    }

    fn end_where(&mut self, mut over: impl FnMut(&Sequence) -> bool) {
        let ended: Vec<Sequence> = self.active.extract_if(.., |sequence| over(sequence)).collect();
        self.idle.extend(ended.into_iter().map(Sequence::into_cache));
    }
}
