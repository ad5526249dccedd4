//! How many event streams each user has open, and how many uploads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::UserId;

/// Counts open streams. Users without one are not in the map, so it stays as small as what is open.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamPermits {
    open: Arc<Mutex<HashMap<UserId, usize>>>,
}

/// The right to hold one stream open; dropping it gives the right back.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: StreamPermits,
    user: UserId,
}

impl StreamPermits {
    /// A permit, unless the user holds `limit` of them already.
    pub(crate) fn permit(&self, user: &UserId, limit: usize) -> Option<StreamPermit> {
        let mut open = self.lock();
        let count = open.entry(user.clone()).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(StreamPermit { streams: self.clone(), user: user.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_comes_back_when_dropped_and_users_do_not_share() {
        let streams = StreamPermits::default();
        let (ann, bob) = (UserId::new("ann"), UserId::new("bob"));
        let first = streams.permit(&ann, 2).unwrap();
        let second = streams.permit(&ann, 2).unwrap();
        assert!(streams.permit(&ann, 2).is_none());
        assert!(streams.permit(&bob, 2).is_some());

        drop(first);
        let third = streams.permit(&ann, 2).unwrap();
        assert!(streams.permit(&ann, 2).is_none());

        drop((second, third));
        assert!(streams.lock().is_empty());
    }
}
