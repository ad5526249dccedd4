//! A product that runs: its folder, copied and perhaps broken, behind the real binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall, Upstream};
use testkit::{Frame, Frames};

use crate::process::{Ended, Process};
use crate::world::{APPS, Server, World};

const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/seeds/broken");
const MUTATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/mutations");

/// How a group of rows is broken: texts of the app's files that are replaced, files that are removed, variables that are
/// set for the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Mutation {
    replace: Vec<Replacement>,
    remove: Vec<String>,
    env: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    file: String,
    find: String,
    with: String,
}

pub(crate) struct Product {
    pub(crate) name: String,
    pub(crate) world: World,
    /// Variables beside those that every server of a test has.
    env: BTreeMap<String, String>,
}

impl Product {
    /// A copy of the product's folder, broken if that is asked for.
    pub(crate) async fn new(name: &str) -> Self {
        let world = World::with(&[]).await;
        let folder = world.path("apps").join(name);
        copy(&Path::new(APPS).join(name), &folder);
        let mutation = mutation(name).unwrap_or_default();
        for Replacement { file, find, with } in &mutation.replace {
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(
                text.contains(find.as_str()),
                "{file} does not hold {find:?}, so nothing would be broken"
            );
            std::fs::write(&path, text.replace(find.as_str(), with)).unwrap();
        }
        for file in &mutation.remove {
            std::fs::remove_file(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
        Self { name: name.to_owned(), world, env: mutation.env }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        self
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.world.upstream
    }

    pub(crate) fn rondo(&self, args: &[&str]) -> Command {
        let mut command = self.world.rondo(args);
        command.env("RONDO_APPS", self.world.path("apps")).envs(&self.env);
        command
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        Process::start(&mut self.rondo(args)).ended().await
    }

    pub(crate) async fn serve(&self) -> Server {
        Server::start(&mut self.rondo(&["serve"])).await
    }

    /// Loads the product's sample records for the user `local`.
    pub(crate) async fn import_sample(&self) {
        let sample = self.world.path("apps").join(&self.name).join("sample");
        let ended =
            self.run(&["import", sample.to_str().unwrap(), "--app", &self.name, "--user", "local"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/apps/{}/{rest}", self.name)
    }

    /// Says something in a new thread and follows the run to its end.
    pub(crate) async fn say(&self, server: &Server, message: &str) -> Vec<Frame> {
        self.ask(server, json!({ "message": message })).await.all().await
    }

    pub(crate) async fn ask(&self, server: &Server, body: Value) -> Frames {
        server.stream(&self.path("runs"), &body).await
    }

    /// Sends a message and waits for its answer, without a stream.
    pub(crate) async fn answer(&self, server: &Server, body: Value) -> Value {
        let mut body = body;
        body["stream"] = json!(false);
        let (status, answer) = server.post(&self.path("runs"), &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Returns the last request to the model.
    pub(crate) fn last_request(&self) -> Value {
        self.upstream().requests().last().expect("the model was asked").body.clone()
    }

    /// All that the model was told last, as one text.
    pub(crate) fn last_prompt(&self) -> String {
        let messages = self.last_request()["messages"].clone();
        let text = |message: &Value| {
            message["content"].as_str().map_or_else(|| message["content"].to_string(), str::to_owned)
        };
        messages.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join("\n\n")
    }
}

/// A step that calls these tools at once.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    calls
        .iter()
        .fold(Reply::stream(), |reply, (name, input)| reply.call(ScriptedCall::new(name, &input.to_string())))
}

/// The data of the events of one name.
pub(crate) fn of<'a>(frames: &'a [Frame], event: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

/// Returns the status that the run ended with.
pub(crate) fn status(frames: &[Frame]) -> &str {
    of(frames, "run:end")[0]["status"].as_str().unwrap()
}

pub(crate) async fn send(server: &Server, method: Method, path: &str, body: &Value) -> (u16, Value) {
    crate::world::send(server.request(method, path).json(body)).await
}

/// How the group that is to be broken is broken, if it is one of this product.
fn mutation(product: &str) -> Option<Mutation> {
    let group = std::fs::read_to_string(BROKEN).ok()?;
    let file = PathBuf::from(MUTATIONS).join(format!("{product}.toml"));
    let all: BTreeMap<String, Mutation> = toml::from_str(&std::fs::read_to_string(file).ok()?).unwrap();
    all.into_iter().find(|(name, _)| *name == group.trim()).map(|(_, mutation)| mutation)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
