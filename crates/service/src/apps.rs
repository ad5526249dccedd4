//! Apps as clients ask for them, and as whoever watches their folders replaces them.

use std::sync::Arc;

use agent::ServedApp;
use app::{App, Problem};
use protocol::{AppId, AppView};

use crate::{Error, Service};

impl Service {
    pub fn apps(&self) -> Vec<AppView> {
        let view = |serving: &ServedApp| AppView {
            id: serving.app.id.to_string(),
            name: serving.app.name.clone(),
            description: serving.app.description.clone(),
            model: self.world().models.name(serving.app.model.as_deref()),
            models: self.choosable_models(&serving.app),
            tools: serving.tools().specs().iter().map(|tool| tool.name.clone()).collect(),
            problem: serving.problem(),
        };
        self.world().apps.all().values().map(|serving| view(serving)).collect()
    }

    /// Serves an app from now on, in place of what was served under its id. Nothing changes if it names a tool that does
    /// not exist, or a model that it may not use.
    pub async fn replace_app(&self, app: Arc<App>) -> Result<(), Problem> {
        self.agent.replace_app(app).await
    }

    /// Serves an app no longer. Its runs that are under way end as they would have; what its users have stays, and what
    /// is to begin waits for it.
    pub fn remove_app(&self, app: &AppId) {
        self.world().apps.remove(app);
        if let Some(hub) = self.world().catalog.hub() {
            hub.keep_servers(app, &[]);
        }
    }

    /// Says of an app that its folder is broken, so that its last good version is still served; or no longer.
    pub fn note_problem(&self, app: &AppId, problem: Option<String>) {
        if let Some(serving) = self.world().apps.get(app) {
            serving.set_problem(problem);
        }
    }

    /// The revision of an app that is served.
    pub fn revision(&self, app: &AppId) -> Result<String, Error> {
        let serving = self.world().apps.get(app).ok_or(Error::NotFound { what: "app" })?;
        Ok(serving.app.revision.clone())
    }
}
