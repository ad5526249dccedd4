//! The open event streams of those who hold a key or a session. A stream ends with the access that it was opened with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use protocol::{Clock, KeyId, SessionId};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::grant::GrantSource;

/// No time at all.
const NEVER: i64 = i64::MAX;

/// Streams by the key and by the session that they were opened with. A holder without a stream is not in the map.
#[derive(Default)]
pub(crate) struct OpenStreams {
    numbers: AtomicU64,
    /// Locked for a look-up, never over an await.
    by_holder: Mutex<HashMap<Uuid, HashMap<u64, Arc<StreamEnd>>>>,
}

/// The end of the access of one stream.
struct StreamEnd {
    is_over: CancellationToken,
    /// In milliseconds since 1970.
    expires_at: AtomicI64,
}

/// The access of an open stream. Dropping it says that the stream is closed.
pub struct StreamAccess {
    streams: Arc<OpenStreams>,
    number: u64,
    holders: Vec<Uuid>,
    end: Arc<StreamEnd>,
    clock: Arc<dyn Clock>,
}

impl StreamAccess {
    /// Cancelled when the access is revoked, and when the parent is.
    pub fn is_over(&self) -> &CancellationToken {
        &self.end.is_over
    }

    /// Ends at this time, unless it ends before.
    pub fn end_by(&self, expires_at: Option<Timestamp>) {
        let end = expires_at.map_or(NEVER, Timestamp::as_millisecond);
        self.end.expires_at.fetch_min(end, Ordering::Relaxed);
    }

    /// Access without an end of its own, which no key and no session gives.
    pub fn without_end(parent: &CancellationToken, clock: Arc<dyn Clock>) -> Self {
        Arc::<OpenStreams>::default().open(None, None, (parent, clock))
    }

    /// How long the access is good for; none without an end. A rotated key can move the end nearer while the stream is
    /// open.
    pub fn time_left(&self) -> Option<Duration> {
        let end = self.end.expires_at.load(Ordering::Relaxed);
        let left = || end.saturating_sub(self.clock.now().as_millisecond());
        (end != NEVER).then(|| Duration::from_millis(u64::try_from(left()).unwrap_or_default()))
    }
}

impl Drop for StreamAccess {
    fn drop(&mut self) {
        let mut by_holder = self.streams.lock();
        for holder in &self.holders {
            let streams = by_holder.get_mut(holder);
            if streams.is_some_and(|streams| streams.remove(&self.number).is_some() && streams.is_empty()) {
                by_holder.remove(holder);
            }
        }
    }
}

impl OpenStreams {
    /// Notes a stream of this access. It also ends with `parent`.
    pub(crate) fn open(
        self: &Arc<Self>,
        source: Option<&GrantSource>,
        expires_at: Option<Timestamp>,
        (parent, clock): (&CancellationToken, Arc<dyn Clock>),
    ) -> StreamAccess {
        let holders = match source {
            None | Some(GrantSource::Control) => Vec::new(),
            Some(GrantSource::Key(key)) => vec![key.uuid()],
            Some(GrantSource::Session(session, key)) => {
                std::iter::once(session.uuid()).chain(key.map(|key| key.uuid())).collect()
            }
        };
        let expires_at = AtomicI64::new(expires_at.map_or(NEVER, Timestamp::as_millisecond));
        let end = Arc::new(StreamEnd { is_over: parent.child_token(), expires_at });
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut by_holder = self.lock();
        for holder in &holders {
            by_holder.entry(*holder).or_default().insert(number, Arc::clone(&end));
        }
        drop(by_holder);
        StreamAccess { streams: Arc::clone(self), number, holders, end, clock }
    }

    /// The keys and sessions that have open streams.
    pub(crate) fn holders(&self) -> Vec<Uuid> {
        self.lock().keys().copied().collect()
    }

    /// Ends the streams of a key and of its sessions at a time.
    pub(crate) fn end_key(&self, key: KeyId, at: Timestamp, now: Timestamp) {
        self.end_holder(key.uuid(), at, now);
    }

    /// Ends the streams of a key or of a session at a time.
    pub(crate) fn end_holder(&self, holder: Uuid, at: Timestamp, now: Timestamp) {
        for stream in self.lock().get(&holder).into_iter().flat_map(HashMap::values) {
            stream.expires_at.fetch_min(at.as_millisecond(), Ordering::Relaxed);
            if at <= now {
                stream.is_over.cancel();
            }
        }
    }

    pub(crate) fn end_session(&self, session: SessionId) {
        for stream in self.lock().get(&session.uuid()).into_iter().flat_map(HashMap::values) {
            stream.is_over.cancel();
        }
    }

    /// Ends all streams that were opened with a key or a session.
    pub(crate) fn end_all(&self) {
        for stream in self.lock().values().flat_map(HashMap::values) {
            stream.is_over.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, HashMap<u64, Arc<StreamEnd>>>> {
        self.by_holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u128) -> KeyId {
        KeyId::new(Uuid::from_u128(number))
    }

    fn session(number: u128) -> SessionId {
        SessionId::new(Uuid::from_u128(number))
    }

    struct TenSeconds;

    impl Clock for TenSeconds {
        fn now(&self) -> Timestamp {
            at(10)
        }
    }

    fn clock() -> Arc<dyn Clock> {
        Arc::new(TenSeconds)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_end_of_a_key_is_the_end_of_its_streams_and_sessions_and_of_no_other() {
        let (streams, parent) = (Arc::<OpenStreams>::default(), CancellationToken::new());
        let open = |source: &GrantSource| streams.open(Some(source), None, (&parent, clock()));
        let of_key = open(&GrantSource::Key(key(1)));
        let of_session = open(&GrantSource::Session(session(2), Some(key(1))));
        let of_other = open(&GrantSource::Key(key(3)));
        let of_token = open(&GrantSource::Session(session(4), None));
        streams.end_key(key(1), at(10), at(10));
        assert!(of_key.is_over().is_cancelled() && of_session.is_over().is_cancelled());
        assert!(!of_other.is_over().is_cancelled() && !of_token.is_over().is_cancelled());
        streams.end_session(session(4));
        assert!(of_token.is_over().is_cancelled());
        streams.end_all();
        assert!(of_other.is_over().is_cancelled());
        drop((of_key, of_session, of_other, of_token));
        assert!(streams.lock().is_empty());
    }

    #[test]
    fn a_rotated_key_moves_the_end_of_its_streams_nearer() {
        let (streams, parent) = (Arc::<OpenStreams>::default(), CancellationToken::new());
        let open = streams.open(Some(&GrantSource::Key(key(1))), None, (&parent, clock()));
        assert_eq!(open.time_left(), None);
        streams.end_key(key(1), at(60), at(10));
        assert_eq!(open.time_left(), Some(Duration::from_secs(50)));
        streams.end_key(key(1), at(90), at(10));
        assert_eq!(open.time_left(), Some(Duration::from_secs(50)));
        assert!(!open.is_over().is_cancelled());
        parent.cancel();
        assert!(open.is_over().is_cancelled());
    }
}
