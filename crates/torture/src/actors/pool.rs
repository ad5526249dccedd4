//! The common knowledge of the actors of one user, as the tabs of one browser have it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

const MAX_THREADS: usize = 12;
const MAX_RUNS: usize = 40;
const MAX_MEMORIES: usize = 60;
/// Places of one run that a later reader may begin from.
const MAX_PLACES: usize = 200;
/// Among how many of the newest runs most readers choose, so that most streams are live.
const RECENT_RUNS: usize = 6;

/// Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ActorPool(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    threads: VecDeque<String>,
    runs: VecDeque<KnownRun>,
    memories: VecDeque<KnownMemory>,
}

/// A run, and its events that some reader has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownRun {
    pub(super) run: String,
    pub(super) places: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownMemory {
    pub(super) id: String,
    /// A word that is in this memory only.
    pub(super) word: String,
}

impl ActorPool {
    pub(super) fn learn_thread(&self, thread: &str) {
        let mut known = self.lock();
        if !known.threads.iter().any(|other| other == thread) {
            keep(&mut known.threads, thread.to_owned(), MAX_THREADS);
        }
    }

    pub(super) fn forget_thread(&self, thread: &str) {
        self.lock().threads.retain(|other| other != thread);
    }

    pub(super) fn thread(&self, rng: &mut Rng) -> Option<String> {
        choose(&self.lock().threads, rng)
    }

    pub(super) fn learn_run(&self, run: &str) {
        let mut known = self.lock();
        if !known.runs.iter().any(|other| other.run == run) {
            keep(&mut known.runs, KnownRun { run: run.to_owned(), places: Vec::new() }, MAX_RUNS);
        }
    }

    /// Adds places of a run from which it can be resumed.
    pub(super) fn learn_places(&self, run: &str, places: &[u64]) {
        let mut known = self.lock();
        if let Some(known) = known.runs.iter_mut().find(|other| other.run == run) {
            let room = MAX_PLACES.saturating_sub(known.places.len());
            known.places.extend(places.iter().take(room));
        }
    }

    pub(super) fn forget_run(&self, run: &str) {
        self.lock().runs.retain(|other| other.run != run);
    }

    /// Mostly one of the newest.
    pub(super) fn run(&self, rng: &mut Rng) -> Option<KnownRun> {
        let known = self.lock();
        let among = if rng.u8(0..10) < 7 { RECENT_RUNS } else { MAX_RUNS };
        let among = known.runs.len().min(among);
        if among == 0 {
            return None;
        }
        known.runs.iter().rev().nth(rng.usize(0..among)).cloned()
    }

    pub(super) fn learn_memory(&self, id: &str, word: &str) {
        let mut known = self.lock();
        known.memories.retain(|other| other.id != id);
        keep(&mut known.memories, KnownMemory { id: id.to_owned(), word: word.to_owned() }, MAX_MEMORIES);
    }

    pub(super) fn forget_memory(&self, id: &str) {
        self.lock().memories.retain(|other| other.id != id);
    }

    pub(super) fn memory(&self, rng: &mut Rng) -> Option<KnownMemory> {
        choose(&self.lock().memories, rng)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<T>(all: &mut VecDeque<T>, new: T, most: usize) {
    all.push_back(new);
    while all.len() > most {
        all.pop_front();
    }
}

fn choose<T: Clone>(all: &VecDeque<T>, rng: &mut Rng) -> Option<T> {
    if all.is_empty() { None } else { all.get(rng.usize(0..all.len())).cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_are_remembered_and_each_once() {
        let (pool, mut rng) = (ActorPool::default(), Rng::with_seed(1));
        for number in 0..2 * MAX_THREADS {
            pool.learn_thread(&format!("thr_{number}"));
            pool.learn_thread(&format!("thr_{number}"));
        }
        let known: Vec<String> = pool.lock().threads.iter().cloned().collect();
        let expected: Vec<String> = (MAX_THREADS..2 * MAX_THREADS).map(|n| format!("thr_{n}")).collect();
        assert_eq!(known, expected);
        assert!(expected.contains(&pool.thread(&mut rng).unwrap()));
    }

    #[test]
    fn what_is_gone_is_not_chosen_again() {
        let (pool, mut rng) = (ActorPool::default(), Rng::with_seed(1));
        pool.learn_run("run_1");
        pool.learn_places("run_1", &[1, 2, 3]);
        assert_eq!(pool.run(&mut rng), Some(KnownRun { run: "run_1".into(), places: vec![1, 2, 3] }));
        pool.forget_run("run_1");
        assert_eq!(pool.run(&mut rng), None);

        pool.learn_memory("mem_1", "old");
        pool.learn_memory("mem_1", "new");
        assert_eq!(pool.memory(&mut rng), Some(KnownMemory { id: "mem_1".into(), word: "new".into() }));
        pool.forget_memory("mem_1");
        assert_eq!(pool.memory(&mut rng), None);
    }
}
