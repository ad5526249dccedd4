//! How many event streams each user has open, and how many uploads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::UserId;
use service::HeldByUsers;

/// Counts open streams. Users without one are not in the map, so it stays as small as what is open.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamPermits {
    open: Arc<Mutex<HashMap<UserId, usize>>>,
    /// With other nodes: what they have open, and the name of what is counted here.
    shared: Option<(Arc<HeldByUsers>, &'static str)>,
}

/// The right to hold one stream open; dropping it gives the right back.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: StreamPermits,
    user: UserId,
}

impl StreamPermits {
    /// Permits that hold for all nodes together, if there are others.
    pub(crate) fn shared(held: Option<Arc<HeldByUsers>>, name: &'static str) -> Self {
        Self { shared: held.map(|held| (held, name)), ..Self::default() }
    }

    /// A permit, unless the user holds `limit` of them already.
    pub(crate) fn permit(&self, user: &UserId, limit: usize) -> Option<StreamPermit> {
        let elsewhere =
            self.shared.as_ref().map_or(0, |(held, name)| held.on_other_nodes(&of_user(name, user)));
        let mut open = self.lock();
        let count = open.get(user).copied().unwrap_or(0);
        if count + elsewhere >= limit {
            return None;
        }
        open.insert(user.clone(), count + 1);
        drop(open);
        if let Some((held, name)) = &self.shared {
            held.add(&of_user(name, user));
        }
        Some(StreamPermit { streams: self.clone(), user: user.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_user(name: &str, user: &UserId) -> String {
    format!("{name} {user}")
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some((held, name)) = &self.streams.shared {
            held.remove(&of_user(name, &self.user));
        }
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
