//! The apps that are served. Each can be replaced while the server runs: a run keeps the one it began with, and the next
//! run gets the new one.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

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
    /// One permit: held while the tools of the app are made anew.
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

    /// The permit to read the approved tools and to set the registry made of them.
    pub(crate) async fn offering_turn(&self) -> Option<SemaphorePermit<'_>> {
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

/// Earlier revisions that are held ready for runs that began with them.
const MAX_READY_REVISIONS: usize = 8;

/// Earlier revisions of apps, of which the store keeps the files.
pub(crate) struct AppRevisions {
    /// The folder into which files are unpacked. If there is no such folder, every run continues with the app that is
    /// served.
    pub(crate) folder: Option<PathBuf>,
    /// The apps that were used last, ready for use. Locked for a look, never over an await.
    ready: Mutex<VecDeque<Arc<ServedApp>>>,
    /// One permit: held while files are unpacked.
    unpacking: Semaphore,
}

impl AppRevisions {
    fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, ready: Mutex::default(), unpacking: Semaphore::new(1) }
    }

    /// The permit to unpack files.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.unpacking.acquire().await.ok() // never closed
    }

    pub(crate) fn ready(&self, app: &AppId, revision: &str) -> Option<Arc<ServedApp>> {
        let is_meant = |served: &&Arc<ServedApp>| served.app.id == *app && served.app.revision == revision;
        self.lock().iter().find(is_meant).cloned()
    }

    pub(crate) fn add_ready(&self, app: Arc<ServedApp>) -> Arc<ServedApp> {
        let mut ready = self.lock();
        ready.push_front(Arc::clone(&app));
        ready.truncate(MAX_READY_REVISIONS);
        app
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<ServedApp>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Served = BTreeMap<AppId, Arc<ServedApp>>;

/// All apps as of now. Locked for a look, never over an await.
pub struct ServedApps {
    pub(crate) revisions: AppRevisions,
    served: RwLock<Arc<Served>>,
}

impl ServedApps {
    pub(crate) fn new(
        apps: Apps,
        revisions: Option<PathBuf>,
        surroundings: (&Catalog, &Models),
    ) -> Result<Self, Problem> {
        let serve = |(id, app)| Ok((id, ServedApp::new(app, surroundings)?));
        let served = apps.into_iter().map(serve).collect::<Result<Served, Problem>>()?;
        Ok(Self { revisions: AppRevisions::new(revisions), served: RwLock::new(Arc::new(served)) })
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
