//! A real server with a data folder, an app and users of its own, in front of a scripted model.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::upstream::{Gate, Reply, Upstream};

use super::process::Process;
use crate::server::{Launch, ServerProcess, free_port};
use crate::stage::{Starts, TortureError};

/// Fewer than a user may follow at once, so that some are left for what the harness does on the side.
const READERS_PER_USER: usize = 900;
/// Each is read by several.
const THREADS_PER_USER: usize = 36;
const WAITING_RUNS_PER_USER: usize = 9;
/// Requests at once while the scene is set.
const AT_ONCE: usize = 16;
const READY_WITHIN: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The message that makes the model wait, and with it the run.
const HOLD: &str = "Please hold the line.";
/// The message that makes the model speak piece by piece, as its gates are opened.
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

/// The server, its log and the number of readers for an experiment.
#[derive(Clone, Copy)]
pub(crate) struct LoadPlace<'p> {
    pub(crate) server: &'p Path,
    pub(crate) log: &'p Path,
    pub(crate) readers: usize,
}

pub(crate) struct LoadHost {
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    /// Tokens, one for each user.
    pub(crate) keys: Vec<String>,
    upstream: Upstream,
    server: ServerProcess,
    /// Removed with the host.
    _folder: TempDir,
}

/// A stream that a reader may follow: from this event on there is at least one more, and then silence.
#[derive(Debug, Clone)]
pub(crate) struct LoadChannel {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) after: u64,
}

impl LoadHost {
    /// A server that is ready, with as many users as its readers need. `pieces` are what the model says when it is
    /// asked to speak at length, each after its gate.
    pub(crate) async fn start(
        place: &LoadPlace<'_>,
        readers: usize,
        pieces: Vec<(Gate, String)>,
    ) -> Result<Self, TortureError> {
        let folder = tempfile::tempdir()?;
        let app = folder.path().join("apps/load");
        std::fs::create_dir_all(&app)?;
        std::fs::write(app.join("app.toml"), APP)?;
        std::fs::write(app.join("instructions.md"), "You answer in a few words.\n")?;
        std::fs::write(folder.path().join("rondo.toml"), CONFIGURATION)?;
        let upstream = Upstream::start().await;
        let never = Gate::new();
        upstream.program(move |request| answer(request, &never, &pieces));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port(&mut Rng::new())?));
        let launch = launch(place, folder.path(), address, &upstream);
        std::fs::write(place.log, "")?;
        let mut keys = Vec::new();
        for number in 0..=readers.div_ceil(READERS_PER_USER) {
            keys.push(launch.add_key(&[&format!("user-{number}")]).await?);
        }
        let mut host = Self {
            address,
            client: testkit::plain_client().timeout(REQUEST_TIMEOUT).build()?,
            keys,
            upstream,
            server: ServerProcess::new(launch, Starts::default())?,
            _folder: folder,
        };
        host.serve().await?;
        Ok(host)
    }

    /// Starts the server and says how long it took to be ready.
    pub(crate) async fn serve(&mut self) -> Result<Duration, TortureError> {
        let start = Instant::now();
        self.server.start()?;
        if self.server.wait_until_ready(READY_WITHIN).await? {
            return Ok(start.elapsed());
        }
        Err(format!("the server is not ready after {} s", READY_WITHIN.as_secs()).into())
    }

    /// Ends the server where it stands.
    pub(crate) async fn kill(&mut self) -> Result<(), TortureError> {
        self.server.kill().await
    }

    /// Ends the server, and complains if the model was asked anything that a provider would refuse.
    pub(crate) async fn end(mut self) -> Result<(), TortureError> {
        self.kill().await?;
        match self.upstream.violations().first() {
            None => Ok(()),
            Some(violation) => Err(format!("the model was asked wrongly: {violation}").into()),
        }
    }

    pub(crate) fn process(&self) -> Result<Process, TortureError> {
        let id = self.server.process_id();
        Ok(Process { id: id.ok_or("the server has ended by itself; its log says why")? })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Threads with something in them, and runs that wait for the model, of all users but the first.
    pub(crate) async fn channels(&self) -> Result<Vec<LoadChannel>, TortureError> {
        let readers = || self.keys.iter().skip(1);
        let threads = readers().flat_map(|key| std::iter::repeat_n(key, THREADS_PER_USER));
        let threads = stream::iter(threads.map(|key| self.thread(key, "Hello"))).buffer_unordered(AT_ONCE);
        let mut channels: Vec<LoadChannel> = threads.try_collect().await?;
        let runs = readers().flat_map(|key| std::iter::repeat_n(key, WAITING_RUNS_PER_USER));
        let runs = stream::iter(runs.map(|key| self.run(key, HOLD))).buffer_unordered(AT_ONCE);
        channels.extend(runs.try_collect::<Vec<LoadChannel>>().await?);
        Ok(channels)
    }

    /// Begins `count` runs, of all users but the first, in which the model speaks at length.
    pub(crate) async fn speakers(&self, count: usize) -> Result<Vec<LoadChannel>, TortureError> {
        let keys = self.keys.iter().skip(1).cycle().take(count);
        stream::iter(keys.map(|key| self.run(key, SPEAK))).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Begins `count` runs, of all users but the first, that wait for the model.
    pub(crate) async fn hold_runs(&self, count: usize) -> Result<(), TortureError> {
        let keys = self.keys.iter().skip(1).cycle().take(count);
        let runs = stream::iter(keys.map(|key| self.run(key, HOLD))).buffer_unordered(AT_ONCE);
        runs.try_for_each(|_| std::future::ready(Ok(()))).await
    }

    /// How often the model was asked.
    pub(crate) fn count_model_calls(&self) -> usize {
        self.upstream.requests().len()
    }

    /// One thread of every user but the first in which the model has spoken at length.
    pub(crate) async fn long_threads(&self) -> Result<Vec<LoadChannel>, TortureError> {
        let threads = self.keys.iter().skip(1).map(|key| self.thread(key, SPEAK));
        stream::iter(threads).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// A thread in which the message was answered; its last event is still to be read.
    async fn thread(&self, key: &str, message: &str) -> Result<LoadChannel, TortureError> {
        let said = self.client.post(self.url("/v1/apps/load/runs"));
        let said =
            json_of(said.bearer_auth(key).json(&json!({ "message": message, "stream": false }))).await?;
        let id = text(&said, "threadId")?;
        let view = self.client.get(self.url(&format!("/v1/threads/{id}"))).bearer_auth(key);
        let last = json_of(view).await?.get("lastSeq").and_then(Value::as_u64).unwrap_or(0);
        Ok(LoadChannel {
            path: format!("/v1/threads/{id}/events"),
            key: key.to_owned(),
            after: last.saturating_sub(1),
        })
    }

    /// A run that continues; its first event has been read.
    async fn run(&self, key: &str, message: &str) -> Result<LoadChannel, TortureError> {
        let said = self.client.post(self.url("/v1/apps/load/runs")).bearer_auth(key);
        let answer = said.json(&json!({ "message": message })).send().await?.error_for_status()?;
        let id = answer.headers().get("x-run-id").and_then(|value| value.to_str().ok());
        let id = id.ok_or("a run without an id")?;
        Ok(LoadChannel { path: format!("/v1/runs/{id}/events"), key: key.to_owned(), after: 1 })
    }
}

/// How the server is started in its folder.
fn launch(place: &LoadPlace<'_>, folder: &Path, address: SocketAddr, upstream: &Upstream) -> Launch {
    let environment = [
        ("RONDO_LISTEN", address.to_string()),
        ("RONDO_DATA", folder.join("data").display().to_string()),
        ("RONDO_APPS", folder.join("apps").display().to_string()),
        ("RONDO_DISCOVER", "false".to_owned()),
        ("OPENAI_BASE_URL", upstream.base_url()),
    ];
    Launch {
        older: None,
        binary: place.server.to_path_buf(),
        folder: folder.to_path_buf(),
        url: format!("http://{address}"),
        environment: environment.map(|(name, value)| (name.to_owned(), value)).into(),
        log: place.log.to_path_buf(),
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

async fn json_of(request: RequestBuilder) -> Result<Value, TortureError> {
    Ok(request.send().await?.error_for_status()?.json().await?)
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, TortureError> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| format!("no {name} in an answer").into())
}
