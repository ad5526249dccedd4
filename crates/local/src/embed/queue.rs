//! Jobs that wait to be computed: questions first, and now and then a part of a longer list, so that it gets on too.

use tokio::sync::mpsc;

/// Jobs of each kind that wait; who comes later waits with the job in hand.
const MAX_QUEUED: usize = 64;
/// Questions after which a part of a list has its turn.
const QUESTIONS_IN_A_ROW: usize = 8;

/// How urgently the caller needs the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmbedPriority {
    /// One text of a search, for which a user waits.
    Question,
    /// A part of many.
    Part,
}

/// Adds jobs to the queue.
#[derive(Debug)]
pub(super) struct EmbedQueue<T> {
    questions: mpsc::Sender<T>,
    parts: mpsc::Sender<T>,
    /// Rings once for each job that is in the queue.
    bell: mpsc::Sender<()>,
}

/// Takes jobs from the queue.
pub(super) struct EmbedWork<T> {
    questions: mpsc::Receiver<T>,
    parts: mpsc::Receiver<T>,
    bell: mpsc::Receiver<()>,
    /// Questions since the last part.
    in_a_row: usize,
}

/// Both ends of an empty queue.
pub(super) fn queue<T>() -> (EmbedQueue<T>, EmbedWork<T>) {
    let (question_sender, questions) = mpsc::channel(MAX_QUEUED);
    let (part_sender, parts) = mpsc::channel(MAX_QUEUED);
    let (bell_sender, bell) = mpsc::channel(2 * MAX_QUEUED);
    let sender = EmbedQueue { questions: question_sender, parts: part_sender, bell: bell_sender };
    (sender, EmbedWork { questions, parts, bell, in_a_row: 0 })
}

impl<T> EmbedQueue<T> {
    /// Waits for a place. False if the worker has ended.
    pub(super) async fn push(&self, kind: EmbedPriority, job: T) -> bool {
        let places = match kind {
            EmbedPriority::Question => &self.questions,
            EmbedPriority::Part => &self.parts,
        };
        // The bell rings after its job is there, and has room for all jobs.
        places.send(job).await.is_ok() && self.bell.try_send(()).is_ok()
    }
}

impl<T> EmbedWork<T> {
    /// The next job, whenever that comes. None once all senders are gone.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.bell.blocking_recv()?;
        if self.in_a_row < QUESTIONS_IN_A_ROW
            && let Ok(job) = self.questions.try_recv()
        {
            self.in_a_row += 1;
            return Some(job);
        }
        self.in_a_row = 0;
        self.parts.try_recv().or_else(|_| self.questions.try_recv()).ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn push(queue: &EmbedQueue<usize>, kind: EmbedPriority, job: usize) -> Option<bool> {
        queue.push(kind, job).now_or_never()
    }

    #[test]
    fn questions_come_first_and_parts_get_on_too() {
        let (queue, mut work) = queue();
        for job in 0..3 {
            assert_eq!(push(&queue, EmbedPriority::Part, 100 + job), Some(true));
        }
        for job in 0..QUESTIONS_IN_A_ROW + 2 {
            assert_eq!(push(&queue, EmbedPriority::Question, job), Some(true));
        }
        let order: Vec<usize> = (0..QUESTIONS_IN_A_ROW + 5).filter_map(|_| work.pop()).collect();
        let mut expected: Vec<usize> = (0..QUESTIONS_IN_A_ROW).collect();
        expected.extend([100, QUESTIONS_IN_A_ROW, QUESTIONS_IN_A_ROW + 1, 101, 102]);
        assert_eq!(order, expected);
    }

    #[test]
    fn a_full_queue_of_parts_leaves_room_for_questions() {
        let (queue, mut work) = queue();
        for job in 0..MAX_QUEUED {
            assert_eq!(push(&queue, EmbedPriority::Part, job), Some(true));
        }
        assert_eq!(push(&queue, EmbedPriority::Part, 1), None, "it waits");
        assert_eq!(push(&queue, EmbedPriority::Question, 7), Some(true));
        assert_eq!((work.pop(), work.pop()), (Some(7), Some(0)));
        assert_eq!(push(&queue, EmbedPriority::Part, 1), Some(true), "there is a place again");
    }

    #[test]
    fn a_queue_with_one_end_gives_and_takes_nothing() {
        let (sender, work) = queue();
        assert_eq!(push(&sender, EmbedPriority::Part, 1), Some(true));
        drop(work);
        assert_eq!(push(&sender, EmbedPriority::Question, 1), Some(false));
        let (sender, mut work) = queue::<usize>();
        drop(sender);
        assert_eq!(work.pop(), None);
    }
}
