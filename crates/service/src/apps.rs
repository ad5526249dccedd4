//! Apps as clients ask for them, and their replacement when their folders change.

use std::sync::Arc;

use agent::ServedApp;
use app::{App, Problem};
use protocol::{AppId, AppView};

use crate::{Error, Service};

/// The app that answers when there are several, and neither a request nor the configuration names one.
const USUAL_APP: &str = "studio";

/// The app of a request that names none: the configured app, the only app, or `studio`.
pub fn default_app<'a>(configured: Option<&'a str>, apps: &'a [String]) -> Option<&'a str> {
    match (configured, apps) {
        (Some(app), _) => Some(app),
        (None, [only]) => Some(only.as_str()),
        (None, apps) => apps.iter().map(String::as_str).find(|app| *app == USUAL_APP),
    }
}

impl Service {
    pub fn apps(&self) -> Vec<AppView> {
        let view = |serving: &ServedApp| AppView {
            id: serving.app.id.to_string(),
            name: serving.app.name.clone(),
            description: serving.app.description.clone(),
            model: self.world().models.name(serving.app.model.as_deref()),
            models: self.choosable_models(&serving.app),
            tools: serving.tools().specs().iter().map(|tool| tool.name.clone()).collect(),
            starters: serving.app.starters.clone(),
            problem: serving.problem().or_else(|| self.shared.knowledge.problem(&serving.app.id)),
        };
        self.world().apps.all().values().map(|serving| view(serving)).collect()
    }

    /// Serves an app from now on, in place of what was served under its id. Nothing changes if it names a tool that does
    /// not exist, or a model that it may not use.
    pub async fn replace_app(&self, app: Arc<App>) -> Result<(), Problem> {
        let id = app.id.clone();
        self.agent.replace_app(app).await?;
        self.update_knowledge(&id);
        Ok(())
    }

    /// Serves an app no longer. Its runs that are under way end as they would have; what its users have stays, and what
    /// is to begin waits for it.
    pub fn remove_app(&self, app: &AppId) {
        self.world().apps.remove(app);
        self.world().watch_webhooks();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_configured_app_the_only_one_or_studio() {
        let apps = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (configured, names, expected) in [
            (Some("tutor"), ["studio", "tutor"].as_slice(), Some("tutor")),
            (Some("gone"), &["studio"], Some("gone")),
            (None, &["tutor"], Some("tutor")),
            (None, &["studio", "trailhead"], Some("studio")),
            (None, &["trailhead", "tutor"], None),
            (None, &[], None),
        ] {
            assert_eq!(default_app(configured, &apps(names)), expected, "{configured:?} {names:?}");
        }
    }
}
