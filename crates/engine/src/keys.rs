//! Keys: who may speak, known by the hash of what they hold.
//!
//! All keys are few and kept in memory; whatever changes them goes through here, so the copy is never stale.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use protocol::{AppId, KeyId, KeyView, Principal};
use sha2::{Digest, Sha256};
use store::{KeyRow, Once};

use crate::{Engine, Error, views};

/// What a token begins with, so that people and scanners know one when they see one.
const PREFIX: &str = "rondo_";

/// The one user of a machine that has no keys.
pub const LOCAL_USER: &str = "local";

/// Where the idempotency keys of requests that concern the server itself are kept; no app has this name.
const NO_APP: &str = "";

/// Bytes of a user's name.
const MAX_USER_BYTES: usize = 200;

/// What a key lets its holder do. Authentication makes a principal of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub user: String,
    pub app: Option<AppId>,
    pub admin: bool,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub user: String,
    pub app: Option<String>,
    pub admin: bool,
}

/// A key that was made. The token is shown once and kept nowhere, so a repeated request gets none.
#[derive(Debug, Clone)]
pub struct MadeKey {
    pub id: KeyId,
    pub token: Option<String>,
}

/// The keys that are good, by hash.
#[derive(Default)]
pub(crate) struct Ring {
    /// Locked for a look-up, never over an await.
    keys: RwLock<HashMap<[u8; 32], Grant>>,
    /// Whether a key was ever made, revoked ones included: a server that asked for keys does not stop asking.
    any: AtomicBool,
    /// The hash of what proves to this process that somebody may read its data folder.
    control: OnceLock<[u8; 32]>,
}

impl Ring {
    fn read<R>(&self, read: impl FnOnce(&HashMap<[u8; 32], Grant>) -> R) -> R {
        read(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, write: impl FnOnce(&mut HashMap<[u8; 32], Grant>) -> R) -> R {
        write(&mut self.keys.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// 256 random bits, in a form that can be sent.
fn token() -> Result<String, Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        tracing::error!(%error, "the system gives no randomness");
        Error::Internal
    })?;
    Ok(secret.iter().fold(PREFIX.to_owned(), |token, byte| format!("{token}{byte:02x}")))
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn grant(key: &KeyRow) -> Grant {
    Grant { user: key.user.clone(), app: key.app.clone().map(AppId::new), admin: key.admin }
}

impl Engine {
    /// What the holder of a token may do; none if it is no good key.
    pub fn grant(&self, token: &str) -> Option<Grant> {
        let hash = hash(token);
        if self.ring().control.get() == Some(&hash) {
            return Some(Grant { user: LOCAL_USER.to_owned(), app: None, admin: true });
        }
        self.ring().read(|keys| keys.get(&hash).cloned())
    }

    /// A token for commands on the same machine, good for as long as this process lives. Whoever can read where it is
    /// kept could read the database too.
    pub fn control_token(&self) -> Result<String, Error> {
        let token = token()?;
        self.ring().control.set(hash(&token)).map_err(|_| Error::Internal)?;
        Ok(token)
    }

    /// Whether a key was ever made. Until then, the machine's own user needs none.
    pub fn has_keys(&self) -> bool {
        self.ring().any.load(Ordering::Acquire)
    }

    /// Whether any key is good now. Without one, nobody on another machine could be served.
    pub fn has_good_keys(&self) -> bool {
        self.ring().read(|keys| !keys.is_empty())
    }

    pub async fn add_key(&self, new: NewKey, once: Option<(&Principal, Once)>) -> Result<MadeKey, Error> {
        let user = user(&new.user)?;
        if let Some(app) = &new.app
            && !self.has_app(app)
        {
            return Err(Error::invalid("app", "there is no app of that name"));
        }
        let token = token()?;
        let row = KeyRow {
            id: KeyId::new(self.fresh_id()),
            user,
            app: new.app,
            admin: new.admin,
            created_at: Timestamp::UNIX_EPOCH, // the store says when
            revoked_at: None,
        };
        let once = once.map(|(by, once)| (by.scope(AppId::new(NO_APP)), once));
        if let Some(id) = self.store().add_key(row.clone(), hash(&token), once).await? {
            return Ok(MadeKey { id, token: None });
        }
        self.ring().write(|keys| keys.insert(hash(&token), grant(&row)));
        self.ring().any.store(true, Ordering::Release);
        Ok(MadeKey { id: row.id, token: Some(token) })
    }

    /// All keys, oldest first, revoked ones too.
    pub async fn keys(&self) -> Result<Vec<KeyView>, Error> {
        Ok(self.store().keys().await?.into_iter().map(views::key).collect())
    }

    /// From here on the key is good for nothing.
    pub async fn revoke_key(&self, id: KeyId) -> Result<(), Error> {
        if !self.store().revoke_key(id).await? {
            return Err(Error::NotFound { what: "key" });
        }
        self.load_keys().await
    }

    /// Reads the keys, which a start does too: for who must know of them before it starts anything.
    pub async fn load_keys(&self) -> Result<(), Error> {
        self.ring().any.store(!self.store().keys().await?.is_empty(), Ordering::Release);
        let good = self.store().good_keys().await?;
        let good = good.iter().map(|(hash, key)| (*hash, grant(key))).collect();
        self.ring().write(|keys| *keys = good);
        Ok(())
    }
}

/// A name as it will be compared: one spelling, visible, not too long.
fn user(name: &str) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_graphic();
    if name.is_empty() || name.len() > MAX_USER_BYTES || !name.chars().all(plain) {
        return Err(Error::invalid("user", "must be 1 to 200 letters, digits or marks, without spaces"));
    }
    Ok(name.to_owned())
}
