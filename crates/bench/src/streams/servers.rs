//! The processes of the benchmark: the upstream for the whole time, and one server under test at a time.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::callgrind;
use super::client::{PlainClient, PlainRequest};
use super::load::{LoadThread, ServerKind};
use super::postgres::{BenchPostgres, BenchSchema};
use super::process::{ChildProcess, CorePair, CoreSide, free_address};
use super::script::AnswerScript;
use super::upstream::{SCRIPT_PATH, UpstreamCounts};

/// A server that is not ready by then will never be.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The time for a server under callgrind, which is fifty times slower.
const COUNTED_READY_WITHIN: Duration = Duration::from_secs(300);
const READY_POLL: Duration = Duration::from_millis(1);
/// Limits that only a benchmark with thousands of clients on one machine needs.
const CONFIGURATION: &str = "[server]\nmax_streams_per_user = 6000\nmax_model_calls = 6000\n\
    max_model_calls_per_user = 6000\n";
/// The path that says whether the process lives.
const HEALTH_PATH: &str = "/healthz";
const KEYS_PATH: &str = "/v1/admin/keys";
const THREADS_PATH: &str = "/v1/apps/studio/threads";
const LOG_FILE: &str = "server.log";
const DATA_FOLDER: &str = "data";

/// How a server is started, where that differs from the usual.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ServerStart<'s> {
    /// Users to make. With no user, the server asks for no key.
    pub(super) users: usize,
    /// Rondo's shortest time between two commits of deltas.
    pub(super) delta_pause_ms: Option<u64>,
    /// Whether its instructions are counted: it runs under callgrind, with one thread for requests.
    pub(super) is_counted: bool,
    /// The data folder of Rondo, if it is not an empty one.
    pub(super) data: Option<&'s Path>,
    /// The database of Rondo, if it is not in the data folder.
    pub(super) schema: Option<&'s BenchSchema>,
    /// With a key of the vault, the server is a node, which shares its database with others.
    pub(super) vault_key: Option<&'s str>,
    /// The folder of apps, if they are not the built-in ones.
    pub(super) apps: Option<&'s Path>,
}

/// The parts that are the same for all scenarios.
pub(super) struct StreamWorld {
    /// The program of the benchmark, which also plays the roles.
    bench: PathBuf,
    rondo: PathBuf,
    cores: Option<CorePair>,
    upstream: ChildProcess,
    upstream_address: SocketAddr,
    postgres: Option<BenchPostgres>,
    _folder: TempDir,
}

/// A server under test. It is killed, and its folder removed, when it is dropped.
pub(super) struct ServerUnderTest {
    pub(super) kind: ServerKind,
    pub(super) address: SocketAddr,
    pub(super) process: ChildProcess,
    /// From the start of the process to its first good answer.
    pub(super) ready: Duration,
    keys: Vec<Rc<str>>,
    /// Threads that were made so far.
    threads: Cell<usize>,
    folder: TempDir,
}

impl StreamWorld {
    /// Starts the upstream.
    pub(super) async fn start(rondo: PathBuf, cores: Option<CorePair>) -> Result<Self, String> {
        let bench = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let folder = temporary_folder()?;
        let upstream_address = free_address()?;
        let mut command = Command::new(&bench);
        command.args(["role", "upstream", &upstream_address.port().to_string()]);
        let place = cores.map(|cores| (cores, CoreSide::Load));
        let mut upstream = ChildProcess::start(&mut command, place, &folder.path().join(LOG_FILE))?;
        wait_ready(&mut upstream, upstream_address, Some(SCRIPT_PATH), READY_WITHIN).await?;
        Ok(Self { bench, rondo, cores, upstream, upstream_address, postgres: None, _folder: folder })
    }

    /// Adds a PostgreSQL.
    pub(super) fn with_postgres(self, postgres: Option<BenchPostgres>) -> Self {
        Self { postgres, ..self }
    }

    pub(super) fn postgres(&self) -> Result<&BenchPostgres, String> {
        self.postgres.as_ref().ok_or_else(|| "there is no PostgreSQL in this measurement".into())
    }

    pub(super) fn upstream_id(&self) -> u32 {
        self.upstream.id()
    }

    pub(super) fn upstream_address(&self) -> SocketAddr {
        self.upstream_address
    }

    /// Sets what the upstream answers from now on, and clears its counters.
    pub(super) async fn set_script(&self, script: AnswerScript) -> Result<(), String> {
        let body = json!(script).to_string();
        let request = PlainRequest::json("PUT", SCRIPT_PATH, None, &body);
        PlainClient::new(self.upstream_address).ask(&request).await.map(drop)
    }

    pub(super) async fn upstream_counts(&self) -> Result<UpstreamCounts, String> {
        let request = PlainRequest::json("GET", SCRIPT_PATH, None, "");
        let counts = PlainClient::new(self.upstream_address).ask(&request).await?;
        serde_json::from_slice(&counts).map_err(|error| format!("the upstream gave no counts: {error}"))
    }

    /// Starts a server with an empty data folder, and makes users. With no user, the server asks for no key.
    pub(super) async fn start_server(
        &self,
        kind: ServerKind,
        users: usize,
    ) -> Result<ServerUnderTest, String> {
        self.start_server_as(kind, ServerStart { users, ..ServerStart::default() }).await
    }

    /// Starts a server with an empty data folder.
    pub(super) async fn start_server_as(
        &self,
        kind: ServerKind,
        start: ServerStart<'_>,
    ) -> Result<ServerUnderTest, String> {
        let folder = temporary_folder()?;
        let address = free_address()?;
        let mut command = match kind {
            ServerKind::Rondo | ServerKind::RondoPostgres => {
                self.rondo_command(folder.path(), address, start)?
            }
            ServerKind::Floor | ServerKind::Proxy => {
                self.role_command(kind, folder.path(), address, start)?
            }
        };
        let place = self.cores.map(|cores| (cores, CoreSide::Server));
        let begun = Instant::now();
        let mut process = ChildProcess::start(&mut command, place, &folder.path().join(LOG_FILE))?;
        let health = kind.is_rondo().then_some(HEALTH_PATH);
        let within = if start.is_counted { COUNTED_READY_WITHIN } else { READY_WITHIN };
        wait_ready(&mut process, address, health, within).await?;
        let ready = begun.elapsed();
        let mut server = ServerUnderTest {
            kind,
            address,
            process,
            ready,
            keys: Vec::new(),
            threads: Cell::new(0),
            folder,
        };
        if kind.is_rondo() && start.users > 0 {
            server.make_users(start.users).await?;
        }
        Ok(server)
    }

    fn rondo_command(
        &self,
        folder: &Path,
        address: SocketAddr,
        start: ServerStart<'_>,
    ) -> Result<Command, String> {
        let file = folder.join("rondo.toml");
        let pause = start.delta_pause_ms.map(|pause| format!("delta_pause_ms = {pause}\n"));
        let configuration = format!("{CONFIGURATION}{}", pause.unwrap_or_default());
        std::fs::write(&file, configuration).map_err(|error| format!("cannot write: {error}"))?;
        let mut command = program_command(&self.rondo, start);
        // Settings of the caller are no part of the measurement. There is no folder `apps`, so that the built-in apps
        // are served.
        command.arg("serve").env_clear().current_dir(folder);
        if start.is_counted {
            command.env("TOKIO_WORKER_THREADS", "1").envs(callgrind::environment());
        }
        command.env("HOME", folder).env("RONDO_CONFIG", file);
        command
            .env("RONDO_LISTEN", address.to_string())
            .env("RONDO_DATA", start.data.map_or_else(|| folder.join(DATA_FOLDER), Path::to_owned));
        command.envs(start.schema.map(|schema| ("RONDO_STORE", &schema.url)));
        command.envs(start.vault_key.map(|key| ("RONDO_VAULT_KEY", key)));
        command.envs(start.apps.map(|apps| ("RONDO_APPS", apps)));
        command.env("RONDO_MODEL", "gpt-4o-mini").env("OPENAI_API_KEY", "sk-test");
        command.env("OPENAI_BASE_URL", format!("http://{}/v1", self.upstream_address));
        Ok(command)
    }

    fn role_command(
        &self,
        kind: ServerKind,
        folder: &Path,
        address: SocketAddr,
        start: ServerStart<'_>,
    ) -> Result<Command, String> {
        let data = folder.join(DATA_FOLDER);
        std::fs::create_dir(&data).map_err(|error| format!("cannot make a folder: {error}"))?;
        let mut command = program_command(&self.bench, start);
        command.args(["role", kind.name(), &address.port().to_string(), &self.upstream_address.to_string()]);
        command.arg(data);
        Ok(command)
    }
}

/// A command that begins with a program, under callgrind if its instructions are counted.
fn program_command(program: &Path, start: ServerStart<'_>) -> Command {
    if start.is_counted { callgrind::command(program) } else { Command::new(program) }
}

impl ServerUnderTest {
    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join(DATA_FOLDER)
    }

    /// The key of a user, if there are users.
    pub(super) fn key(&self, user: usize) -> Option<Rc<str>> {
        self.keys.get(user % self.keys.len().max(1)).cloned()
    }

    /// Lets this server know the users of another one, which has the same database.
    pub(super) fn use_keys(&mut self, keys: &[Rc<str>]) {
        self.keys = keys.to_vec();
    }

    pub(super) fn keys(&self) -> &[Rc<str>] {
        &self.keys
    }

    /// Makes `count` conversations, which belong to the users in turn.
    pub(super) async fn new_threads(&self, count: usize) -> Result<Vec<LoadThread>, String> {
        let (mut client, mut threads) = (PlainClient::new(self.address), Vec::with_capacity(count));
        for user in 0..count {
            threads.push(self.new_thread(&mut client, user).await?);
        }
        Ok(threads)
    }

    /// One new conversation of a user.
    pub(super) async fn new_thread(
        &self,
        client: &mut PlainClient,
        user: usize,
    ) -> Result<LoadThread, String> {
        let (key, number) = (self.key(user), self.threads.get());
        self.threads.set(number + 1);
        let id = match self.kind {
            ServerKind::Rondo | ServerKind::RondoPostgres => {
                let request = PlainRequest::json("POST", THREADS_PATH, key.as_deref(), "{}");
                let thread = client.ask_json(&request).await?;
                let id = thread.get("id").and_then(Value::as_str).map(str::to_owned);
                id.ok_or("the server gave no id of a thread")?
            }
            ServerKind::Floor | ServerKind::Proxy => format!("thread-{number}"),
        };
        Ok(LoadThread { id: Some(id), key })
    }

    /// The server's own control token makes keys over the admin API, because a process for each key would take longer
    /// than the measurement.
    async fn make_users(&mut self, users: usize) -> Result<(), String> {
        let file = self.data().join("control.json");
        let text =
            std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let control: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let token = control.get("token").and_then(Value::as_str).ok_or("the server has no control token")?;
        let mut client = PlainClient::new(self.address);
        for number in 0..users {
            let body =
                json!({ "user": format!("user-{number}"), "app": "studio", "admin": false }).to_string();
            let made = client.ask_json(&PlainRequest::json("POST", KEYS_PATH, Some(token), &body)).await?;
            let key = made.get("token").and_then(Value::as_str).ok_or("the server gave no key")?;
            self.keys.push(key.into());
        }
        Ok(())
    }
}

/// Waits until a process accepts connections or, with a path, answers a request.
async fn wait_ready(
    process: &mut ChildProcess,
    address: SocketAddr,
    path: Option<&str>,
    within: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < within {
        process.check_alive()?;
        let is_ready = match path {
            Some(path) => {
                let request = PlainRequest::json("GET", path, None, "");
                PlainClient::new(address).send(&request).await == Ok(200)
            }
            None => TcpStream::connect(address).await.is_ok(),
        };
        if is_ready {
            return Ok(());
        }
        sleep(READY_POLL).await;
    }
    let seconds = within.as_secs();
    Err(format!("a server is not ready after {seconds} s; its log ends with:\n{}", process.log_tail()))
}

fn temporary_folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))
}
