//! Keys: who may speak, known by the hash of the secret they hold.
//!
//! An admin manages the keys for the apps of their own key. A local command with access to the data folder manages all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::{AppId, KeyId, KeyMade, KeyRotation, KeyView, NewKey, Page, Principal, Right, Rights, Scope};
use store::{IdempotencyClaim, NewKeyRotation};
use tokio_util::sync::CancellationToken;

use crate::access::secret_hash;
use crate::checks::{self, PageQuery};
use crate::grant::{Grant, GrantSource, LOCAL_USER};
use crate::open_streams::StreamAccess;
use crate::{Error, Service};

/// The beginning of a key's secret, so that people and scanners know one when they see one.
pub const KEY_PREFIX: &str = "rondo_";

/// The app under which the idempotency keys of requests that concern the server itself are kept; no app has this name.
const NO_APP: &str = "";

/// The pause before keys are read again that could not be read.
const ACCESS_PAUSE: Duration = Duration::from_millis(200);

/// Told with the first key, which ends access without one.
const FIRST_KEY: &str = "access without a key ends now, on the server's own machine too; send the key with every \
    request, as Authorization: Bearer KEY; to go back, run `rondo keys open` on that machine, which removes all keys";

/// Bytes of a user's name.
const MAX_USER_BYTES: usize = 200;

/// For how long a replaced key stays valid: by default, and at most.
const DEFAULT_OVERLAP_SECONDS: u32 = 24 * 60 * 60;
const MAX_OVERLAP_SECONDS: u32 = 30 * DEFAULT_OVERLAP_SECONDS;

/// 256 random bits, in a form that can be sent.
pub(crate) fn fresh_secret(prefix: &str) -> Result<String, Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random numbers");
        Error::Internal
    })?;
    Ok(secret.iter().fold(prefix.to_owned(), |token, byte| format!("{token}{byte:02x}")))
}

impl Service {
    /// The rights of a key's holder; none if it is no good key.
    pub async fn key_grant(&self, token: &str) -> Result<Option<Arc<Grant>>, Error> {
        let hash = secret_hash(token);
        if self.access().is_control(&hash) {
            return Ok(Some(Arc::new(Grant::of_control(LOCAL_USER))));
        }
        let now = self.now();
        let cached = match self.access().get(&hash) {
            Some(cached) => cached,
            None => {
                let changes = self.access().changes();
                let Some(grant) = self.store().key_by_hash(hash).await?.and_then(Grant::of_key) else {
                    return Ok(None);
                };
                self.access().keep(hash, grant, changes)
            }
        };
        // The secret of a session is no key, though the cache has it, too.
        let GrantSource::Key(id) = cached.grant.source else { return Ok(None) };
        if !cached.grant.is_good_at(now) {
            return Ok(None);
        }
        if cached.is_use_to_note(now) {
            let store = self.store().clone();
            self.world().tasks.spawn(async move {
                if let Err(error) = store.note_key_use(id, now).await {
                    tracing::debug!(%error, key = %id, "the last use of a key could not be noted");
                }
            });
        }
        Ok(Some(Arc::clone(&cached.grant)))
    }

    /// Notes an event stream of the holder of this proof. It ends with the access, or with `parent`.
    pub fn open_stream(
        &self,
        source: Option<&GrantSource>,
        expires_at: Option<Timestamp>,
        parent: &CancellationToken,
    ) -> StreamAccess {
        let clock = Arc::clone(&self.world().clock);
        self.access().open_streams.open(source, expires_at, (parent, clock))
    }

    /// Whether a token is the one for commands on this machine, which proves that its holder can read the data folder.
    pub fn is_control_token(&self, token: &str) -> bool {
        self.access().is_control(&secret_hash(token))
    }

    /// A token for commands on the same machine, good for as long as this process lives. A person who can read where
    /// it is kept could read the database too.
    pub fn control_token(&self) -> Result<String, Error> {
        let token = fresh_secret(KEY_PREFIX)?;
        if self.access().set_control(secret_hash(&token)) { Ok(token) } else { Err(Error::Internal) }
    }

    /// Whether a key was ever made, and not removed with all others. Until then, the machine's own user needs none.
    pub fn has_keys(&self) -> bool {
        self.access().any_key.load(Ordering::Acquire)
    }

    /// Whether any key is good now. Without one, no client on another machine could be served.
    pub async fn has_good_keys(&self) -> Result<bool, Error> {
        Ok(self.store().has_good_keys(self.now()).await?)
    }

    /// Makes a key. `by` is the admin who requests it. The new key cannot have more rights than the admin's own.
    /// Without `by`, the request comes from a local command with access to the data folder.
    pub async fn add_key(
        &self,
        new: NewKey,
        by: Option<(&Principal, Option<IdempotencyClaim>)>,
    ) -> Result<KeyMade, Error> {
        let (by, once) = by.unzip();
        let row = self.new_key(new, by)?;
        let once = by.zip(once.flatten()).map(|(by, once)| (by.scope(AppId::new(NO_APP)), once));
        let (service, token) = (self.clone(), fresh_secret(KEY_PREFIX)?);
        self.world().tasks.finish(async move { service.keep_key(row, token, once).await }).await
    }

    /// The row of a key as it is asked for, if it may be made.
    fn new_key(&self, new: NewKey, by: Option<&Principal>) -> Result<KeyView, Error> {
        let NewKey { user, app, admin, rights, acts_for, expires_at } = new;
        let user = checked_user("user", &user)?;
        check_within(by, app.as_deref())?;
        if let Some(app) = &app
            && !self.has_app(app)
        {
            return Err(Error::invalid("app", "there is no app of that name"));
        }
        if expires_at.is_some_and(|end| end <= self.now()) {
            return Err(Error::invalid("expiresAt", "must be in the future"));
        }
        let rights = rights.unwrap_or(Rights::USER);
        let rights = if admin { rights.with(Right::Admin) } else { rights };
        Ok(KeyView {
            id: KeyId::new(self.world().ids.fresh()),
            user,
            app,
            admin: rights.has(Right::Admin),
            rights,
            acts_for,
            created_at: Timestamp::UNIX_EPOCH, // the store says when
            expires_at,
            used_at: None,
            revoked_at: None,
            made_by: Some(name_of(by)),
            revoked_by: None,
            replaced_by: None,
        })
    }

    async fn keep_key(
        &self,
        row: KeyView,
        token: String,
        once: Option<(Scope, IdempotencyClaim)>,
    ) -> Result<KeyMade, Error> {
        let _turn = self.access().turn().await;
        if let Some(id) = self.store().add_key(row.clone(), secret_hash(&token), once).await? {
            return Ok(KeyMade { id, token: None, notice: None });
        }
        let is_first = !self.access().any_key.swap(true, Ordering::AcqRel);
        let KeyView { id, user, app, rights, made_by, .. } = row;
        tracing::info!(key = %id, user, app, %rights, by = made_by, "a key was made");
        Ok(KeyMade { id, token: Some(token), notice: is_first.then(|| FIRST_KEY.to_owned()) })
    }

    /// Makes a new key in place of another, which stays valid for a while, so that nothing stops while its holder changes
    /// over.
    pub async fn rotate_key(
        &self,
        old: KeyId,
        rotation: KeyRotation,
        by: Option<(&Principal, Option<IdempotencyClaim>)>,
    ) -> Result<KeyMade, Error> {
        let (by, once) = by.unzip();
        let overlap = rotation.overlap_seconds.unwrap_or(DEFAULT_OVERLAP_SECONDS);
        if overlap > MAX_OVERLAP_SECONDS {
            return Err(Error::invalid("overlapSeconds", format!("must be at most {MAX_OVERLAP_SECONDS}")));
        }
        let ends = self.now() + SignedDuration::from_secs(i64::from(overlap));
        let once = by.zip(once.flatten()).map(|(by, once)| (by.scope(AppId::new(NO_APP)), once));
        let token = fresh_secret(KEY_PREFIX)?;
        let rotation = NewKeyRotation {
            old,
            only_apps: by.and_then(Principal::apps).map(<[AppId]>::to_vec),
            // The store fills in the rest from the old key.
            new: self
                .new_key(key_for(LOCAL_USER), None)
                .map(|new| KeyView { made_by: Some(name_of(by)), ..new })?,
            hash: secret_hash(&token),
            old_ends_at: ends,
            once,
        };
        let service = self.clone();
        self.world().tasks.finish(async move { service.replace_key(rotation, token).await }).await
    }

    async fn replace_key(&self, rotation: NewKeyRotation, token: String) -> Result<KeyMade, Error> {
        let by = rotation.new.made_by.clone();
        let rotated = match self.store().rotate_key(rotation).await {
            Err(store::Error::Changed(message)) => {
                return Err(Error::Conflict { code: "key_not_good", message });
            }
            rotated => rotated?.ok_or(Error::NotFound { what: "key" })?,
        };
        let Some(replaced) = rotated.made else {
            return Ok(KeyMade { id: rotated.id, token: None, notice: None });
        };
        let (old, ends) = (replaced.old.id, replaced.old.expires_at.unwrap_or_else(|| self.now()));
        self.access().forget_all();
        self.access().open_streams.end_key(old, ends, self.now());
        tracing::info!(key = %old, replaced_by = %rotated.id, by, %ends, "a key was rotated");
        Ok(KeyMade { id: rotated.id, token: Some(token), notice: None })
    }

    /// Removes all keys, revoked ones too, and gives their number. From here on the machine's own user needs none. The
    /// caller must have the data folder, which no key gives: see [`Self::is_control_token`].
    pub async fn remove_keys(&self) -> Result<u64, Error> {
        let service = self.clone();
        let remove = async move {
            let _turn = service.access().turn().await;
            let removed = service.store().remove_keys(LOCAL_USER.to_owned()).await?;
            service.access().forget_all();
            service.access().open_streams.end_all();
            service.access().any_key.store(false, Ordering::Release);
            tracing::warn!(
                keys = removed,
                by = LOCAL_USER,
                "all keys were removed: this machine needs none now"
            );
            Ok(removed)
        };
        self.world().tasks.finish(remove).await
    }

    /// The keys for the apps of the admin `by`, or all keys without one: oldest first, revoked ones too.
    pub async fn keys(&self, page: PageQuery, by: Option<&Principal>) -> Result<Page<KeyView>, Error> {
        let only = by.and_then(Principal::apps).map(<[AppId]>::to_vec);
        let page = self.store().keys(only, page.by_time()?).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), |row| row))
    }

    /// Revokes a key. A key outside the apps of the admin `by` is answered as if it did not exist.
    pub async fn revoke_key(&self, id: KeyId, by: Option<&Principal>) -> Result<(), Error> {
        let only = by.and_then(Principal::apps).map(<[AppId]>::to_vec);
        let (service, by) = (self.clone(), name_of(by));
        let revoke = async move {
            let revoked = service.store().revoke_key(id, only, by.clone()).await?;
            revoked.ok_or(Error::NotFound { what: "key" })?;
            // Its sessions are known by their own hashes.
            service.access().forget_all();
            service.access().open_streams.end_key(id, service.now(), service.now());
            tracing::info!(key = %id, by, "a key was revoked");
            Ok(())
        };
        self.world().tasks.finish(revoke).await
    }

    /// Looks at keys and sessions again whenever another node has changed some.
    pub(crate) async fn follow_access(&self) {
        let mut changed = self.world().access_changed.subscribe();
        while changed.changed().await.is_ok() {
            while let Err(error) = self.look_at_access().await {
                tracing::warn!(%error, "changes of keys on another node were not read; it will be tried again");
                tokio::time::sleep(ACCESS_PAUSE).await;
            }
        }
    }

    async fn look_at_access(&self) -> Result<(), Error> {
        self.access().forget_all();
        self.load_keys().await?;
        let holders = self.access().open_streams.holders();
        for (holder, end) in self.store().access_ends(holders).await? {
            self.access().open_streams.end_holder(holder, end, self.now());
        }
        Ok(())
    }

    /// Looks whether there are keys, which a start does too: for who must know before it starts anything.
    pub async fn load_keys(&self) -> Result<(), Error> {
        let _turn = self.access().turn().await;
        self.access().any_key.store(self.store().has_keys().await?, Ordering::Release);
        Ok(())
    }
}

fn key_for(user: &str) -> NewKey {
    NewKey { user: user.to_owned(), ..NewKey::default() }
}

/// Refuses a key that would be good for more than the key of the admin who asks for it.
fn check_within(by: Option<&Principal>, app: Option<&str>) -> Result<(), Error> {
    let Some(only) = by.and_then(Principal::apps) else { return Ok(()) };
    if only.iter().any(|only| Some(only.as_str()) == app) {
        return Ok(());
    }
    let (apps, first) = (join_apps(only), only.first().map_or("", AppId::as_str));
    Err(Error::Forbidden {
        message: format!(
            "your access is limited to {apps}, so it creates keys for that only: send \"app\": \"{first}\""
        ),
    })
}

/// Refuses what concerns all apps to an admin of some.
pub(crate) fn check_all_apps(by: Option<&Principal>) -> Result<(), Error> {
    match by.and_then(Principal::apps) {
        Some(only) => Err(Error::Forbidden {
            message: format!(
                "your access is limited to {}, and this request concerns all apps: use an admin key that was \
                 made without --app",
                join_apps(only)
            ),
        }),
        None => Ok(()),
    }
}

fn join_apps(apps: &[AppId]) -> String {
    match apps {
        [] => "no app".to_owned(),
        [only] => format!("the app {only}"),
        several => {
            format!("the apps {}", several.iter().map(AppId::as_str).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the name under which a deed is noted: the admin's, or that of the user of this machine who has the data
/// folder.
pub(crate) fn name_of(by: Option<&Principal>) -> String {
    by.map_or_else(|| LOCAL_USER.to_owned(), Principal::name)
}

/// A name as it will be compared: visible ASCII only, so that no two names look alike, and not too long.
pub fn checked_user(field: &'static str, name: &str) -> Result<String, Error> {
    let is_plain = |c: char| c.is_ascii_graphic();
    if name.is_empty() || name.len() > MAX_USER_BYTES || !name.chars().all(is_plain) {
        return Err(Error::invalid(field, "must be 1 to 200 visible ASCII characters, without spaces"));
    }
    Ok(name.to_owned())
}
