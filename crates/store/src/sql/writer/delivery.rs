//! The delivery of commits: followers see the events of a commit, and callers get their answers. One task of the runtime
//! does this, so that the writer thread wakes one task for each commit, and not one for each follower and caller.

use std::sync::Arc;

use protocol::Stored;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::super::node_log::ForeignCommits;
use super::Work;
use crate::{Error, NewestNotice, Publish};

/// Commits that may wait for their delivery. The writer thread pauses while there are so many.
const MAX_COMMITS: usize = 64;

/// The part of a committed transaction that others are told of.
#[derive(Default)]
pub(super) struct CommittedBatch {
    pub(super) recorded: Vec<Arc<Stored>>,
    pub(super) notices: Vec<NewestNotice>,
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
                let committed = committed.map(|CommittedBatch { recorded, notices }| {
                    publish.publish(&recorded);
                    if !notices.is_empty() {
                        publish.publish_notices(&notices);
                    }
                });
                for work in works {
                    work.done(committed.as_ref().copied().map_err(Error::for_others));
                }
            }
            CommitDelivery::Foreign(foreign) => foreign.publish(publish),
        }
    }
}

/// The way from the writer thread to followers and callers. Commits arrive in their order.
pub(super) struct CommitDeliveries {
    publish: Arc<dyn Publish>,
    /// None without a runtime: the writer thread delivers by itself.
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
