//! The apps that are served. Each can be replaced while the server runs: a run keeps the one it began with, and the next
//! run gets the new one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use app::{App, Apps, Problem};
use model::ModelRegistry as Models;
use protocol::AppId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tools::{Catalog, ToolRegistry};

use crate::models::model_problems;
use crate::{Engine, Error};

/// An app with its tools.
pub(crate) struct Serving {
    pub(crate) app: Arc<App>,
    /// Others when what is approved of the app's servers changes. Locked for a look, never over an await.
    tools: RwLock<Arc<ToolRegistry>>,
    /// Held by whoever makes its tools anew.
    offering: Semaphore,
    /// Why its folder, as it is now, is not what is served.
    problem: RwLock<Option<String>>,
}

impl Serving {
    /// Fails if the app names a tool that does not exist, or a model that it may not use.
    fn new(app: Arc<App>, (catalog, models): (&Catalog, &Models)) -> Result<Arc<Self>, Problem> {
        if let Some(problem) = model_problems(&app, models).into_iter().next() {
            return Err(problem);
        }
        let tools = RwLock::new(Arc::new(catalog.registry(&app, &[])?));
        Ok(Arc::new(Self { app, tools, offering: Semaphore::new(1), problem: RwLock::default() }))
    }

    /// Its tools as of now. A run keeps those it began with.
    pub(crate) fn tools(&self) -> Arc<ToolRegistry> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The turn of whoever reads what is approved and sets the tools made of it.
    pub(crate) async fn offering(&self) -> Option<SemaphorePermit<'_>> {
        self.offering.acquire().await.ok() // never closed
    }

    pub(crate) fn set_tools(&self, tools: ToolRegistry) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }

    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

type Served = BTreeMap<AppId, Arc<Serving>>;

/// All apps as of now. Locked for a look, never over an await.
pub(crate) struct Shelf {
    served: RwLock<Arc<Served>>,
}

impl Shelf {
    pub(crate) fn new(apps: Apps, surroundings: (&Catalog, &Models)) -> Result<Self, Problem> {
        let serve = |(id, app)| Ok((id, Serving::new(app, surroundings)?));
        let served = apps.into_iter().map(serve).collect::<Result<Served, Problem>>()?;
        Ok(Self { served: RwLock::new(Arc::new(served)) })
    }

    pub(crate) fn all(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn get(&self, app: &AppId) -> Option<Arc<Serving>> {
        self.all().get(app).map(Arc::clone)
    }

    fn change(&self, change: impl FnOnce(&mut Served)) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut served));
    }
}

impl Engine {
    /// Serves an app from now on, in place of what was served under its id. Nothing changes if it names a tool that does
    /// not exist, or a model that it may not use.
    pub async fn replace_app(&self, app: Arc<App>) -> Result<(), Problem> {
        let serving = Serving::new(app, (&self.shared.catalog, &self.shared.models))?;
        let id = serving.app.id.clone();
        if !serving.app.mcp.is_empty()
            && let Err(error) = self.offer_again(&serving).await
        {
            tracing::error!(app = %id, %error, "the tools of an app's servers could not be read");
        }
        self.shared.apps.change(|served| drop(served.insert(id.clone(), Arc::clone(&serving))));
        if let Some(hub) = self.shared.catalog.hub() {
            hub.keep_servers(&id, &serving.app.mcp);
        }
        self.in_background(self.clone().look_at_servers_of(serving));
        self.welcome_app(&id);
        Ok(())
    }

    /// Serves an app no longer. Its runs that are under way end as they would have; what its users have stays, and what
    /// is to begin waits for it.
    pub fn remove_app(&self, app: &AppId) {
        self.shared.apps.change(|served| drop(served.remove(app)));
        if let Some(hub) = self.shared.catalog.hub() {
            hub.keep_servers(app, &[]);
        }
    }

    /// Says of an app that its folder is broken, so that its last good version is still served; or no longer.
    pub fn note_problem(&self, app: &AppId, problem: Option<String>) {
        if let Some(serving) = self.shared.apps.get(app) {
            serving.set_problem(problem);
        }
    }

    /// The revision of an app that is served.
    pub fn revision(&self, app: &AppId) -> Result<String, Error> {
        let serving = self.shared.apps.get(app).ok_or(Error::NotFound { what: "app" })?;
        Ok(serving.app.revision.clone())
    }
}
