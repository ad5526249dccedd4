//! Jobs that wait to be computed: questions first, and now and then a part of a longer list, so that it gets on too.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Jobs of each kind that wait; who comes later waits with the job in hand.
const MAX_QUEUED: usize = 64;
/// Questions after which a part of a list has its turn.
const QUESTIONS_IN_A_ROW: usize = 8;

/// How long somebody is ready to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmbedPriority {
    /// One text, which somebody looks up something with.
    Question,
    /// A part of many.
    Part,
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    more: Condvar,
    questions: Arc<Semaphore>,
    parts: Arc<Semaphore>,
}

#[derive(Debug)]
struct Waiting<T> {
    questions: VecDeque<(T, OwnedSemaphorePermit)>,
    parts: VecDeque<(T, OwnedSemaphorePermit)>,
    /// Questions since the last part.
    in_a_row: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let waiting =
            Waiting { questions: VecDeque::new(), parts: VecDeque::new(), in_a_row: 0, closed: false };
        let places = || Arc::new(Semaphore::new(MAX_QUEUED));
        Self { waiting: Mutex::new(waiting), more: Condvar::new(), questions: places(), parts: places() }
    }

    /// Waits for a place. False if nobody takes jobs any more.
    pub(super) async fn push(&self, kind: EmbedPriority, job: T) -> bool {
        let places = match kind {
            EmbedPriority::Question => &self.questions,
            EmbedPriority::Part => &self.parts,
        };
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return false };
        let mut waiting = self.lock();
        match kind {
            EmbedPriority::Question => waiting.questions.push_back((job, place)),
            EmbedPriority::Part => waiting.parts.push_back((job, place)),
        }
        drop(waiting);
        self.more.notify_one();
        true
    }

    /// The next job, whenever that comes. None once the queue is closed.
    pub(super) fn pop(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(job) = waiting.next() {
                return Some(job);
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Forgets what waits, and takes nothing more.
    pub(super) fn close(&self) {
        self.questions.close();
        self.parts.close();
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.questions.clear();
        waiting.parts.clear();
        drop(waiting);
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn next(&mut self) -> Option<T> {
        let part_first = self.in_a_row >= QUESTIONS_IN_A_ROW;
        if !part_first && let Some((job, _)) = self.questions.pop_front() {
            self.in_a_row += 1;
            return Some(job);
        }
        self.in_a_row = 0;
        let next = self.parts.pop_front().or_else(|| self.questions.pop_front());
        next.map(|(job, _)| job)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn push(queue: &Queue<usize>, kind: EmbedPriority, job: usize) -> Option<bool> {
        queue.push(kind, job).now_or_never()
    }

    #[test]
    fn questions_come_first_and_parts_get_on_too() {
        let queue = Queue::new();
        for job in 0..3 {
            assert_eq!(push(&queue, EmbedPriority::Part, 100 + job), Some(true));
        }
        for job in 0..QUESTIONS_IN_A_ROW + 2 {
            assert_eq!(push(&queue, EmbedPriority::Question, job), Some(true));
        }
        let order: Vec<usize> = (0..QUESTIONS_IN_A_ROW + 5).filter_map(|_| queue.pop()).collect();
        let mut expected: Vec<usize> = (0..QUESTIONS_IN_A_ROW).collect();
        expected.extend([100, QUESTIONS_IN_A_ROW, QUESTIONS_IN_A_ROW + 1, 101, 102]);
        assert_eq!(order, expected);
    }

    #[test]
    fn a_full_queue_of_parts_leaves_room_for_questions() {
        let queue = Queue::new();
        for job in 0..MAX_QUEUED {
            assert_eq!(push(&queue, EmbedPriority::Part, job), Some(true));
        }
        assert_eq!(push(&queue, EmbedPriority::Part, 1), None, "it waits");
        assert_eq!(push(&queue, EmbedPriority::Question, 7), Some(true));
        assert_eq!((queue.pop(), queue.pop()), (Some(7), Some(0)));
        assert_eq!(push(&queue, EmbedPriority::Part, 1), Some(true), "there is a place again");
    }

    #[test]
    fn a_closed_queue_gives_and_takes_nothing() {
        let queue = Queue::new();
        assert_eq!(push(&queue, EmbedPriority::Part, 1), Some(true));
        queue.close();
        assert_eq!((queue.pop(), push(&queue, EmbedPriority::Question, 1)), (None, Some(false)));
    }
}
