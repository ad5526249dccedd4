//! Keys: who may speak, known by the hash of what they hold.
//!
//! All keys are few and kept in memory; whatever reads or changes them goes through here, one at a time, so the copy is
//! never stale. Who looks after the keys is an admin, within the apps of their own key, or whoever has the data folder.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use protocol::{AppId, KeyId, KeyMade, KeyView, NewKey, Principal, Scope};
use sha2::{Digest, Sha256};
use store::Once;

use crate::key_ring::Grant;
use crate::{Error, Service};

/// The beginning of a token, so that people and scanners know one when they see one.
const PREFIX: &str = "rondo_";

/// The one user of a machine that has no keys.
pub const LOCAL_USER: &str = "local";

/// Where the idempotency keys of requests that concern the server itself are kept; no app has this name.
const NO_APP: &str = "";

/// Told with the first key, which ends access without one.
const FIRST_KEY: &str = "access without a key ends now, on the server's own machine too; send the key with every \
    request, as Authorization: Bearer KEY; to go back, run `rondo keys open` on that machine, which removes all keys";

/// Bytes of a user's name.
const MAX_USER_BYTES: usize = 200;

/// 256 random bits, in a form that can be sent.
fn token() -> Result<String, Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random numbers");
        Error::Internal
    })?;
    Ok(secret.iter().fold(PREFIX.to_owned(), |token, byte| format!("{token}{byte:02x}")))
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn grant(key: &KeyView) -> Grant {
    Grant { user: key.user.clone(), app: key.app.clone().map(AppId::new), admin: key.admin }
}

impl Service {
    /// The rights of a token's holder; none if it is no good key.
    pub fn grant(&self, token: &str) -> Option<Grant> {
        if self.is_control_token(token) {
            return Some(Grant { user: LOCAL_USER.to_owned(), app: None, admin: true });
        }
        let hash = hash(token);
        self.key_ring().read(|keys| keys.get(&hash).map(|(_, grant)| grant.clone()))
    }

    /// Whether a token is the one for commands on this machine, which proves that its holder can read the data folder.
    pub fn is_control_token(&self, token: &str) -> bool {
        self.key_ring().control.get() == Some(&hash(token))
    }

    /// A token for commands on the same machine, good for as long as this process lives. Whoever can read where it is
    /// kept could read the database too.
    pub fn control_token(&self) -> Result<String, Error> {
        let token = token()?;
        self.key_ring().control.set(hash(&token)).map_err(|_| Error::Internal)?;
        Ok(token)
    }

    /// Whether a key was ever made, and not removed with all others. Until then, the machine's own user needs none.
    pub fn has_keys(&self) -> bool {
        self.key_ring().any.load(Ordering::Acquire)
    }

    /// Whether any key is good now. Without one, nobody on another machine could be served.
    pub fn has_good_keys(&self) -> bool {
        self.key_ring().read(|keys| !keys.is_empty())
    }

    /// Makes a key. `by` is the admin who asks for it, who may make none that is good for more than their own; without
    /// one, it is whoever has the data folder.
    pub async fn add_key(
        &self,
        new: NewKey,
        by: Option<(&Principal, Option<Once>)>,
    ) -> Result<KeyMade, Error> {
        let (by, once) = by.unzip();
        let user = user(&new.user)?;
        check_within(by, new.app.as_deref())?;
        if let Some(app) = &new.app
            && !self.has_app(app)
        {
            return Err(Error::invalid("app", "there is no app of that name"));
        }
        let row = KeyView {
            id: KeyId::new(self.world().ids.fresh()),
            user,
            app: new.app,
            admin: new.admin,
            created_at: Timestamp::UNIX_EPOCH, // the store says when
            revoked_at: None,
            made_by: Some(name_of(by)),
            revoked_by: None,
        };
        let once = by.zip(once.flatten()).map(|(by, once)| (by.scope(AppId::new(NO_APP)), once));
        let (service, token) = (self.clone(), token()?);
        self.world().tasks.finish(async move { service.keep_key(row, token, once).await }).await
    }

    async fn keep_key(
        &self,
        row: KeyView,
        token: String,
        once: Option<(Scope, Once)>,
    ) -> Result<KeyMade, Error> {
        let _turn = self.key_ring().turn().await;
        if let Some(id) = self.store().add_key(row.clone(), hash(&token), once).await? {
            return Ok(KeyMade { id, token: None, notice: None });
        }
        self.key_ring().write(|keys| keys.insert(hash(&token), (row.id, grant(&row))));
        let is_first = !self.key_ring().any.swap(true, Ordering::AcqRel);
        let KeyView { id, user, app, admin, made_by, .. } = row;
        tracing::info!(key = %id, user, app, admin, by = made_by, "a key was made");
        Ok(KeyMade { id, token: Some(token), notice: is_first.then(|| FIRST_KEY.to_owned()) })
    }

    /// Removes all keys, revoked ones too, and gives their number. From here on the machine's own user needs none. Who
    /// asks for it must have the data folder, which no key gives: see [`Self::is_control_token`].
    pub async fn remove_keys(&self) -> Result<u64, Error> {
        let service = self.clone();
        self.world()
            .tasks
            .finish(async move {
                let _turn = service.key_ring().turn().await;
                let removed = service.store().remove_keys().await?;
                service.key_ring().write(HashMap::clear);
                service.key_ring().any.store(false, Ordering::Release);
                tracing::warn!(
                    keys = removed,
                    by = LOCAL_USER,
                    "all keys were removed: this machine needs none now"
                );
                Ok(removed)
            })
            .await
    }

    /// The keys that `by` looks after, all of them without one: oldest first, revoked ones too.
    pub async fn keys(&self, by: Option<&Principal>) -> Result<Vec<KeyView>, Error> {
        let only = by.and_then(Principal::only_app).map(AppId::as_str);
        let mut rows = self.store().keys().await?;
        rows.retain(|row| only.is_none() || row.app.as_deref() == only);
        Ok(rows)
    }

    /// From here on the key is good for nothing. One that `by` does not look after is answered as if it did not exist.
    pub async fn revoke_key(&self, id: KeyId, by: Option<&Principal>) -> Result<(), Error> {
        let only_app = by.and_then(Principal::only_app).cloned();
        let (service, by) = (self.clone(), name_of(by));
        self.world()
            .tasks
            .finish(async move {
                let _turn = service.key_ring().turn().await;
                if !service.store().revoke_key(id, only_app, by.clone()).await? {
                    return Err(Error::NotFound { what: "key" });
                }
                service.key_ring().write(|keys| keys.retain(|_, (key, _)| *key != id));
                tracing::info!(key = %id, by, "a key was revoked");
                Ok(())
            })
            .await
    }

    /// Reads the keys, which a start does too: for who must know of them before it starts anything.
    pub async fn load_keys(&self) -> Result<(), Error> {
        let _turn = self.key_ring().turn().await;
        self.key_ring().any.store(!self.store().keys().await?.is_empty(), Ordering::Release);
        let good = self.store().good_keys().await?;
        let good = good.iter().map(|(hash, key)| (*hash, (key.id, grant(key)))).collect();
        self.key_ring().write(|keys| *keys = good);
        Ok(())
    }
}

/// Refuses a key that would be good for more than the key of the admin who asks for it.
fn check_within(by: Option<&Principal>, app: Option<&str>) -> Result<(), Error> {
    match by.and_then(Principal::only_app) {
        Some(only) if app != Some(only.as_str()) => Err(Error::Forbidden {
            message: format!(
                "your key is limited to the app {only}, so it creates keys for this app only: send \"app\": \
                 \"{only}\""
            ),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Refuses what concerns all apps to an admin of one.
pub(crate) fn check_all_apps(by: Option<&Principal>) -> Result<(), Error> {
    match by.and_then(Principal::only_app) {
        Some(only) => Err(Error::Forbidden {
            message: format!(
                "your key is limited to the app {only}, and this request concerns all apps: use an admin key \
                 that was made without --app"
            ),
        }),
        None => Ok(()),
    }
}

/// Who did something, as it is noted: the admin, or the user of this machine who has the data folder.
fn name_of(by: Option<&Principal>) -> String {
    by.map_or(LOCAL_USER, |by| by.user().as_str()).to_owned()
}

/// A name as it will be compared: one spelling, visible, not too long.
fn user(name: &str) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_graphic();
    if name.is_empty() || name.len() > MAX_USER_BYTES || !name.chars().all(plain) {
        return Err(Error::invalid("user", "must be 1 to 200 letters, digits or marks, without spaces"));
    }
    Ok(name.to_owned())
}
