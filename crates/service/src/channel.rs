//! The channel of a user: notices about all their apps, and the events of some threads.

use agent::UserFollower;
use protocol::{Principal, Seq, ThreadId};

use crate::{Error, Service};

/// Threads that one reader of a channel may follow.
pub const MAX_FOLLOWED_THREADS: usize = 20;

impl Service {
    /// Notices after `after` or from now on, and the events of these threads, each after its own place. Without end.
    pub async fn follow_user(
        &self,
        principal: &Principal,
        after: Option<u64>,
        threads: &[(ThreadId, Seq)],
    ) -> Result<UserFollower, Error> {
        if threads.len() > MAX_FOLLOWED_THREADS {
            let message = format!("must name at most {MAX_FOLLOWED_THREADS} threads");
            return Err(Error::invalid("follow", message));
        }
        for (place, (thread, _)) in threads.iter().enumerate() {
            if threads.iter().take(place).any(|(other, _)| other == thread) {
                return Err(Error::invalid(
                    "follow",
                    format!("must name each thread once, and names {thread} twice"),
                ));
            }
        }
        agent::follow_user(self.agent.world(), principal, after, threads).await
    }
}
