//! Live fan-out: what has been committed reaches every follower of its thread.
//!
//! A followed thread has one short ring of its newest events, which all its followers share. A follower is a position,
//! not a queue. One that falls behind the ring reads the log instead. So a slow reader costs nothing, and
//! no reader can slow a run.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::{Seq, Stored, ThreadId, UserId};
use store::{MAX_BYTES_PER_READ, NewestNotice, NodeNews, Publish};
use tokio::sync::Notify;

use super::notices::{NoticeSubscription, UserChannels};

/// Bytes a thread's ring holds at most: a commit's worth of small events, so that a reader that keeps up never needs
/// the log.
const RING_BYTES: usize = 8 * MAX_BYTES_PER_READ;

/// Events that a thread's ring holds at most. A commit has few of one thread, and a reader that is half a second late still
/// finds all tokens here, or two seconds late at 20 tokens per second. A later reader reads the log. Each event of a
/// token takes about 200 bytes.
const RING_EVENTS: usize = 48;

/// Bytes that an event counts beyond its body.
const EVENT_OVERHEAD_BYTES: usize = 96;

/// The process's live events.
#[derive(Default)]
pub struct Bus {
    /// Threads that are followed. Locked for a look-up, never over an await.
    threads: Mutex<HashMap<ThreadId, Weak<Channel>>>,
    users: Arc<UserChannels>,
    /// Changes by other nodes that this process has not read yet. Locked for a look.
    news: Mutex<NodeNews>,
    has_news: Notify,
    /// There may be a job to do.
    pub(crate) has_work: Notify,
}

#[derive(Default)]
struct Channel {
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<Stored>>,
    bytes: usize,
    /// The newest number published, whether or not its event still fits.
    newest: Seq,
    closed: bool,
}

/// A place to listen, from before the log is read.
pub(crate) struct Subscription {
    bus: Arc<Bus>,
    thread: ThreadId,
    channel: Arc<Channel>,
}

/// The part of the ring for a reader that has seen everything up to some number.
#[derive(Debug, PartialEq)]
pub(crate) enum Tail {
    /// The events right after it, as many as one read of the log would give.
    Events(Vec<Arc<Stored>>),
    /// The ring begins at a later number: read the log up to there.
    Behind { ring_starts: Seq },
    /// The thread is gone, and the ring has nothing more of it.
    Closed,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bus {
    pub(crate) fn subscribe(self: &Arc<Self>, thread: ThreadId) -> Subscription {
        let mut threads = lock(&self.threads);
        let channel = threads.get(&thread).and_then(Weak::upgrade).unwrap_or_default();
        threads.insert(thread, Arc::downgrade(&channel));
        Subscription { bus: Arc::clone(self), thread, channel }
    }

    /// A place to listen for notices of a user.
    pub(crate) fn subscribe_user(&self, user: UserId) -> NoticeSubscription {
        self.users.subscribe(user)
    }

    /// Returns the changes by other nodes since the last call. Waits until there is something.
    pub(crate) async fn node_news(&self) -> NodeNews {
        loop {
            let news = std::mem::take(&mut *lock(&self.news));
            if !news.is_empty() {
                return news;
            }
            self.has_news.notified().await;
        }
    }

    /// Ends all followers of a thread that is gone.
    pub(crate) fn close(&self, thread: ThreadId) {
        // Out of the map: a thread that begins anew under the same id has a channel of its own.
        if let Some(channel) = lock(&self.threads).remove(&thread).and_then(|channel| channel.upgrade()) {
            lock(&channel.ring).closed = true;
            channel.changed.notify_waiters();
        }
    }

    fn channel(&self, thread: ThreadId) -> Option<Arc<Channel>> {
        let mut threads = lock(&self.threads);
        let channel = threads.get(&thread)?.upgrade();
        if channel.is_none() {
            threads.remove(&thread);
        }
        channel
    }
}

impl Publish for Bus {
    fn publish(&self, events: &[Arc<Stored>]) {
        for group in events.chunk_by(|a, b| a.thread == b.thread) {
            let Some(first) = group.first() else { continue };
            if let Some(channel) = self.channel(first.thread) {
                lock(&channel.ring).extend(group);
                channel.changed.notify_waiters();
            }
        }
    }

    fn publish_notices(&self, newest: &[NewestNotice]) {
        self.users.publish(newest);
    }

    fn publish_work(&self) {
        self.has_work.notify_waiters();
    }

    fn publish_newest(&self, newest: &[(ThreadId, Seq)]) {
        for (thread, seq) in newest {
            if let Some(channel) = self.channel(*thread) {
                lock(&channel.ring).skip_to(*seq);
                channel.changed.notify_waiters();
            }
        }
    }

    fn publish_news(&self, news: NodeNews) {
        lock(&self.news).add(news);
        self.has_news.notify_one();
    }

    fn is_followed(&self, thread: ThreadId) -> bool {
        self.channel(thread).is_some()
    }

    fn followed_threads(&self) -> Vec<ThreadId> {
        lock(&self.threads).keys().copied().collect()
    }

    fn publish_notice_gap(&self) {
        self.users.wake_all();
    }
}

fn size(event: &Stored) -> usize {
    event.body.len() + EVENT_OVERHEAD_BYTES
}

impl Ring {
    fn extend(&mut self, events: &[Arc<Stored>]) {
        for event in events {
            self.newest = event.seq;
            self.bytes += size(event);
            self.events.push_back(Arc::clone(event));
        }
        while self.bytes > RING_BYTES || self.events.len() > RING_EVENTS {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= size(&oldest);
        }
    }

    /// There are events up to this number in the log. The ring has none of them.
    fn skip_to(&mut self, newest: Seq) {
        if newest > self.newest {
            self.events.clear();
            (self.bytes, self.newest) = (0, newest);
        }
    }

    /// None when there is nothing newer than `seen`.
    fn tail_after(&self, seen: Seq) -> Option<Tail> {
        if self.newest <= seen {
            return self.closed.then_some(Tail::Closed);
        }
        let ring_starts = self.events.front().map_or(self.newest + 1, |event| event.seq);
        if ring_starts > seen + 1 {
            // Events between may be purged already, and no reader is given a gap.
            return Some(if self.closed { Tail::Closed } else { Tail::Behind { ring_starts } });
        }
        let from = self.events.partition_point(|event| event.seq <= seen);
        let mut bytes = 0;
        let fits = |event: &&Arc<Stored>| {
            let fits = bytes < MAX_BYTES_PER_READ;
            bytes += size(event);
            fits
        };
        Some(Tail::Events(self.events.range(from..).take_while(fits).cloned().collect()))
    }
}

impl Subscription {
    /// Whether the thread is gone.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.channel.ring).closed
    }

    /// Waits for anything newer than `seen`.
    pub(crate) async fn tail_after(&self, seen: Seq) -> Tail {
        loop {
            let changed = self.channel.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that nothing published in between is missed.
            changed.as_mut().enable();
            if let Some(tail) = lock(&self.channel.ring).tail_after(seen) {
                return tail;
            }
            changed.await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut threads = lock(&self.bus.threads);
        let is_mine = |channel: &Weak<Channel>| std::ptr::eq(channel.as_ptr(), Arc::as_ptr(&self.channel));
        // The last one out: this subscription holds the only strong reference.
        if Arc::strong_count(&self.channel) == 1 && threads.get(&self.thread).is_some_and(is_mine) {
            threads.remove(&self.thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use uuid::Uuid;

    fn event(seq: Seq, bytes: usize) -> Arc<Stored> {
        let thread = ThreadId::new(Uuid::nil());
        Arc::new(Stored {
            thread,
            seq,
            run: None,
            kind: Cow::Borrowed("text:delta"),
            body: "x".repeat(bytes).into(),
        })
    }

    fn seqs(tail: Option<Tail>) -> Vec<Seq> {
        match tail {
            Some(Tail::Events(events)) => events.iter().map(|event| event.seq).collect(),
            Some(Tail::Behind { .. } | Tail::Closed) | None => panic!("no events: {tail:?}"),
        }
    }

    #[test]
    fn a_ring_gives_what_follows_and_says_when_it_cannot() {
        let mut ring = Ring::default();
        assert_eq!(ring.tail_after(0), None);
        ring.extend(&[event(5, 1), event(6, 1), event(7, 1)]);
        assert_eq!(ring.tail_after(3), Some(Tail::Behind { ring_starts: 5 }));
        assert_eq!(seqs(ring.tail_after(4)), [5, 6, 7]);
        assert_eq!(seqs(ring.tail_after(6)), [7]);
        assert_eq!(ring.tail_after(7), None);
    }

    #[test]
    fn a_ring_says_that_the_log_has_the_events_of_another_node() {
        let mut ring = Ring::default();
        ring.extend(&[event(5, 1)]);
        ring.skip_to(8);
        assert_eq!(ring.tail_after(5), Some(Tail::Behind { ring_starts: 9 }));
        assert_eq!(ring.tail_after(8), None);
        ring.extend(&[event(9, 1)]);
        assert_eq!(seqs(ring.tail_after(8)), [9]);
        ring.skip_to(3);
        assert_eq!(seqs(ring.tail_after(8)), [9], "an old number changes nothing");
    }

    #[test]
    fn a_ring_is_bounded_however_small_or_large_its_events() {
        let mut ring = Ring::default();
        for seq in 1..=10_000 {
            ring.extend(&[event(seq, 4)]);
        }
        assert_eq!(ring.events.len(), RING_EVENTS);
        for seq in 10_001..=10_020 {
            ring.extend(&[event(seq, RING_BYTES / 10)]);
        }
        assert_eq!(ring.events.len(), 9);
        ring.extend(&[event(10_021, RING_BYTES * 2)]);
        assert_eq!((ring.events.len(), ring.bytes), (0, 0));
        assert_eq!(ring.tail_after(10_020), Some(Tail::Behind { ring_starts: 10_022 }));
    }

    #[tokio::test]
    async fn a_bus_forgets_threads_nobody_follows() {
        let bus = Arc::new(Bus::default());
        let thread = ThreadId::new(Uuid::nil());
        let (one, two) = (bus.subscribe(thread), bus.subscribe(thread));
        bus.publish(&[event(1, 1)]);
        assert_eq!(seqs(Some(one.tail_after(0).await)), [1]);
        drop(one);
        bus.publish(&[event(2, 1)]);
        assert_eq!(seqs(Some(two.tail_after(1).await)), [2]);
        drop(two);
        assert!(lock(&bus.threads).is_empty());
    }

    #[tokio::test]
    async fn a_thread_that_begins_anew_is_not_closed_by_who_still_holds_the_old_one() {
        let bus = Arc::new(Bus::default());
        let thread = ThreadId::new(Uuid::nil());
        let old = bus.subscribe(thread);
        bus.close(thread);
        let new = bus.subscribe(thread);
        assert_eq!(old.tail_after(0).await, Tail::Closed);
        drop(old);
        bus.publish(&[event(1, 1)]);
        assert_eq!(seqs(Some(new.tail_after(0).await)), [1]);
    }
}
