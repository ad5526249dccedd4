//! The handles that runs, jobs and requests share: where to read and write, whom to ask, and what time it is.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use app::{App, Apps, Problem};
use jiff::Timestamp;
use memory::recall::Recall;
use model::{Counter, Model, ModelRegistry as Models};
use protocol::{AppId, Clock, Ids, Scope};
use store::{Publish, Store, WatchedApps, WatchedWebhook};
use tokio::sync::watch;
use tools::{Catalog, Vault};

use crate::apps::ServedApps;
use crate::gate::{CallGate, CallPlace, CallShares};
use crate::live::Bus;
use crate::sweep::Sweeper;
use crate::tasks::Tasks;

/// The parts that an agent is made of. `cli` puts them together.
pub struct AgentParts {
    pub store: Store,
    /// The bus that the store publishes to.
    pub bus: Arc<Bus>,
    pub apps: Apps,
    /// The folder into which files of earlier versions of apps are unpacked, for runs that began with them. Without
    /// such a folder, every run continues with the app as it is then.
    pub app_revisions: Option<PathBuf>,
    pub tools: Catalog,
    pub models: Models,
    /// Over the same store.
    pub recall: Arc<Recall>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    /// How long the deltas of a run are kept after its end. Until then a reader can resume exactly.
    pub retention: Duration,
    /// Model calls at once. More wait their turn, as when a start takes up thousands of runs.
    pub model_calls: CallShares,
    /// How long what a tool deleted can be brought back.
    pub undo_retention: Duration,
}

/// All handles of one process. It is shared as `Arc<World>`, so that each run, job and request holds one pointer.
pub struct World {
    pub store: Store,
    pub bus: Arc<Bus>,
    pub apps: ServedApps,
    pub catalog: Catalog,
    /// Opens the credentials of users.
    pub vault: Arc<dyn Vault>,
    pub models: Models,
    pub recall: Arc<Recall>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub tasks: Arc<Tasks>,
    pub sweeper: Sweeper,
    /// Gives each model call a place, and limits the number of calls at once.
    pub(crate) model_calls: Arc<CallGate>,
    /// Counts tokens where no model is configured.
    pub(crate) counter: Counter,
    /// The secret from which marks of data in prompts are made. Only this server knows it. Read at the start.
    secret: OnceLock<[u8; 32]>,
    /// Counts how often other nodes have changed keys or sessions.
    pub access_changed: watch::Sender<u64>,
    /// Whether this process takes new runs, and has taken up those that an earlier process left.
    ready: AtomicBool,
}

impl World {
    /// Fails if an app names a tool that does not exist, or a model that it may not use.
    pub(crate) fn new(parts: AgentParts, vault: Arc<dyn Vault>) -> Result<Self, Problem> {
        let apps = ServedApps::new(parts.apps, parts.app_revisions, (&parts.tools, &parts.models))?;
        let model_calls = CallGate::new(parts.model_calls, parts.models.provider_count());
        let (store, clock) = (parts.store, parts.clock);
        let tasks = Arc::new(Tasks::default());
        let sweeper = Sweeper::new(
            store.clone(),
            Arc::clone(&clock),
            Arc::clone(&tasks),
            parts.retention,
            parts.undo_retention,
        );
        Ok(Self {
            store,
            bus: parts.bus,
            apps,
            catalog: parts.tools,
            vault,
            models: parts.models,
            recall: parts.recall,
            clock,
            ids: parts.ids,
            tasks,
            sweeper,
            model_calls: Arc::new(model_calls),
            counter: Counter::default(),
            secret: OnceLock::new(),
            access_changed: watch::Sender::default(),
            ready: AtomicBool::default(),
        })
    }

    /// Whether this process takes new runs: not before it has taken up those that an earlier process left, not once it
    /// retires, and not when nothing can be written any more.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && self.store.is_open()
    }

    pub(crate) fn become_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Takes no new runs from here on. Runs that are under way go on.
    pub fn retire(&self) {
        self.ready.store(false, Ordering::Release);
    }

    /// Drops all that this process does where it stands, as a crash would; the next start takes it up.
    pub async fn abandon(&self) {
        self.tasks.abandon().await;
        if let Some(hub) = self.catalog.hub() {
            hub.close().await;
        }
    }

    /// Says to the store which webhooks the apps of now have. Called whenever an app is served anew, or no longer.
    pub fn watch_webhooks(&self) {
        let watched = |webhook: &app::Webhook| WatchedWebhook {
            name: webhook.name.name.clone(),
            events: webhook.events.clone(),
        };
        let all = self.apps.all();
        let with_webhooks = all.iter().filter(|(_, served)| !served.app.webhooks.is_empty());
        let webhooks = with_webhooks
            .map(|(id, served)| (id.clone(), served.app.webhooks.iter().map(watched).collect()))
            .collect();
        self.store.watch_webhooks(WatchedApps { webhooks, ids: Arc::clone(&self.ids) });
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The app of this id, if it is served.
    pub fn app(&self, app: &AppId) -> Option<Arc<App>> {
        self.apps.get(app).map(|serving| Arc::clone(&serving.app))
    }

    /// The models of an app: the one wanted, its own or the default one, then those for when it fails.
    pub fn models_for(&self, app: &App, wanted: Option<&str>) -> Vec<Arc<Model>> {
        let first = self.models.name(wanted.or(app.model.as_deref()));
        let mut chain: Vec<Arc<Model>> = Vec::new();
        for name in first.iter().chain(&app.fallbacks) {
            let Some(model) = self.models.find(name) else {
                tracing::warn!(app = %app.id, model = name, "no provider serves this model, so the app does not use it; add it to rondo.toml or correct app.toml");
                continue;
            };
            if !chain.iter().any(|other| other.name() == model.name()) {
                chain.push(model);
            }
        }
        chain
    }

    /// The first model of the chain whose provider is not being left alone, or the first one if all are.
    pub(crate) fn model_for_job(&self, app: &App, wanted: Option<&str>) -> Option<Arc<Model>> {
        let models = self.models_for(app, wanted);
        models.iter().find(|model| model.health.is_closed()).or(models.first()).cloned()
    }

    /// Reads what the marks of data are made of.
    pub(crate) async fn read_secret(&self) -> Result<(), store::Error> {
        let secret = self.store.secret().await?;
        let _ = self.secret.set(secret); // each read gives the same
        Ok(())
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        self.secret.get().unwrap_or(&[0; 32])
    }

    /// A place for a model call of background work. Runs and jobs share these places.
    pub(crate) async fn model_place(&self, scope: &Scope, model: &Model) -> CallPlace {
        self.model_calls.place(&scope.user, &model.listing.provider).await
    }

    /// Wakes the loop that looks for jobs. Each commit that adds work does so by itself.
    pub(crate) fn notice_jobs(&self) {
        self.bus.publish_work();
    }
}
