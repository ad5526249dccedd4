//! Keys: which of them an admin of some apps can manage, and which of them can be rotated.

use jiff::Timestamp;
use protocol::{AppId, KeyView};

use crate::Error;

/// Whether something that is limited to this app is within the reach of an admin of these apps. A thing for all apps is
/// within the reach of an admin of all apps only.
pub fn is_within(app: Option<&str>, only: Option<&[AppId]>) -> bool {
    match (app, only) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(app), Some(only)) => only.iter().any(|one| one.as_str() == app),
    }
}

/// Whether a session for these apps is within the reach of an admin of others: all of its apps must be.
pub fn are_within(apps: Option<&[String]>, only: Option<&[AppId]>) -> bool {
    match (apps, only) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(apps), Some(_)) => apps.iter().all(|app| is_within(Some(app), only)),
    }
}

/// Refuses the rotation of a key that is no longer good, or that has a successor.
pub fn check_rotatable(key: &KeyView, at: Timestamp) -> Result<(), Error> {
    let refused = |words: String| Err(Error::Changed(words));
    if let Some(successor) = key.replaced_by {
        return refused(format!("the key was replaced by {successor} already; rotate that key"));
    }
    if key.revoked_at.is_some() {
        return refused("the key is revoked; make a new key".into());
    }
    if key.expires_at.is_some_and(|expires_at| expires_at <= at) {
        return refused("the key has expired; make a new key".into());
    }
    Ok(())
}

/// The end of the key that replaces another one: it lives as long as that one was to live.
pub fn end_of_successor(old: &KeyView, now: Timestamp) -> Option<Timestamp> {
    let lifetime = old.expires_at?.duration_since(old.created_at);
    Some(now.saturating_add(lifetime).unwrap_or(Timestamp::MAX))
}

/// The end of a key that is replaced: never later than it would have been.
pub fn end_of_replaced(key: &KeyView, ends_at: Timestamp) -> Timestamp {
    key.expires_at.map_or(ends_at, |expires_at| expires_at.min(ends_at))
}
