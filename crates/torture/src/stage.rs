//! The things that all actors share: where the server is, who its users are, and where to write down what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::balancer::Balancer;
use crate::record::{Book, Trigger};

/// The error of a command: a sentence, ready to be shown.
pub(crate) type TortureError = Box<dyn std::error::Error + Send + Sync>;

/// A user of one app. No words of other users may ever reach them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) app: String,
    /// The bearer token.
    pub(crate) key: String,
    /// A word that is in everything this user says.
    pub(crate) canary: String,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) balancer: Balancer,
    pub(crate) users: Arc<[User]>,
    pub(crate) seed: u64,
    pub(crate) book: Book,
    pub(crate) moments: Moments,
    /// How often the server has been started.
    pub(crate) starts: Starts,
    /// Cancelled when no new operation may begin; what is under way continues until it is definite.
    pub(crate) curtain: CancellationToken,
}

#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<AtomicU32>);

impl Starts {
    pub(crate) fn number(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn count_start(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The instants at which a kill hurts most. Actors that see one say so; the nemesis waits for the one it has chosen.
#[derive(Clone)]
pub(crate) struct Moments {
    wanted: Arc<watch::Sender<Wanted>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Moment(Trigger),
    /// The moment has come, at this node.
    Came(usize),
}

impl Moments {
    pub(crate) fn new() -> Self {
        Self { wanted: Arc::new(watch::Sender::new(Wanted::Nothing)) }
    }

    /// Says that the moment is now, and which node it is of. It costs nothing when no task waits for it.
    pub(crate) fn note(&self, moment: Trigger, node: usize) {
        if self.is_wanted(moment) {
            self.wanted.send_if_modified(|wanted| {
                let comes = *wanted == Wanted::Moment(moment);
                if comes {
                    *wanted = Wanted::Came(node);
                }
                comes
            });
        }
    }

    /// Whether a kill is about to follow the next such moment; a tool then holds its reply back, so that it is caught.
    pub(crate) fn is_wanted(&self, moment: Trigger) -> bool {
        *self.wanted.borrow() == Wanted::Moment(moment)
    }

    /// Waits for the next such moment, and gives its node. None if none came in time.
    pub(crate) async fn next(&self, moment: Trigger, patience: Duration) -> Option<usize> {
        self.wanted.send_replace(Wanted::Moment(moment));
        let mut watched = self.wanted.subscribe();
        let coming = watched.wait_for(|wanted| matches!(wanted, Wanted::Came(_)));
        let came = match tokio::time::timeout(patience, coming).await {
            Ok(Ok(wanted)) => Some(*wanted),
            Ok(Err(_)) | Err(_) => None,
        };
        self.wanted.send_replace(Wanted::Nothing);
        match came {
            Some(Wanted::Came(node)) => Some(node),
            Some(Wanted::Nothing | Wanted::Moment(_)) | None => None,
        }
    }
}
