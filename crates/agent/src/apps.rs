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

/// An app with its tools.
pub struct ServedApp {
    pub app: Arc<App>,
    /// Others when what is approved of the app's servers changes. Locked for a look, never over an await.
    tools: RwLock<Arc<ToolRegistry>>,
    /// Held by whoever makes its tools anew.
    offering: Semaphore,
    /// Why its folder, as it is now, is not what is served.
    problem: RwLock<Option<String>>,
}

impl ServedApp {
    /// Fails if the app names a tool that does not exist, or a model that it may not use.
    pub(crate) fn new(app: Arc<App>, (catalog, models): (&Catalog, &Models)) -> Result<Arc<Self>, Problem> {
        if let Some(problem) = model_problems(&app, models).into_iter().next() {
            return Err(problem);
        }
        let tools = RwLock::new(Arc::new(catalog.registry(&app, &[])?));
        Ok(Arc::new(Self { app, tools, offering: Semaphore::new(1), problem: RwLock::default() }))
    }

    /// Its tools as of now. A run keeps those it began with.
    pub fn tools(&self) -> Arc<ToolRegistry> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The turn of whoever reads what is approved and sets the tools made of it.
    pub(crate) async fn offering(&self) -> Option<SemaphorePermit<'_>> {
        self.offering.acquire().await.ok() // never closed
    }

    pub(crate) fn set_tools(&self, tools: ToolRegistry) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }

    pub fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_problem(&self, problem: Option<String>) {
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

type Served = BTreeMap<AppId, Arc<ServedApp>>;

/// All apps as of now. Locked for a look, never over an await.
pub struct ServedApps {
    served: RwLock<Arc<Served>>,
}

impl ServedApps {
    pub(crate) fn new(apps: Apps, surroundings: (&Catalog, &Models)) -> Result<Self, Problem> {
        let serve = |(id, app)| Ok((id, ServedApp::new(app, surroundings)?));
        let served = apps.into_iter().map(serve).collect::<Result<Served, Problem>>()?;
        Ok(Self { served: RwLock::new(Arc::new(served)) })
    }

    pub fn all(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn get(&self, app: &AppId) -> Option<Arc<ServedApp>> {
        self.all().get(app).map(Arc::clone)
    }

    /// Serves the app from now on, in place of what was served under its id.
    pub(crate) fn insert(&self, serving: Arc<ServedApp>) {
        self.change(|served| drop(served.insert(serving.app.id.clone(), serving)));
    }

    /// Serves the app no longer.
    pub fn remove(&self, app: &AppId) {
        self.change(|served| drop(served.remove(app)));
    }

    fn change(&self, change: impl FnOnce(&mut Served)) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut served));
    }
}
