//! Browser sessions: a cookie in place of a key or a JWT, so that no script has to hold one.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use protocol::{AppId, KeyId, Page, Principal, SessionId, SessionView};

use crate::access::secret_hash;
use crate::checks::{self, PageQuery};
use crate::grant::{Grant, GrantSource};
use crate::keys::{fresh_secret, name_of};
use crate::{Error, Service};

/// The lifetime of a session.
pub const SESSION_HOURS: i64 = 12;

/// The beginning of a session's secret.
const SESSION_PREFIX: &str = "rondo_session_";

/// The proof that a session is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionProof {
    Key(KeyId),
    /// The issuer of a JWT.
    Issuer(String),
}

/// A session that was just made, and the secret for its cookie.
#[derive(Debug)]
pub struct SessionMade {
    pub view: SessionView,
    pub secret: String,
}

impl Service {
    /// Makes a session with the rights of the principal. It ends with its key, or after twelve hours.
    pub async fn add_session(
        &self,
        principal: &Principal,
        proof: SessionProof,
        access_ends: Option<Timestamp>,
    ) -> Result<SessionMade, Error> {
        let now = self.now();
        let ends = now + SignedDuration::from_hours(SESSION_HOURS);
        let (key, issuer, expires_at) = match proof {
            SessionProof::Key(key) => (Some(key), None, access_ends.map_or(ends, |end| end.min(ends))),
            SessionProof::Issuer(issuer) => (None, Some(issuer), ends),
        };
        let apps = principal.apps().map(|apps| apps.iter().map(ToString::to_string).collect());
        let view = SessionView {
            id: SessionId::new(self.world().ids.fresh()),
            user: principal.user().to_string(),
            apps,
            rights: principal.rights(),
            key,
            issuer,
            created_at: now,
            expires_at,
        };
        let secret = fresh_secret(SESSION_PREFIX)?;
        let actor = principal.actor().map(str::to_owned);
        let (service, session, hash) = (self.clone(), view.clone(), secret_hash(&secret));
        let add = async move {
            let crowded_out = service.store().add_session(session, hash, actor).await?;
            if !crowded_out.is_empty() {
                service.access().forget_all();
            }
            for session in crowded_out {
                service.access().open_streams.end_session(session);
            }
            Ok(())
        };
        self.world().tasks.finish(add).await?;
        Ok(SessionMade { view, secret })
    }

    /// The rights of a session's holder; none if it has ended.
    pub async fn session_grant(&self, secret: &str) -> Result<Option<Arc<Grant>>, Error> {
        let hash = secret_hash(secret);
        let cached = match self.access().get(&hash) {
            Some(cached) => cached,
            None => {
                let changes = self.access().changes();
                let row = self.store().session_by_hash(hash).await?;
                let Some(grant) = row.and_then(Grant::of_session) else { return Ok(None) };
                self.access().keep(hash, grant, changes)
            }
        };
        let is_session = matches!(cached.grant.source, GrantSource::Session(..));
        let is_good = is_session && cached.grant.is_good_at(self.now());
        Ok(is_good.then(|| Arc::clone(&cached.grant)))
    }

    /// Ends the session of this secret, at the wish of its holder.
    pub async fn end_own_session(&self, session: SessionId, secret: &str) -> Result<(), Error> {
        let (service, hash) = (self.clone(), secret_hash(secret));
        // Pages often leave right after they sign out.
        let end = async move {
            service.store().end_session(session, None, None).await?;
            service.access().forget(&hash);
            service.access().open_streams.end_session(session);
            Ok(())
        };
        self.world().tasks.finish(end).await
    }

    /// Ends a session in the apps of the admin `by`. Another is answered as if it did not exist.
    pub async fn end_session(&self, session: SessionId, by: Option<&Principal>) -> Result<(), Error> {
        let only = by.and_then(Principal::apps).map(<[AppId]>::to_vec);
        let (service, by) = (self.clone(), name_of(by));
        let end = async move {
            if !service.store().end_session(session, only, Some(by.clone())).await? {
                return Err(Error::NotFound { what: "session" });
            }
            service.access().forget_all();
            service.access().open_streams.end_session(session);
            tracing::info!(%session, by, "a session was ended");
            Ok(())
        };
        self.world().tasks.finish(end).await
    }

    /// The open sessions in the apps of the admin `by`, newest first.
    pub async fn sessions(
        &self,
        page: PageQuery,
        by: Option<&Principal>,
    ) -> Result<Page<SessionView>, Error> {
        let only = by.and_then(Principal::apps).map(<[AppId]>::to_vec);
        let page = self.store().sessions(only, page.by_time()?, self.now()).await?;
        Ok(checks::page(page, |row| checks::time_cursor(row.created_at, row.id), |row| row))
    }
}
