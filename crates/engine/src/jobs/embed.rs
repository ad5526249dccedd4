//! Vectors in the background: of what was said and remembered lately, and of everything when the model has changed.

use std::time::Duration;

use app::{App, DocumentUse};
use protocol::Scope;
use store::{JobRow, NewJob};

use super::{Done, EMBED};
use crate::Engine;

/// Users whose vectors are missing that are looked for in one go; the next go begins behind them.
const MAX_SCOPES: usize = 1_000;

/// Makes them, a bounded number at a time.
pub(super) async fn embed(engine: &Engine, job: &JobRow) -> Result<Done, String> {
    while engine.recall().embed(&job.scope).await.map_err(|error| error.to_string())? {}
    Ok(Done::default())
}

impl Engine {
    /// Sees to it that what the user has gets its vectors. If that fails, the next start looks again.
    pub(crate) async fn embed_soon(&self, scope: &Scope) {
        let uses = |app: &App| app.memory.is_used() || app.context.documents != DocumentUse::None;
        let is_used = self.app(&scope.app).is_some_and(|app| uses(&app));
        if !is_used || self.recall().model().is_none() {
            return;
        }
        let key = format!("{}/{}", scope.app.as_str(), scope.user.as_str());
        let job = NewJob { id: self.fresh_job(), kind: EMBED, key, delay: Duration::ZERO };
        if let Err(error) = self.store().schedule_for(scope, job).await {
            tracing::warn!(%error, "making vectors was not scheduled; the next start does it");
        }
        self.notice_jobs();
    }

    /// Everything that has no vector of the model in use, as after a change of the model.
    pub(crate) async fn embed_all(self) {
        let Some(model) = self.recall().model() else { return };
        let mut last: Option<Scope> = None;
        loop {
            let scopes = match self.store().scopes_to_embed(model, last.as_ref(), MAX_SCOPES).await {
                Ok(scopes) => scopes,
                Err(error) => return tracing::warn!(%error, "what has no vectors was not looked for"),
            };
            for scope in &scopes {
                self.embed_soon(scope).await;
            }
            last = scopes.into_iter().next_back();
            if last.is_none() {
                return;
            }
        }
    }
}
