//! A real server with a data folder, an app and users of its own, in front of a scripted model.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::upstream::{Gate, Reply, Upstream};
use tokio::process::{Child, Command};

use super::process::Process;
use crate::stage::Trouble;

/// Below the range from which the system takes clients' ports, so that no client can sit on it while the server is
/// down.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const PORTS_TRIED: usize = 100;
/// Fewer than a user may follow at once, so that some are left for what the harness does on the side.
const READERS_PER_USER: usize = 900;
/// Each is read by several.
const THREADS_PER_USER: usize = 36;
const WAITING_RUNS_PER_USER: usize = 9;
/// Requests at once while the scene is set.
const AT_ONCE: usize = 16;
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_LOOK: Duration = Duration::from_millis(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// What makes the model wait, and with it the run.
const HOLD: &str = "Please hold the line.";
/// What makes the model speak piece by piece, as its gates are opened.
const SPEAK: &str = "Please speak at length.";

const CONFIGURATION: &str = "
[providers.openai]
first_byte_timeout_seconds = 600
idle_timeout_seconds = 600

[server]
max_streams_per_user = 1000
max_model_calls = 5000
max_model_calls_per_user = 1000
";

const APP: &str = "name = \"Load\"\n[loop]\nrun_timeout_seconds = 3600\n[limits]\nmax_running = 1000\n";

/// What an experiment is told.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) server: &'p Path,
    pub(crate) log: &'p Path,
    pub(crate) readers: usize,
}

pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    /// Tokens, one for each user.
    pub(crate) keys: Vec<String>,
    upstream: Upstream,
    server: Option<Child>,
    program: std::path::PathBuf,
    log: File,
    folder: TempDir,
}

/// A stream that somebody may follow: from this event on there is at least one more, and then silence.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) after: u64,
}

impl Host {
    /// A server that is ready, with as many users as so many readers need. `pieces` are what the model says when it is
    /// asked to speak at length, each after its gate.
    pub(crate) async fn start(
        place: &Place<'_>,
        readers: usize,
        pieces: Vec<(Gate, String)>,
    ) -> Result<Self, Trouble> {
        let folder = tempfile::tempdir()?;
        let app = folder.path().join("apps/load");
        std::fs::create_dir_all(&app)?;
        std::fs::write(app.join("app.toml"), APP)?;
        std::fs::write(app.join("instructions.md"), "You answer in a few words.\n")?;
        std::fs::write(folder.path().join("rondo.toml"), CONFIGURATION)?;
        let upstream = Upstream::start().await;
        let never = Gate::new();
        upstream.program(move |request| answer(request, &never, &pieces));
        let mut host = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)),
            client: Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?,
            keys: Vec::new(),
            upstream,
            server: None,
            program: place.server.to_path_buf(),
            log: File::create(place.log)?,
            folder,
        };
        for number in 0..=readers.div_ceil(READERS_PER_USER) {
            host.keys.push(host.add_key(&format!("user-{number}")).await?);
        }
        host.serve().await?;
        Ok(host)
    }

    /// Starts the server and says how long it took to be ready.
    pub(crate) async fn serve(&mut self) -> Result<Duration, Trouble> {
        let start = Instant::now();
        let mut command = self.command(&["serve"]);
        self.server = Some(command.stdout(Stdio::null()).stderr(self.log.try_clone()?).spawn()?);
        let url = self.url("/readyz");
        loop {
            if self.client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > READY_WITHIN {
                return Err(format!("the server is not ready after {} s", READY_WITHIN.as_secs()).into());
            }
            tokio::time::sleep(READY_LOOK).await;
        }
    }

    /// Ends the server where it stands.
    pub(crate) async fn kill(&mut self) -> Result<(), Trouble> {
        if let Some(mut server) = self.server.take() {
            server.kill().await?;
        }
        Ok(())
    }

    /// Ends the server, and complains if the model was asked anything that a provider would refuse.
    pub(crate) async fn end(mut self) -> Result<(), Trouble> {
        self.kill().await?;
        match self.upstream.violations().first() {
            None => Ok(()),
            Some(violation) => Err(format!("the model was asked wrongly: {violation}").into()),
        }
    }

    pub(crate) fn process(&self) -> Result<Process, Trouble> {
        let id = self.server.as_ref().and_then(Child::id);
        Ok(Process { id: id.ok_or("the server has ended by itself; its log says why")? })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Threads with something in them, and runs that wait for the model, of all users but the first.
    pub(crate) async fn channels(&self) -> Result<Vec<Channel>, Trouble> {
        let readers = || self.keys.iter().skip(1);
        let threads = readers().flat_map(|key| std::iter::repeat_n(key, THREADS_PER_USER));
        let threads = stream::iter(threads.map(|key| self.thread(key, "Hello"))).buffer_unordered(AT_ONCE);
        let mut channels: Vec<Channel> = threads.try_collect().await?;
        let runs = readers().flat_map(|key| std::iter::repeat_n(key, WAITING_RUNS_PER_USER));
        let runs = stream::iter(runs.map(|key| self.run(key, HOLD))).buffer_unordered(AT_ONCE);
        channels.extend(runs.try_collect::<Vec<Channel>>().await?);
        Ok(channels)
    }

    /// So many runs, of all users but the first, in which the model speaks at length.
    pub(crate) async fn speakers(&self, count: usize) -> Result<Vec<Channel>, Trouble> {
        let keys = self.keys.iter().skip(1).cycle().take(count);
        stream::iter(keys.map(|key| self.run(key, SPEAK))).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// So many runs, of all users but the first, that wait for the model.
    pub(crate) async fn held(&self, count: usize) -> Result<(), Trouble> {
        let keys = self.keys.iter().skip(1).cycle().take(count);
        let runs = stream::iter(keys.map(|key| self.run(key, HOLD))).buffer_unordered(AT_ONCE);
        runs.try_for_each(|_| std::future::ready(Ok(()))).await
    }

    /// How often the model was asked.
    pub(crate) fn asked(&self) -> usize {
        self.upstream.requests().len()
    }

    /// One thread of every user but the first in which the model has spoken at length.
    pub(crate) async fn long_threads(&self) -> Result<Vec<Channel>, Trouble> {
        let threads = self.keys.iter().skip(1).map(|key| self.thread(key, SPEAK));
        stream::iter(threads).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// A thread in which the message was answered; its last event is still to be read.
    async fn thread(&self, key: &str, message: &str) -> Result<Channel, Trouble> {
        let said = self.client.post(self.url("/v1/apps/load/runs"));
        let said =
            json_of(said.bearer_auth(key).json(&json!({ "message": message, "stream": false }))).await?;
        let id = text(&said, "threadId")?;
        let view = self.client.get(self.url(&format!("/v1/threads/{id}"))).bearer_auth(key);
        let last = json_of(view).await?.get("lastSeq").and_then(Value::as_u64).unwrap_or(0);
        Ok(Channel {
            path: format!("/v1/threads/{id}/events"),
            key: key.to_owned(),
            after: last.saturating_sub(1),
        })
    }

    /// A run that goes on; its first event has been read.
    async fn run(&self, key: &str, message: &str) -> Result<Channel, Trouble> {
        let said = self.client.post(self.url("/v1/apps/load/runs")).bearer_auth(key);
        let answer = said.json(&json!({ "message": message })).send().await?.error_for_status()?;
        let id = answer.headers().get("x-run-id").and_then(|value| value.to_str().ok());
        let id = id.ok_or("a run without an id")?;
        Ok(Channel { path: format!("/v1/runs/{id}/events"), key: key.to_owned(), after: 1 })
    }

    async fn add_key(&self, user: &str) -> Result<String, Trouble> {
        let made = self.command(&["keys", "add", user]).output().await?;
        if !made.status.success() {
            return Err(format!("no key for {user}: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().current_dir(folder).kill_on_drop(true).stdin(Stdio::null());
        command
            .env("RONDO_LISTEN", self.address.to_string())
            .env("RONDO_DATA", folder.join("data"))
            .env("RONDO_APPS", folder.join("apps"))
            .env("RONDO_DISCOVER", "false")
            .env("OPENAI_BASE_URL", self.upstream.base_url());
        command
    }
}

fn answer(request: &Value, never: &Gate, pieces: &[(Gate, String)]) -> Reply {
    let asked = request.to_string();
    if asked.contains(HOLD) {
        return Reply::stream().text("One moment. ").wait(never);
    }
    if asked.contains(SPEAK) {
        return pieces.iter().fold(Reply::stream(), |reply, (gate, text)| reply.wait(gate).text(text));
    }
    Reply::says("Good day.")
}

async fn json_of(request: RequestBuilder) -> Result<Value, Trouble> {
    Ok(request.send().await?.error_for_status()?.json().await?)
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Trouble> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| format!("no {name} in an answer").into())
}

fn free_port() -> Result<u16, Trouble> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(PORTS)).take(PORTS_TRIED);
    ports.find(free).ok_or_else(|| "there is no free port".into())
}
