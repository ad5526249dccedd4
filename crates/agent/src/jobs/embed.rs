//! Vectors in the background: of what was said and remembered lately, and of everything when the model has changed.

use std::time::Duration;

use app::{App, DocumentUse};
use async_trait::async_trait;
use protocol::Scope;
use store::{JobRow, NewJob};

use super::{BackgroundJob, JobEffect, UnfinishedJob};
use crate::world::World;

/// Users whose vectors are missing that are looked for in one go; the next go begins behind them.
const MAX_SCOPES: usize = 1_000;

/// Makes vectors of what a user has that has none.
pub(crate) struct EmbedTexts;

impl EmbedTexts {
    pub(crate) const NAME: &str = "embed";
}

#[async_trait]
impl BackgroundJob for EmbedTexts {
    /// Makes the vectors, a bounded number at a time.
    async fn run(&self, world: &World, job: &JobRow) -> Result<JobEffect, UnfinishedJob> {
        while world.recall.embed(&job.scope).await.map_err(|error| error.to_string())? {}
        Ok(JobEffect::Nothing)
    }
}

/// Schedules the vectors of what a user has, or of an app's own documents. If that fails, the next start looks again.
pub async fn embed_soon(world: &World, scope: &Scope) {
    let uses = |app: &App| match scope.is_of_app() {
        true => app.knowledge.enabled,
        false => app.memory.is_used() || app.context.documents != DocumentUse::None,
    };
    let is_used = world.app(&scope.app).is_some_and(|app| uses(&app));
    if !is_used || world.recall.model().is_none() {
        return;
    }
    let key = format!("{}/{}", scope.app.as_str(), scope.user.as_str());
    let job = NewJob { id: world.ids.job(), kind: EmbedTexts::NAME, key, delay: Duration::ZERO };
    if let Err(error) = world.store.schedule_for(scope, job).await {
        tracing::warn!(%error, "the job that makes vectors was not added; the next start of the server adds it");
    }
}

/// Schedules the vectors of everything that has none of the model in use, as after a change of the model.
pub(crate) async fn embed_all(world: &World) {
    let Some(model) = world.recall.model() else { return };
    let mut last: Option<Scope> = None;
    loop {
        let scopes = match world.store.scopes_to_embed(model, last.as_ref(), MAX_SCOPES).await {
            Ok(scopes) => scopes,
            Err(error) => return tracing::warn!(%error, "texts without vectors could not be looked up"),
        };
        for scope in &scopes {
            embed_soon(world, scope).await;
        }
        last = scopes.into_iter().next_back();
        if last.is_none() {
            return;
        }
    }
}
