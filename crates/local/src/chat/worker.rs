//! The thread that computes: a few sequences side by side, each a token at a time.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::sequence::{ChatJob, Sequence, SequenceState, common};
use crate::llama::{Cache, Llama, Runner};
use crate::tokenizer::Tokenizer;

/// Tokens of prompts that one step reads. More are hardly faster, and a step cannot be ended early.
const READ_ALONE: usize = 128;
/// Tokens of prompts that one step reads while other sequences write, which wait meanwhile.
const READ_BESIDE: usize = 32;

/// Caches that are kept beside those of the sequences, such as that of the question which tool to call.
const MORE_CACHES: usize = 4;

pub(super) struct Worker {
    model: Llama,
    runner: Runner,
    tokenizer: Arc<Tokenizer>,
    active: Vec<Sequence>,
    /// Caches of ended sequences, the oldest first. A prompt that begins like one of them goes on from there.
    idle: Vec<Cache>,
    sequences: usize,
    /// The number of bytes that the caches take, for others to read.
    cache_bytes: Arc<AtomicUsize>,
}

impl Worker {
    pub(super) fn new(
        model: Llama,
        runner: Runner,
        tokenizer: Arc<Tokenizer>,
        sequences: usize,
        cache_bytes: Arc<AtomicUsize>,
    ) -> Self {
        Self { model, runner, tokenizer, active: Vec::new(), idle: Vec::new(), sequences, cache_bytes }
    }

    /// Works until all senders of jobs are gone.
    pub(super) fn serve(mut self, mut jobs: mpsc::Receiver<ChatJob>) {
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

    fn begin(&mut self, job: ChatJob) {
        let cache = self.cache_for(&job.prompt);
        let sequence = Sequence::new(job, cache, &self.model.shape);
        self.make_room(sequence.most_bytes(&self.model.shape));
        self.active.push(sequence);
    }

    /// The cache with most of the prompt in it. A new one where that would lose more than half of what it holds, because
    /// a long prompt takes many seconds to read again.
    fn cache_for(&mut self, prompt: &[u32]) -> Cache {
        let shared = |cache: &Cache| common(cache.tokens(), prompt);
        let best = (0..).zip(&self.idle).max_by_key(|(index, cache)| (shared(cache), Reverse(*index)));
        match best {
            Some((index, cache))
                if shared(cache) * 2 > cache.tokens().len() || shared(cache) == prompt.len() =>
            {
                self.idle.remove(index)
            }
            Some(_) | None => Cache::default(),
        }
    }

    /// Forgets the oldest caches until a sequence of `bytes` bytes has room. All caches together take at most the
    /// memory of all sequences at their longest.
    fn make_room(&mut self, bytes: usize) {
        let shape = &self.model.shape;
        let most = self.sequences * shape.cache_bytes(shape.context);
        let writing: usize = self.active.iter().map(|sequence| sequence.most_bytes(shape)).sum();
        while !self.idle.is_empty() {
            let held: usize = self.idle.iter().map(Cache::bytes).sum();
            let is_full = self.idle.len() + self.active.len() >= self.sequences + MORE_CACHES;
            if !is_full && held + writing + bytes <= most {
                return;
            }
            self.idle.remove(0);
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
        let active: usize = parts.iter().map(|part| part.cache.bytes()).sum();
        let idle: usize = self.idle.iter().map(Cache::bytes).sum();
        self.cache_bytes.store(active + idle, Ordering::Relaxed);
        let mut ended = Vec::new();
        for (sequence, read) in self.active.iter_mut().zip(read) {
            let next = if read == 0 { SequenceState::GoOn } else { sequence.advance(read, &self.tokenizer) };
            ended.push(next == SequenceState::Ended);
        }
        let mut ended = ended.into_iter();
        self.end_where(|_| ended.next().unwrap_or(false));
    }

    fn end_where(&mut self, mut over: impl FnMut(&Sequence) -> bool) {
        let ended: Vec<Sequence> = self.active.extract_if(.., |sequence| over(sequence)).collect();
        self.idle.extend(ended.into_iter().map(Sequence::into_cache));
    }
}
