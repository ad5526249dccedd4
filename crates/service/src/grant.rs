//! A grant: the rights that a key or a session gives to its holder.

use jiff::Timestamp;
use protocol::{ActsFor, AppId, KeyId, KeyView, Right, Rights, SessionId};
use store::SessionRow;

/// The user of a machine that has no keys.
pub const LOCAL_USER: &str = "local";

/// The proof that a holder of access has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantSource {
    /// The control token of a command on this machine.
    Control,
    Key(KeyId),
    /// A browser's session, and the key that it was made with.
    Session(SessionId, Option<KeyId>),
}

/// The rights of the holder of a key or a session. Authentication makes a principal of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub user: String,
    /// The only apps that it is good for.
    pub apps: Option<Vec<AppId>>,
    pub rights: Rights,
    /// Present for an acting key.
    pub acts_for: Option<ActsFor>,
    /// The holder of the acting key that made the session.
    pub actor: Option<String>,
    /// The issuer of the JWT that the session was made with.
    pub issuer: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub source: GrantSource,
}

impl Grant {
    pub(crate) fn of_control(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            apps: None,
            rights: Rights::USER.with(Right::Admin),
            acts_for: None,
            actor: None,
            issuer: None,
            expires_at: None,
            source: GrantSource::Control,
        }
    }

    /// None for a key that was revoked.
    pub(crate) fn of_key(key: KeyView) -> Option<Self> {
        key.revoked_at.is_none().then(|| Self {
            user: key.user,
            apps: key.app.map(|app| vec![AppId::new(app)]),
            rights: key.rights,
            acts_for: key.acts_for,
            actor: None,
            issuer: None,
            expires_at: key.expires_at,
            source: GrantSource::Key(key.id),
        })
    }

    /// None for a session that has ended, or whose key was revoked.
    pub(crate) fn of_session(row: SessionRow) -> Option<Self> {
        let SessionRow { view, actor, ended, key_is_gone, key_expires_at } = row;
        let ends = key_expires_at.map_or(view.expires_at, |key| view.expires_at.min(key));
        (!ended && !key_is_gone).then(|| Self {
            user: view.user,
            apps: view.apps.map(|apps| apps.into_iter().map(AppId::new).collect()),
            rights: view.rights,
            acts_for: None,
            actor,
            issuer: view.issuer,
            expires_at: Some(ends),
            source: GrantSource::Session(view.id, view.key),
        })
    }

    pub(crate) fn is_good_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}
