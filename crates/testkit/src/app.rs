//! A whole server for a test: the real router on a real socket, a real database, and a scripted model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{Bus, Engine, Models, Parts, Provider};
use model::openai::ChatCompletions;
use model::{Endpoint, Timeouts};
use protocol::Ids;
use reqwest::{Client, Method, RequestBuilder};
use rusqlite::Connection;
use serde_json::Value;
use server::Limits;
use store::Sqlite;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frames::{Frame, Frames};
use crate::samples;
use crate::still::{CountingIds, StandingClock};
use crate::upstream::{Gate, Upstream};

/// Longest wait for anything in a test; a hang fails it instead of the whole suite.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a [`TestApp`] differs from the usual one. Its one app is called `test`.
pub struct Setup {
    /// The rest of `app.toml`, after the name.
    pub app: String,
    pub limits: Limits,
    pub timeouts: Timeouts,
    /// Tokens the model takes.
    pub window: u32,
    /// Calls the tool `meet` waits for.
    pub meet: usize,
    /// Whether there is a model at all.
    pub model: bool,
    /// What `title.md` says, if there is one.
    pub title: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            app: "tools = [\"echo\"]".into(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            window: 128_000,
            meet: 2,
            model: true,
            title: None,
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
    pub upstream: Upstream,
    /// What the tool `gated` waits for.
    pub gate: Gate,
    pub url: String,
    pub engine: Engine,
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
        if let Some(title) = &setup.title {
            std::fs::write(app.join("title.md"), title).expect("a title");
        }
        Self::open(folder, setup, Upstream::start().await, Arc::default()).await
    }

    async fn open(folder: TempDir, setup: Setup, upstream: Upstream, ids: Arc<CountingIds>) -> Self {
        let gate = Gate::new();
        let engine = engine(folder.path(), &setup, &upstream, (&gate, Arc::clone(&ids)));
        engine.start().await.expect("the engine starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, serving) = (CancellationToken::new(), TaskTracker::new());
        serving.spawn(server::serve(listener, engine.clone(), setup.limits, stop.clone()));
        serving.close();
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().expect("a client");
        Self { upstream, gate, url, engine, client, folder, setup, ids, stop, serving }
    }

    /// Stops and starts again on the same data, leaving runs where they were.
    pub async fn restart(self) -> Self {
        let Self { upstream, engine, folder, setup, ids, stop, serving, .. } = self;
        stop.cancel();
        serving.wait().await;
        engine.abandon().await;
        drop(engine);
        Self::open(folder, setup, upstream, ids).await
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

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The database, for looking into and for breaking.
    pub fn database(&self) -> Connection {
        let conn = Connection::open(self.data().join("rondo.db")).expect("the database opens");
        conn.busy_timeout(PATIENCE).expect("a time-out is set");
        conn
    }

    /// Runs a query that counts something.
    pub fn count(&self, sql: &str) -> i64 {
        self.database().query_row(sql, [], |row| row.get(0)).expect("the query counts")
    }
}

fn engine(
    folder: &Path,
    setup: &Setup,
    upstream: &Upstream,
    (gate, ids): (&Gate, Arc<CountingIds>),
) -> Engine {
    let clock = Arc::new(StandingClock);
    let bus = Arc::new(Bus::default());
    let store = Sqlite::open(&folder.join("data"), clock.clone(), bus.clone()).expect("the database opens");
    let endpoint = Endpoint {
        provider: "openai".into(),
        base_url: upstream.base_url(),
        key: None,
        timeouts: setup.timeouts,
    };
    let chat = Arc::new(ChatCompletions::new(&endpoint).expect("the endpoint is good"));
    let provider = Provider { chat, default_model: "test-model".into(), window: setup.window };
    let parts = Parts {
        store: Arc::new(store),
        bus,
        apps: app::load_all(&folder.join("apps")).expect("the app is good"),
        tools: samples::catalog(setup.meet, gate),
        models: if setup.model { Models::of(provider) } else { Models::none() },
        clock,
        ids: ids as Arc<dyn Ids>,
    };
    Engine::new(parts).expect("the tools exist")
}
