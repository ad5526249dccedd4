//! Access: what the holder of a key or of a session may do.
//!
//! Keys and sessions are stored by the hash of their secret. A cache of limited size keeps those that were used lately,
//! so a million users do not need a million entries. Each change of a key or a session passes through here: the cache
//! forgets it, and the open streams of its holder end.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::grant::Grant;
use crate::open_streams::OpenStreams;

/// Keys and sessions that the cache keeps.
const MAX_CACHED_GRANTS: usize = 10_000;

/// How exactly the last use of a key is noted.
const USE_MILLIS: i64 = 60_000;

/// SHA-256 of a secret.
pub(crate) type SecretHash = [u8; 32];

pub(crate) fn secret_hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

/// A grant in the cache, and when its use was last noted.
pub(crate) struct CachedGrant {
    pub(crate) grant: Arc<Grant>,
    noted_use: AtomicI64,
}

impl CachedGrant {
    /// Whether this use of a key is to be stored: the last stored one is a minute old.
    pub(crate) fn is_use_to_note(&self, now: Timestamp) -> bool {
        let (now, last) = (now.as_millisecond(), self.noted_use.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= USE_MILLIS;
        is_due && self.noted_use.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The grants that were used lately, by the hash of their secret.
pub(crate) struct AccessCache {
    grants: Cache<SecretHash, Arc<CachedGrant>>,
    /// Counts the changes of stored keys and sessions. A grant that was read before a change is not kept after it.
    changes: RwLock<u64>,
    /// The open streams of those who hold a key or a session.
    pub(crate) open_streams: Arc<OpenStreams>,
    /// Whether a key was ever made, revoked ones included: a server that asked for keys does not stop asking,
    /// unless a command with access to the data folder removes them all.
    pub(crate) any_key: AtomicBool,
    /// One permit: held while keys are made, counted or all removed, until `any_key` is as the store has it.
    changing: Semaphore,
    /// The hash of the control token, which proves that its holder can read the data folder.
    control: OnceLock<SecretHash>,
}

impl Default for AccessCache {
    fn default() -> Self {
        Self {
            grants: Cache::new(MAX_CACHED_GRANTS),
            changes: RwLock::default(),
            open_streams: Arc::default(),
            any_key: AtomicBool::default(),
            changing: Semaphore::new(1),
            control: OnceLock::default(),
        }
    }
}

impl AccessCache {
    pub(crate) fn get(&self, hash: &SecretHash) -> Option<Arc<CachedGrant>> {
        self.grants.get(hash)
    }

    /// The number of changes so far, to be read before the store is asked.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a grant that was read at this number of changes, if there was no change since.
    pub(crate) fn keep(&self, hash: SecretHash, grant: Grant, changes: u64) -> Arc<CachedGrant> {
        let cached = Arc::new(CachedGrant { grant: Arc::new(grant), noted_use: AtomicI64::new(i64::MIN) });
        let now = self.changes.read().unwrap_or_else(PoisonError::into_inner);
        if *now == changes {
            self.grants.insert(hash, Arc::clone(&cached));
        }
        cached
    }

    /// Forgets the grant of one secret, after the store has changed it.
    pub(crate) fn forget(&self, hash: &SecretHash) {
        self.change(|grants| drop(grants.remove(hash)));
    }

    /// Forgets all grants, after the store has changed several.
    pub(crate) fn forget_all(&self) {
        self.change(Cache::clear);
    }

    fn change(&self, forget: impl FnOnce(&Cache<SecretHash, Arc<CachedGrant>>)) {
        let mut changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        *changes += 1;
        forget(&self.grants);
    }

    /// The permit to change the number of keys.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.changing.acquire().await.ok() // never closed
    }

    /// False if there is a control token already.
    pub(crate) fn set_control(&self, hash: SecretHash) -> bool {
        self.control.set(hash).is_ok()
    }

    pub(crate) fn is_control(&self, hash: &SecretHash) -> bool {
        self.control.get().is_some_and(|control| verify_slices_are_equal(control, hash).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use protocol::KeyId;
    use uuid::Uuid;

    use super::*;
    use crate::grant::GrantSource;

    fn grant(expires_at: Option<Timestamp>) -> Grant {
        Grant { expires_at, source: GrantSource::Key(key()), ..Grant::of_control("alice") }
    }

    fn key() -> KeyId {
        KeyId::new(Uuid::from_u128(7))
    }

    #[test]
    fn a_grant_that_was_read_before_a_change_is_not_kept_after_it() {
        let cache = AccessCache::default();
        let (hash, before) = (secret_hash("secret"), cache.changes());
        cache.forget(&hash);
        cache.keep(hash, grant(None), before);
        assert!(cache.get(&hash).is_none());
        cache.keep(hash, grant(None), cache.changes());
        assert!(cache.get(&hash).is_some());
        cache.forget_all();
        assert!(cache.get(&hash).is_none());
    }

    #[test]
    fn the_use_of_a_key_is_noted_once_a_minute() {
        let cache = AccessCache::default();
        let cached = cache.keep(secret_hash("secret"), grant(None), 0);
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        assert!(cached.is_use_to_note(at(0)));
        assert!(!cached.is_use_to_note(at(59)));
        assert!(cached.is_use_to_note(at(60)));
    }

    #[test]
    fn a_grant_ends_at_its_time() {
        let end = Timestamp::from_second(100).unwrap();
        assert!(grant(None).is_good_at(end));
        assert!(grant(Some(end)).is_good_at(Timestamp::from_second(99).unwrap()));
        assert!(!grant(Some(end)).is_good_at(end));
    }
}
