//! Rows of keys and sessions, beside the views that the API shows.

use jiff::Timestamp;
use protocol::{AppId, KeyId, KeyView, Scope, SessionView};

use crate::IdempotencyClaim;

/// Open sessions of one user. One more ends the oldest.
pub const MAX_SESSIONS_PER_USER: usize = 100;

/// A request for a new key in place of another.
#[derive(Debug, Clone)]
pub struct NewKeyRotation {
    pub old: KeyId,
    /// The apps of the admin who asks; none for all apps.
    pub only_apps: Option<Vec<AppId>>,
    /// The new key. Its user, app, rights and `acts_for` come from the old key. Their values in this view are ignored.
    pub new: KeyView,
    /// The hash of the new key's secret.
    pub hash: [u8; 32],
    /// The end of the old key, unless it ends before.
    pub old_ends_at: Timestamp,
    pub once: Option<(Scope, IdempotencyClaim)>,
}

/// The answer to a request for a new key in place of another.
#[derive(Debug, Clone, PartialEq)]
pub struct RotatedKey {
    /// The new key.
    pub id: KeyId,
    /// None if the request was made before under the same idempotency key.
    pub made: Option<ReplacedKey>,
}

/// Both keys of a rotation, as they are after it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplacedKey {
    pub old: KeyView,
    pub old_hash: [u8; 32],
    pub new: KeyView,
}

/// A key that is revoked. Callers that cache keys remove it by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedKey {
    pub hash: [u8; 32],
}

/// A session with all that decides whether it is good.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub view: SessionView,
    /// The actor who speaks for the user, if it is not the user.
    pub actor: Option<String>,
    /// Whether the session was ended before its time.
    pub ended: bool,
    /// Whether the key that the session was made with is revoked or removed.
    pub key_is_gone: bool,
    /// The end of that key, if it has one.
    pub key_expires_at: Option<Timestamp>,
}

impl SessionRow {
    pub fn is_good(&self, at: Timestamp) -> bool {
        let in_time = at < self.view.expires_at && self.key_expires_at.is_none_or(|end| at < end);
        in_time && !self.ended && !self.key_is_gone
    }
}
