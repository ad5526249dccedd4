//! A whole server for a test: the real router on a real socket, a real database, and a scripted model.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::{JwtIssuerConfig, JwtIssuers};
use memory::recall::Recall;
use model::{
    Capabilities, Embedder, Endpoint, Listing, ModelProvider, ModelRegistry, Price, Prices, ProviderKind,
    ProviderWire, Timeouts,
};
use protocol::{Ids, Stored};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use rusqlite::Connection;
use serde_json::Value;
use server::{Proxying, ServerLimits, ServerSettings};
use service::{AgentParts, Bus, CallShares, DEFAULT_DOCUMENT_BYTES, InProcess, Service, ServiceParts};

use store::{Boundary, StoreOptions};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::{Allowed, Catalog, Egress, ExternalAccess, McpHub, Secrets, TavilyConfig, WebSearchConfig};

use crate::boundary::Fuse;
use crate::database::{open_store, postgres_of};
use crate::frames::{Frame, Frames};
use crate::samples::{self, Arrivals};
use crate::still::{CountingIds, SettableClock};
use crate::upstream::{Gate, Upstream};

/// Longest wait for anything in a test; a hang fails it instead of the whole suite.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest wait for a data folder that a task still has open.
const FOLDER_PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait for a real model, which on a busy machine thinks for long.
const PATIENCE_WITH_REAL: Duration = Duration::from_secs(300);

/// The database's name in the data folder.
const DATABASE: &str = "rondo.db";

/// The key that tests give for Tavily.
pub const TAVILY_KEY: &str = "tvly-test";

/// How a [`TestApp`] differs from the usual one. Its one app is called `test`.
pub struct Setup {
    /// The rest of `app.toml`, after the name.
    pub app: String,
    pub limits: ServerLimits,
    pub timeouts: Timeouts,
    /// The wire the upstream is spoken to in.
    pub wire: ProviderWire,
    /// A real provider instead of the scripted upstream.
    pub base_url: Option<String>,
    /// The capabilities of the models.
    pub capabilities: Capabilities,
    /// The capabilities of the backup model, if it is something else.
    pub backup_capabilities: Option<Capabilities>,
    pub price: Option<Price>,
    /// Calls the tool `meet` waits for.
    pub meet: usize,
    /// Whether there is a model at all.
    pub model: bool,
    /// The text of `title.md`, if there is one.
    pub title: Option<String>,
    /// More files of the app, by name.
    pub files: Vec<(String, String)>,
    /// The embedder that makes vectors; without, everything is found by its words.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The hosts that tools may reach outside.
    pub reach: Reach,
    /// The fuse that ends the server, if it dies.
    pub fuse: Option<Fuse>,
    /// How many model calls there may be at once.
    pub model_calls: CallShares,
    /// Bytes of text that a user's documents may have.
    pub document_bytes: u64,
    /// The issuers of JWTs.
    pub issuers: Vec<JwtIssuerConfig>,
    /// Proxies in front of the server, and pages of other origins.
    pub proxying: Proxying,
    /// Whether runs continue with the version of the app that they began with.
    pub keeps_revisions: bool,
    pub clock: Arc<SettableClock>,
}

/// The hosts that an operator opens to tools. Nothing on this machine is open by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reach {
    /// Hosts and addresses.
    pub allow: Vec<String>,
    /// By name.
    pub secrets: Vec<(String, String)>,
    /// The base URL of Tavily; its key is `tvly-test`.
    pub tavily: Option<String>,
    pub searxng: Option<String>,
}

impl Reach {
    fn egress(&self) -> Egress {
        let mut allowed = Allowed::default();
        for entry in &self.allow {
            allowed.add(entry).expect("a host");
        }
        for url in self.tavily.iter().chain(&self.searxng) {
            allowed.add_url(url).expect("a URL");
        }
        Egress::new(allowed)
    }

    fn egress_tools(&self) -> ExternalAccess {
        let egress = self.egress();
        let secrets = Arc::new(Secrets::new(self.secrets.iter().cloned().collect()));
        let tavily = self.tavily.clone().map(|base_url| TavilyConfig { base_url, key: TAVILY_KEY.into() });
        let path = option_env!("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        let env = vec![("PATH".to_owned(), path.to_owned())];
        let mcp = Arc::new(McpHub::new(egress.clone(), Arc::clone(&secrets), env));
        ExternalAccess {
            egress,
            secrets,
            search: WebSearchConfig { tavily, searxng: self.searxng.clone() },
            mcp,
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            app: "tools = [\"echo\"]".into(),
            // Tests send many wrong keys from one address.
            limits: ServerLimits { failed_attempts_per_minute: NonZeroU32::MAX, ..ServerLimits::default() },
            timeouts: Timeouts::default(),
            wire: ProviderWire::Chat,
            base_url: None,
            capabilities: Capabilities::of_kind(ProviderKind::Cloud),
            backup_capabilities: None,
            price: None,
            meet: 2,
            model: true,
            title: None,
            files: Vec::new(),
            embedder: None,
            reach: Reach::default(),
            fuse: None,
            model_calls: CallShares::default(),
            document_bytes: DEFAULT_DOCUMENT_BYTES,
            issuers: Vec::new(),
            proxying: Proxying::default(),
            keeps_revisions: false,
            clock: Arc::default(),
        }
    }
}

impl Setup {
    /// The usual one, but for the rest of `app.toml`.
    pub fn app(app: &str) -> Self {
        Self { app: app.into(), ..Self::default() }
    }
}

pub struct TestApp {
    /// Serves `test-model`, and every other name that no server lists.
    pub upstream: Upstream,
    /// Serves `backup-model`.
    pub backup: Upstream,
    /// The gate that the tool `gated`, and those that act outside, wait for.
    pub gate: Gate,
    /// The calls that have reached the world outside, over restarts.
    pub arrivals: Arrivals,
    pub url: String,
    pub service: Service,
    client: Client,
    folder: TempDir,
    setup: Setup,
    ids: Arc<CountingIds>,
    stop: CancellationToken,
    serving: TaskTracker,
}

/// A response, read to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    /// Null when there was no JSON.
    pub body: Value,
}

impl TestApp {
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let app = folder.path().join("apps/test");
        std::fs::create_dir_all(&app).expect("an app folder");
        std::fs::write(app.join("app.toml"), format!("name = \"Test\"\n{}\n", setup.app)).expect("an app");
        std::fs::write(app.join("instructions.md"), "You are a test.\n").expect("instructions");
        for (name, text) in &setup.files {
            let file = app.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&app)).expect("a folder of the app");
            std::fs::write(file, text).expect("a file of the app");
        }
        if let Some(title) = &setup.title {
            std::fs::write(app.join("title.md"), title).expect("a title");
        }
        Stopped::open_on(folder, setup, Arc::default()).await.started().await
    }

    /// Stops and starts again on the same data, leaving runs where they were.
    pub async fn restart(self) -> Self {
        self.restart_with(|_| ()).await
    }

    /// Stops and starts again on the same data, with something else about the server.
    pub async fn restart_with(self, change: impl FnOnce(&mut Setup)) -> Self {
        let mut stopped = self.stop().await;
        change(&mut stopped.setup);
        stopped.started().await
    }

    /// Stops, leaving runs where they were.
    pub async fn stop(self) -> Stopped {
        let Self { upstream, backup, arrivals, service, setup, stop, serving, .. } = self;
        stop.cancel();
        serving.wait().await;
        service.abandon().await;
        drop(service);
        until_free(&self.folder.path().join("data")).await;
        Stopped { upstream, backup, arrivals, setup, folder: self.folder, ids: self.ids }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let bytes = response.bytes().await.expect("the body is readable");
        Answer { status, content_type, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Opens an event stream by a POST.
    pub async fn stream(&self, path: &str, body: &Value) -> Frames {
        self.open_stream(self.request(Method::POST, path).json(body)).await
    }

    /// Opens an event stream, from after an event if one is given.
    pub async fn follow(&self, path: &str, after: Option<u64>) -> Frames {
        let request = self.request(Method::GET, path);
        let request = match after {
            Some(id) => request.header("last-event-id", id.to_string()),
            None => request,
        };
        self.open_stream(request).await
    }

    async fn open_stream(&self, request: RequestBuilder) -> Frames {
        let response = request.send().await.expect("the server answers");
        let status = response.status();
        assert_eq!(status.as_u16(), 200, "{}", response.text().await.unwrap_or_default());
        Frames::new(response)
    }

    /// Sends a message to the app `test` and gives back all events of its run.
    pub async fn say(&self, message: &str) -> Vec<Frame> {
        self.stream("/v1/apps/test/runs", &serde_json::json!({ "message": message })).await.all().await
    }

    /// The setup that it was started with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// All events that are in the database, by thread and number.
    pub fn stored_log(&self) -> Vec<Stored> {
        let log = match postgres_of(&self.data()) {
            Some(address) => store::inspection::postgres_log(&address),
            None => store::inspection::file_log(&self.data()),
        };
        let log = log.expect("the log is readable");
        log.into_iter().map(|row| row.event).collect()
    }

    /// The database, for looking into and for breaking.
    pub fn database(&self) -> Connection {
        let conn = Connection::open(self.data().join(DATABASE)).expect("the database opens");
        conn.busy_timeout(PATIENCE).expect("a time-out is set");
        conn
    }

    /// Runs a query that counts something.
    pub fn count(&self, sql: &str) -> i64 {
        match postgres_of(&self.data()) {
            Some(address) => store::inspection::number_of(&address, sql).expect("the query counts"),
            None => self.database().query_row(sql, [], |row| row.get(0)).expect("the query counts"),
        }
    }
}

/// A server that is not running: its data, and the world around it.
pub struct Stopped {
    pub upstream: Upstream,
    pub backup: Upstream,
    pub arrivals: Arrivals,
    pub setup: Setup,
    folder: TempDir,
    ids: Arc<CountingIds>,
}

impl Stopped {
    async fn open_on(folder: TempDir, setup: Setup, ids: Arc<CountingIds>) -> Self {
        let (upstream, backup) = (Upstream::start().await, Upstream::start().await);
        Self { upstream, backup, arrivals: Arrivals::default(), setup, folder, ids }
    }

    /// Copies the data into a folder of its own, where what has arrived outside has arrived as well.
    pub async fn copy(&self, setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let database = Connection::open(self.data().join(DATABASE)).expect("the database opens");
        // The connection that used it before may still be at it, and SQLite does not wait for that.
        let is_busy = || {
            let busy = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
            busy.expect("all is in one file")
        };
        while is_busy() {
            tokio::task::yield_now().await;
        }
        copy_folder(&self.folder.path().join("apps"), &folder.path().join("apps"));
        std::fs::create_dir(folder.path().join("data")).expect("a data folder");
        let copied = folder.path().join("data").join(DATABASE);
        std::fs::copy(self.data().join(DATABASE), copied).expect("the database is copied");
        let copied = Self::open_on(folder, setup, Arc::clone(&self.ids)).await;
        Self { arrivals: self.arrivals.copy(), ..copied }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    async fn started(self) -> TestApp {
        match self.start().await {
            Ok(app) => app,
            Err(_) => panic!("the service starts"),
        }
    }

    /// Starts; what is left if the fuse blew before the server was ready.
    pub async fn start(self) -> Result<TestApp, Box<Stopped>> {
        let Self { upstream, backup, arrivals, setup, folder, ids } = self;
        let gate = Gate::new();
        let tools = samples::catalog((setup.meet, setup.fuse.as_ref()), &gate, &arrivals)
            .with_external_access(setup.reach.egress_tools());
        let service = service(folder.path(), &setup, (&upstream, &backup), (tools, Arc::clone(&ids)));
        if let Err(error) = service.start().await {
            assert!(setup.fuse.as_ref().is_some_and(Fuse::is_blown), "the service starts: {error}");
            service.abandon().await;
            return Err(Box::new(Self { upstream, backup, arrivals, setup, folder, ids }));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
        let issuers =
            JwtIssuers::new(setup.issuers.clone(), setup.clock.clone()).expect("the issuers are good");
        let settings = ServerSettings {
            limits: setup.limits,
            proxying: setup.proxying.clone(),
            issuers: Some(Arc::new(issuers)),
            ..ServerSettings::default()
        };
        serving.spawn(server::serve(listener, service.clone(), settings, stop.clone()));
        serving.close();
        let patience = if setup.base_url.is_some() { PATIENCE_WITH_REAL } else { PATIENCE };
        let client = plain_client().timeout(patience).build().expect("a client");
        Ok(TestApp {
            upstream,
            backup,
            gate,
            arrivals,
            url,
            service,
            client,
            folder,
            setup,
            ids,
            stop,
            serving,
        })
    }
}

/// A client for servers on this machine. It reads no certificates, which would take longer than most tests.
pub fn plain_client() -> ClientBuilder {
    Client::builder().no_proxy().tls_certs_only([])
}

/// Waits until no task has the data folder open any more, but not for ever: a task that still answers a client holds it
/// for a moment, and ends only while others may run.
async fn until_free(data: &Path) {
    let begin = Instant::now();
    let Ok(lock) = std::fs::File::open(data.join("lock")) else { return };
    while lock.try_lock().is_err() && begin.elapsed() < FOLDER_PATIENCE {
        tokio::task::yield_now().await;
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder is readable") {
        let entry = entry.expect("an entry is readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}

fn service(
    folder: &Path,
    setup: &Setup,
    upstreams: (&Upstream, &Upstream),
    (tools, ids): (Catalog, Arc<CountingIds>),
) -> Service {
    let clock = Arc::clone(&setup.clock);
    let bus = Arc::new(Bus::default());
    let boundary = setup.fuse.clone().map(|fuse| Arc::new(fuse) as Arc<dyn Boundary>);
    // Tests count commits, so each has its own.
    let delta_pause = Some(Duration::ZERO);
    let options = StoreOptions { boundary, delta_pause, ..StoreOptions::default() };
    let store =
        open_store(&folder.join("data"), clock.clone(), bus.clone(), options).expect("the database opens");
    stand_still(folder);

    let agent = AgentParts {
        recall: Arc::new(Recall::new(store.clone(), setup.embedder.clone())),
        store,
        bus,
        apps: app::load_all(&folder.join("apps")).expect("the app is good"),
        app_revisions: setup.keeps_revisions.then(|| folder.join("app-revisions")),
        tools,
        models: if setup.model { models(setup, upstreams) } else { ModelRegistry::default() },
        clock,
        ids: ids as Arc<dyn Ids>,
        retention: Duration::from_secs(7 * 24 * 60 * 60),
        model_calls: setup.model_calls,
        undo_retention: Duration::from_secs(30 * 24 * 60 * 60),
    };
    let parts = ServiceParts {
        agent,
        vault_key: [7; 32],
        extractor: Arc::new(InProcess),
        document_bytes: setup.document_bytes,
        max_running: 16,
    };
    Service::new(parts).expect("the tools exist")
}

/// The marks around data in prompts are made of a secret; here it is the same every time.
fn stand_still(folder: &Path) {
    if let Some(address) = postgres_of(&folder.join("data")) {
        let statement = "UPDATE secrets SET value = decode(repeat('00', 32), 'hex')";
        store::inspection::execute(&address, statement).expect("the secret is set");
        return;
    }
    let database = Connection::open(folder.join("data").join(DATABASE)).expect("the database opens");
    database.execute("UPDATE secrets SET value = zeroblob(32)", []).expect("the secret is set");
}

/// `test-model` at the upstream, `backup-model` at its backup.
fn models(setup: &Setup, (upstream, backup): (&Upstream, &Upstream)) -> ModelRegistry {
    let provider = |name: &str, url: &str, open| ModelProvider {
        open,
        capabilities: setup.capabilities.clone(),
        ..provider(name, setup.wire, url, setup.timeouts)
    };
    let listing = |name: &str, provider: &str| Listing {
        name: name.into(),
        provider: provider.into(),
        id: name.into(),
        kind: ProviderKind::Cloud,
        capabilities: setup.capabilities.clone(),
        price: setup.price,
        extra: serde_json::Map::new(),
    };
    let mut spare = listing("backup-model", "backup");
    spare.capabilities = setup.backup_capabilities.clone().unwrap_or(spare.capabilities);
    let listings = vec![listing("test-model", "openai"), spare];
    let real = setup.base_url.as_ref();
    let main = real.map_or_else(|| base_url(upstream, setup.wire), String::clone);
    let backup_url = base_url(backup, setup.wire);
    let providers = vec![provider("openai", &main, true), provider("backup", &backup_url, false)];
    ModelRegistry::new(providers, listings, Some("test-model".into()))
}

fn base_url(upstream: &Upstream, wire: ProviderWire) -> String {
    match wire {
        ProviderWire::Chat | ProviderWire::Responses | ProviderWire::Anthropic(_) => upstream.base_url(),
        ProviderWire::Ollama => upstream.root_url(),
    }
}

fn provider(name: &str, wire: ProviderWire, base_url: &str, timeouts: Timeouts) -> ModelProvider {
    let endpoint = Endpoint { provider: name.into(), base_url: base_url.into(), key: None, timeouts };
    ModelProvider {
        name: name.into(),
        wire: Some(wire),
        kind: ProviderKind::Cloud,
        chat: model::connect(wire, &endpoint).expect("the endpoint is good"),
        open: true,
        known: false,
        capabilities: Capabilities::of_kind(ProviderKind::Cloud),
        prices: Prices::Unknown,
    }
}

/// One open provider at this address, whose default is `test-model`.
pub fn registry(base_url: &str) -> ModelRegistry {
    let provider = provider("openai", ProviderWire::Chat, base_url, Timeouts::default());
    ModelRegistry::new(vec![provider], Vec::new(), Some("test-model".into()))
}
