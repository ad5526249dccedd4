//! The delivery of commits: followers see the events of a commit, and callers get their answers. On SQLite, one task of
//! the runtime does this, so that the writer thread wakes one task for each commit, and not one for each follower and
//! caller. On PostgreSQL, the writer thread does it: a node must not keep its turn while its runtime is busy.

use std::sync::Arc;

use protocol::Stored;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::super::node_log::ForeignCommits;
use super::Work;
use crate::{Error, NewestNotice, Publish};

/// Commits that may wait for their delivery. The writer thread pauses while this number waits.
const MAX_COMMITS: usize = 64;

/// The part of a committed transaction that others are told of.
#[derive(Default)]
pub(super) struct CommittedBatch {
    pub(super) recorded: Vec<Arc<Stored>>,
    pub(super) notices: Vec<NewestNotice>,
    /// Whether there is a new job, or something new that expires.
    pub(super) adds_work: bool,
}

/// One thing to deliver. Each has happened.
pub(super) enum CommitDelivery {
    /// Commands were committed by this process, or all of them have failed.
    Commands { committed: Result<CommittedBatch, Error>, works: Vec<Box<dyn Work>> },
    /// Another node has committed.
    Foreign(ForeignCommits),
}

impl CommitDelivery {
    fn deliver(self, publish: &dyn Publish) {
        match self {
            CommitDelivery::Commands { committed, works } => {
                let committed = committed.map(|CommittedBatch { recorded, notices, adds_work }| {
                    publish.publish(&recorded);
                    if !notices.is_empty() {
                        publish.publish_notices(&notices);
                    }
                    if adds_work {
                        publish.publish_work();
                    }
                });
                for work in works {
                    work.answer_caller(committed.as_ref().copied().map_err(Error::for_others));
                }
            }
            CommitDelivery::Foreign(foreign) => foreign.publish(publish),
        }
    }
}

/// The way from the writer thread to followers and callers. Commits arrive in their order.
pub(super) struct CommitDeliveries {
    publish: Arc<dyn Publish>,
    /// None if the store was opened on a thread without a runtime, as on PostgreSQL: the writer thread delivers by itself.
    queue: Option<mpsc::Sender<CommitDelivery>>,
}

impl CommitDeliveries {
    /// Delivers by a task of the runtime of the calling thread, if it has one.
    pub(super) fn start(publish: Arc<dyn Publish>) -> Self {
        let Ok(runtime) = Handle::try_current() else { return Self { publish, queue: None } };
        let (queue, deliveries) = mpsc::channel(MAX_COMMITS);
        runtime.spawn(deliver_all(deliveries, Arc::clone(&publish)));
        Self { publish, queue: Some(queue) }
    }

    pub(super) fn publisher(&self) -> &dyn Publish {
        &*self.publish
    }

    pub(super) fn send(&mut self, delivery: CommitDelivery) {
        let Some(queue) = &self.queue else { return delivery.deliver(&*self.publish) };
        if let Err(refused) = queue.blocking_send(delivery) {
            // The runtime has ended, and with it all that it has not delivered.
            self.queue = None;
            refused.0.deliver(&*self.publish);
        }
    }
}

async fn deliver_all(mut deliveries: mpsc::Receiver<CommitDelivery>, publish: Arc<dyn Publish>) {
    while let Some(delivery) = deliveries.recv().await {
        delivery.deliver(&*publish);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use protocol::{Seq, ThreadId};
    use tokio::runtime::Runtime;
    use uuid::Uuid;

    use super::super::Batch;
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Step {
        Published(Seq),
        Answered(Seq),
    }

    /// The steps of all deliveries, in their order.
    #[derive(Clone, Default)]
    struct Steps(Arc<Mutex<Vec<Step>>>);

    impl Publish for Steps {
        fn publish(&self, events: &[Arc<Stored>]) {
            self.0.lock().unwrap().extend(events.iter().map(|event| Step::Published(event.seq)));
        }
    }

    struct Caller {
        number: Seq,
        steps: Steps,
        answers: Sender<Seq>,
    }

    impl Work for Caller {
        fn run(&mut self, _: &mut Batch<'_>) -> bool {
            true
        }

        fn failure(&mut self) -> Error {
            Error::Aborted
        }

        fn answer_caller(self: Box<Self>, committed: Result<(), Error>) {
            assert!(committed.is_ok());
            self.steps.0.lock().unwrap().push(Step::Answered(self.number));
            self.answers.send(self.number).unwrap();
        }
    }

    fn commit(seq: Seq, steps: &Steps, answers: &Sender<Seq>) -> CommitDelivery {
        let event = Stored {
            thread: ThreadId::new(Uuid::nil()),
            seq,
            run: None,
            kind: Cow::Borrowed("text:delta"),
            body: "{}".into(),
        };
        let caller = Caller { number: seq, steps: steps.clone(), answers: answers.clone() };
        CommitDelivery::Commands {
            committed: Ok(CommittedBatch { recorded: vec![Arc::new(event)], ..CommittedBatch::default() }),
            works: vec![Box::new(caller)],
        }
    }

    fn expected(commits: Seq) -> Vec<Step> {
        (1..=commits).flat_map(|seq| [Step::Published(seq), Step::Answered(seq)]).collect()
    }

    #[test]
    fn each_commit_is_published_before_its_answers_and_before_the_next_commit() {
        let (runtime, steps, (answers, answered)) = (Runtime::new().unwrap(), Steps::default(), channel());
        let commits = 3 * MAX_COMMITS as Seq;
        let mut all = runtime.block_on(async { CommitDeliveries::start(Arc::new(steps.clone())) });
        for seq in 1..=commits {
            all.send(commit(seq, &steps, &answers));
        }
        drop(answers);
        assert!(answered.iter().eq(1..=commits));
        assert_eq!(*steps.0.lock().unwrap(), expected(commits));
    }

    #[test]
    fn commits_are_delivered_at_once_without_a_runtime_and_after_its_end() {
        let (steps, (answers, _answered)) = (Steps::default(), channel());
        let mut without = CommitDeliveries::start(Arc::new(steps.clone()));
        without.send(commit(1, &steps, &answers));
        assert_eq!(*steps.0.lock().unwrap(), expected(1));

        let runtime = Runtime::new().unwrap();
        let mut after = runtime.block_on(async { CommitDeliveries::start(Arc::new(steps.clone())) });
        drop(runtime);
        after.send(commit(2, &steps, &answers));
        assert_eq!(*steps.0.lock().unwrap(), expected(2));
    }
}
