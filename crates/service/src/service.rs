//! The service: an agent, and what only requests need beside it.
//!
//! The requests themselves are in one file for each noun; here is how the service is put together, started and stopped.

use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, AgentParts, ServedApp, World};
use app::{App, Problem};
use jiff::Timestamp;
use memory::recall::Recall;
use protocol::{AppId, Principal, Scope};
use store::{HeldByUsers, JobRow, JobStatus, PageOf, Store};
use tokio::sync::Semaphore;

use crate::Error;
use crate::access::AccessCache;
use crate::extractor::Extractor;
use crate::grant::LOCAL_USER;
use crate::knowledge_updates::KnowledgeUpdates;
use crate::vault::SealedVault;

/// Uploads that are read at once.
const MAX_EXTRACTIONS: usize = 2;

/// Reports over all users that are made at once.
const MAX_REPORTS: usize = 1;

/// Images that are decoded at once. The largest takes a few hundred megabytes while it is.
const MAX_DECODED_IMAGES: usize = 2;

/// How often a wait for an idle process looks at it.
const IDLE_LOOK: Duration = Duration::from_millis(10);

/// The parts that a service is made of. `cli` puts them together.
pub struct ServiceParts {
    pub agent: AgentParts,
    /// Seals the credentials of users.
    pub vault_key: [u8; 32],
    /// Reads uploads.
    pub extractor: Arc<dyn Extractor>,
    /// Bytes of text that the documents of one user in one app may have.
    pub document_bytes: u64,
    /// Active runs of one user in an app that does not set a limit of its own.
    pub max_running: u64,
}

/// Answers what clients and admins ask for. A clone is cheap.
#[derive(Clone)]
pub struct Service {
    pub(crate) agent: Agent,
    pub(crate) shared: Arc<RequestState>,
}

/// State that only requests need.
pub(crate) struct RequestState {
    pub(crate) access: AccessCache,
    pub(crate) vault: Arc<SealedVault>,
    pub(crate) extractor: Arc<dyn Extractor>,
    pub(crate) document_bytes: u64,
    /// Active runs of one user in an app that does not set a limit of its own.
    pub(crate) max_running: u64,
    /// Held by each document while it is read.
    pub(crate) extracting_documents: Semaphore,
    pub(crate) knowledge: KnowledgeUpdates,
    /// Held by each report over all users while it is made.
    pub(crate) reporting: Semaphore,
    /// Held by each image while it is decoded.
    pub(crate) decoding_images: Arc<Semaphore>,
}

impl Service {
    /// Fails if an app names a tool that does not exist, or a model that it may not use.
    pub fn new(parts: ServiceParts) -> Result<Self, Problem> {
        let vault = Arc::new(SealedVault::new(parts.agent.store.clone(), &parts.vault_key));
        let shared = RequestState {
            access: AccessCache::default(),
            vault: Arc::clone(&vault),
            extractor: parts.extractor,
            document_bytes: parts.document_bytes,
            max_running: parts.max_running,
            extracting_documents: Semaphore::new(MAX_EXTRACTIONS),
            knowledge: KnowledgeUpdates::default(),
            reporting: Semaphore::new(MAX_REPORTS),
            decoding_images: Arc::new(Semaphore::new(MAX_DECODED_IMAGES)),
        };
        Ok(Self { agent: Agent::new(parts.agent, vault)?, shared: Arc::new(shared) })
    }

    /// Takes over every run that an earlier process left unfinished, then becomes ready.
    pub async fn start(&self) -> Result<(), Error> {
        self.load_keys().await?;
        self.agent.start().await?;
        if self.is_node() {
            let service = self.clone();
            self.world().tasks.spawn_endless(async move { service.follow_access().await });
        }
        self.update_all_knowledge();
        Ok(())
    }

    /// Not before it has taken up what was left, not once it retires, and not when nothing can be written any more.
    pub fn is_ready(&self) -> bool {
        self.world().is_ready()
    }

    /// The counts of things, such as streams, that users hold open on all nodes; none if this server is alone.
    pub fn held_by_users(&self) -> Option<Arc<HeldByUsers>> {
        self.store().held_by_users()
    }

    /// Whether other servers share the database.
    pub fn is_node(&self) -> bool {
        self.store().node().is_some()
    }

    /// False once the disk or the writer has failed. Only another start helps.
    pub fn can_write(&self) -> bool {
        self.store().is_open()
    }

    /// Returns when nothing more can be written.
    pub async fn writing_ended(&self) {
        self.store().writing_ended().await;
    }

    /// Takes no new runs from here on. Runs that are under way go on.
    pub fn retire(&self) {
        self.world().retire();
    }

    /// Waits at most `patience` for the runs, approved calls and undos of this process. Stops the remaining tasks; the
    /// next start resumes their runs. Returns the number of runs that did not end.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.agent.drain(patience).await
    }

    /// Drops all tasks of this process at once, as a crash would. The next start resumes their runs.
    pub async fn abandon(&self) {
        self.world().abandon().await;
    }

    /// Waits until this process works on nothing and no job is due. For tests and benchmarks.
    pub async fn idle(&self) {
        let mut look = tokio::time::interval(IDLE_LOOK);
        loop {
            look.tick().await;
            let is_idle = self.world().tasks.is_idle();
            // A job that was just claimed is neither due nor yet a task.
            let newest = self.store().jobs(PageOf { after: None, limit: 100 }).await;
            let jobs = newest.map(|page| page.rows).unwrap_or_default();
            let now = self.now();
            let pending = |job: &JobRow| {
                job.status == JobStatus::Running || job.status == JobStatus::Ready && job.run_at <= now
            };
            if is_idle && !jobs.iter().any(pending) {
                return;
            }
        }
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        self.agent.world()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.world().store
    }

    pub(crate) fn recall(&self) -> &Arc<Recall> {
        &self.world().recall
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world().now()
    }

    pub(crate) fn access(&self) -> &AccessCache {
        &self.shared.access
    }

    pub(crate) fn has_app(&self, app: &str) -> bool {
        self.world().apps.get(&AppId::new(app)).is_some()
    }

    /// The app of this name, if the principal may use it.
    pub(crate) fn served_app(&self, principal: &Principal, app: &str) -> Result<Arc<ServedApp>, Error> {
        let app = AppId::new(app);
        let serving = self.world().apps.get(&app).filter(|_| principal.may_use(&app));
        serving.ok_or_else(|| self.unknown_app(Some(principal)))
    }

    /// The refusal of an app that there is not. The machine's own user, who needs no key, reads the names of all apps.
    pub(crate) fn unknown_app(&self, principal: Option<&Principal>) -> Error {
        let apps: Vec<String> = self.world().apps.all().keys().map(ToString::to_string).collect();
        let is_local = principal.is_none_or(|principal| principal.user().as_str() == LOCAL_USER);
        if self.has_keys() || !is_local || apps.is_empty() {
            return Error::NotFound { what: "app" };
        }
        Error::UnknownApp { apps }
    }

    /// The share of an app that is the principal's, and the app.
    pub(crate) fn share_of(&self, principal: &Principal, app: &str) -> Result<(Scope, Arc<App>), Error> {
        let app = Arc::clone(&self.served_app(principal, app)?.app);
        Ok((principal.scope(app.id.clone()), app))
    }
}
