//! The channel of a user: notices about all their apps, and the events of some threads, in one stream.
//!
//! A reader is a place in the channel, not a queue. After a commit it hears only that there is something newer, and reads
//! the rows. However many notices come meanwhile, it holds at most one part of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use protocol::{Principal, Stored, UserId};
use store::{NewestNotice, NumberedNotice, Store};
use tokio::sync::watch;

use super::Follower;
use crate::Error;

/// The newest notice of each user whose channel is read.
#[derive(Default)]
pub(super) struct UserChannels {
    /// Locked for a look-up, never over an await.
    newest: Mutex<HashMap<UserId, watch::Sender<u64>>>,
}

impl UserChannels {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, watch::Sender<u64>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, newest: &[NewestNotice]) {
        let users = self.lock();
        if users.is_empty() {
            return;
        }
        for NewestNotice { user, number } in newest {
            if let Some(readers) = users.get(user) {
                readers.send_replace(*number);
            }
        }
    }

    /// Lets all readers look at the rows.
    pub(super) fn wake_all(&self) {
        self.lock().values().for_each(|readers| readers.send_modify(|_| ()));
    }

    /// A place to listen, from before the rows are read.
    pub(super) fn subscribe(self: &Arc<Self>, user: UserId) -> NoticeSubscription {
        let newest = self.lock().entry(user.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        NoticeSubscription { channels: Arc::clone(self), user, newest }
    }
}

/// A place to listen for notices of one user.
pub(crate) struct NoticeSubscription {
    channels: Arc<UserChannels>,
    user: UserId,
    newest: watch::Receiver<u64>,
}

impl Drop for NoticeSubscription {
    fn drop(&mut self) {
        let mut users = self.channels.lock();
        // The last one out: this subscription is the only receiver.
        if users.get(&self.user).is_some_and(|readers| readers.receiver_count() == 1) {
            users.remove(&self.user);
        }
    }
}

/// One event of the channel of a user.
#[derive(Debug, Clone, PartialEq)]
pub enum ChannelEvent {
    /// The place from which a new reader goes on.
    Place(u64),
    /// The reader's place is lost: everything is to be read again. The channel goes on after this number.
    Resync(u64),
    Notice(NumberedNotice),
    /// An event of a thread that the reader follows.
    Thread(Arc<Stored>),
}

/// One reader's place in the channel of a user.
pub(crate) struct NoticeFollower {
    store: Store,
    principal: Principal,
    subscription: NoticeSubscription,
    /// None until a new reader knows where the channel stands.
    place: Option<u64>,
}

impl NoticeFollower {
    pub(crate) fn new(
        store: Store,
        principal: Principal,
        subscription: NoticeSubscription,
        place: Option<u64>,
    ) -> Self {
        Self { store, principal, subscription, place }
    }

    /// The next notices of apps that the principal may use.
    async fn next(&mut self) -> Result<Vec<ChannelEvent>, Error> {
        loop {
            // Looked at before the rows are, so that nothing written in between is missed.
            self.subscription.newest.borrow_and_update();
            let asked = self.place;
            let read = self.store.notices(self.principal.user(), asked).await?;
            self.place = Some(read.place);
            if asked.is_none() || read.is_lost {
                let event = if read.is_lost { ChannelEvent::Resync } else { ChannelEvent::Place };
                return Ok(vec![event(read.newest)]);
            }
            let may_use = |notice: &NumberedNotice| self.principal.may_use(&notice.app);
            let notices = read.notices.into_iter().filter(may_use).map(ChannelEvent::Notice);
            let notices: Vec<ChannelEvent> = notices.collect();
            if !notices.is_empty() {
                return Ok(notices);
            }
            if asked == self.place && self.subscription.newest.changed().await.is_err() {
                return Err(Error::Internal); // the sender is there as long as there is a receiver
            }
        }
    }
}

/// A reader of the channel of a user, and of some threads on the same connection.
pub struct UserFollower {
    notices: NoticeFollower,
    threads: Vec<Follower>,
}

impl UserFollower {
    pub(crate) fn new(notices: NoticeFollower, threads: Vec<Follower>) -> Self {
        Self { notices, threads }
    }

    /// The events of all, a batch of one after a batch of another: none waits for a busy one for longer than a round. A
    /// thread that is deleted ends without ending the rest.
    pub fn into_batches(self) -> impl Stream<Item = Result<Vec<ChannelEvent>, Error>> + Send {
        let notices = stream::unfold(self.notices, |mut notices| async {
            let batch = notices.next().await;
            Some((batch, notices))
        });
        let threads = self.threads.into_iter().map(|follower| {
            stream::unfold(follower, |mut follower| async {
                let batch = follower.next().await.transpose()?;
                let events = |batch: Vec<Arc<Stored>>| batch.into_iter().map(ChannelEvent::Thread).collect();
                Some((batch.map(events), follower))
            })
            .boxed()
        });
        let sources: Vec<BoxStream<'static, _>> = std::iter::once(notices.boxed()).chain(threads).collect();
        stream::select_all(sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(user: &str, number: u64) -> NewestNotice {
        NewestNotice { user: UserId::new(user), number }
    }

    #[tokio::test]
    async fn a_reader_hears_of_the_newest_notice_of_their_user_alone() {
        let channels = Arc::<UserChannels>::default();
        let mut ann = channels.subscribe(UserId::new("ann"));
        channels.publish(&[notice("bob", 3), notice("ann", 7)]);
        channels.publish(&[notice("ann", 9)]);
        ann.newest.changed().await.unwrap();
        assert_eq!(*ann.newest.borrow_and_update(), 9);
        channels.publish(&[notice("bob", 4)]);
        assert!(!ann.newest.has_changed().unwrap());
    }

    #[test]
    fn users_whose_channel_nobody_reads_are_forgotten() {
        let channels = Arc::<UserChannels>::default();
        let (one, two) = (channels.subscribe(UserId::new("ann")), channels.subscribe(UserId::new("ann")));
        drop(one);
        assert_eq!(channels.lock().len(), 1);
        drop(two);
        assert!(channels.lock().is_empty());
    }
}
