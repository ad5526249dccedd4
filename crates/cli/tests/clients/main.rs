//! The project's own clients (`clients/typescript` and `clients/python`) against the real binary: a stream that survives
//! the death of its server, approvals, tools of the client, uploads, the channel of the user, and types that are those of
//! the server.
//!
//! `cargo xtask test clients` fetches what the packages need and builds them first.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

mod contract;
mod pages;
#[path = "../it/process.rs"]
mod process;
mod python;
#[path = "../it/results.rs"]
mod results;
mod streams;
#[path = "../it/world.rs"]
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

use process::{Ended, Process};
use results::FeatureResult;
use serde_json::Value;
use world::{Server, World};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/typescript");

fn package(path: &str) -> PathBuf {
    let file = Path::new(PACKAGE).join(path);
    assert!(file.exists(), "{} is not there; `cargo xtask test clients` makes it", file.display());
    file
}

fn read(path: &str) -> String {
    std::fs::read_to_string(package(path)).unwrap()
}

/// Node in the folder of the package.
fn node(args: &[&str]) -> Command {
    let mut node = Command::new("node");
    node.args(args).current_dir(PACKAGE);
    node
}

fn write_app(world: &World, rest: &str) {
    world.write("apps/demo/app.toml", &format!("name = \"Demo\"\n{rest}"));
    world.write("apps/demo/instructions.md", "Do what you are asked.\n");
}

/// A server on this port, or on any.
async fn serve(world: &World, port: u16) -> Server {
    let mut command = world.rondo(&["serve"]);
    command.env("RONDO_APPS", world.path("apps")).env("RONDO_LISTEN", format!("127.0.0.1:{port}"));
    Server::start(&mut command).await
}

async fn start(rest: &str) -> (World, Server) {
    let world = World::new().await;
    write_app(&world, rest);
    world.write("rondo.toml", "[models.gpt-6-luna]\nvision = true\n");
    let server = serve(&world, 0).await;
    (world, server)
}

/// A client whose scenarios print what they have seen.
#[derive(Debug, Clone, Copy)]
enum ScenarioClient {
    TypeScript,
    /// The blocking client.
    Python,
    /// The client for asyncio.
    AsyncPython,
}

impl ScenarioClient {
    fn result(self, feature: &str) -> FeatureResult {
        let client = match self {
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::AsyncPython => "Python (asyncio)",
        };
        FeatureResult::works("Rondo's own API", (client, env!("CARGO_PKG_VERSION")), feature)
    }

    /// Notes that a feature works.
    fn note(self, feature: &str) {
        self.result(feature).note();
    }

    /// One scenario, as a process of its own.
    fn scenario(self, server: &Server, name: &str) -> Process {
        match self {
            Self::TypeScript => {
                package("dist/index.js");
                Process::start(&mut node(&["tests/scenarios.mjs", name, &server.url]))
            }
            Self::Python => {
                Process::start(&mut python::python(&["tests/scenarios.py", "sync", name, &server.url]))
            }
            Self::AsyncPython => {
                Process::start(&mut python::python(&["tests/scenarios.py", "async", name, &server.url]))
            }
        }
    }
}

/// Returns the JSON that the client has printed at its end.
async fn shown(client: Process) -> Value {
    let ended = succeeded(client).await;
    serde_json::from_str(&ended.output).unwrap_or_else(|_| panic!("{ended:?}"))
}

async fn succeeded(process: Process) -> Ended {
    let ended = process.ended().await;
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.output, ended.errors);
    ended
}
