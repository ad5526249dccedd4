//! The world that the binary is run in: a folder of its own, a scripted upstream, and no other environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::upstream::Upstream;
use testkit::{Frame, Frames};

use crate::process::{ANSWER_PATIENCE, Ended, Process};

/// The apps that come with the repository.
pub(crate) const APPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps");

pub(crate) struct World {
    pub(crate) upstream: Upstream,
    folder: TempDir,
    /// Holds the apps that the test is about; with one, no command has to name it.
    apps: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(&["studio"]).await
    }

    /// With these of the repository's apps.
    pub(crate) async fn with(names: &[&str]) -> Self {
        let (folder, apps) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in names {
            std::os::unix::fs::symlink(Path::new(APPS).join(name), apps.path().join(name)).unwrap();
        }
        Self { upstream: Upstream::start().await, folder, apps }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The binary, told where everything is and nothing else.
    pub(crate) fn rondo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rondo"));
        command.args(args).env_clear().current_dir(self.folder.path());
        command
            .env("RONDO_LISTEN", "127.0.0.1:0")
            .env("RONDO_DATA", self.path("data"))
            .env("RONDO_APPS", self.apps.path());
        command.env("OPENAI_BASE_URL", self.upstream.base_url());
        command.env("RONDO_DISCOVER", "false"); // other servers on this machine are not part of the test
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        Process::start(&mut self.rondo(args)).ended().await
    }

    pub(crate) async fn serve(&self) -> Server {
        Server::start(&mut self.rondo(&["serve"])).await
    }

    /// Fails if the database is not as it must be once no run is under way.
    pub(crate) fn audit(&self) {
        assert_eq!(testkit::audit(&self.path("data")), Vec::<String>::new());
    }
}

/// A server that is ready.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
    client: Client,
}

impl Server {
    /// Starts it and waits until it says where it serves.
    pub(crate) async fn start(command: &mut Command) -> Self {
        let process = Process::start(command);
        let line = process.errors.line("serving on http://").await;
        let url = line.split_once("serving on ").unwrap().1.split([' ', '"']).next().unwrap().to_owned();
        let client = Client::builder().no_proxy().timeout(ANSWER_PATIENCE).build().unwrap();
        let server = Self { process, url, client };
        assert_eq!(server.get("/readyz").await.0, 200);
        server
    }

    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// Says something to the studio app and follows the answer.
    pub(crate) async fn say(&self, message: &str) -> Frames {
        self.stream("/studio/stream", &json!({ "message": message })).await
    }

    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Frames {
        open(self.request(Method::POST, path).json(body)).await
    }

    /// Follows events, from after the given one.
    pub(crate) async fn follow(&self, path: &str, after: u64) -> Frames {
        open(self.request(Method::GET, path).header("last-event-id", after.to_string())).await
    }

    /// The thread's whole log, which has no end of its own.
    pub(crate) async fn log(&self, thread: &str) -> Vec<Frame> {
        let (_, view) = self.get(&format!("/v1/threads/{thread}")).await;
        let last = view["lastSeq"].as_u64().unwrap();
        let mut frames = self.follow(&format!("/v1/threads/{thread}/events"), 0).await;
        let mut log = Vec::new();
        while log.last().is_none_or(|frame: &Frame| frame.id < last) {
            log.push(frames.next().await.expect("the channel stays open"));
        }
        log
    }
}

pub(crate) async fn send(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("the server answers");
    let status = response.status().as_u16();
    let bytes = response.bytes().await.expect("the body is readable");
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn open(request: RequestBuilder) -> Frames {
    let response = request.send().await.expect("the server answers");
    assert_eq!(response.status(), 200);
    Frames::new(response)
}

/// Reads until the deltas add up to `text`.
pub(crate) async fn read_text(frames: &mut Frames, text: &str) -> Vec<Frame> {
    let (mut read, mut said) = (Vec::new(), String::new());
    while said != text {
        assert!(text.starts_with(&said), "{said:?} is not the beginning of {text:?}");
        let frame = frames.next().await.unwrap_or_else(|| panic!("the stream ended after {said:?}"));
        if frame.event == "text:delta" {
            said.push_str(frame.data["delta"].as_str().unwrap());
        }
        read.push(frame);
    }
    read
}

/// The events' names, neighbouring deltas as one.
pub(crate) fn names(frames: &[Frame]) -> Vec<&str> {
    let mut names: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    names.dedup_by(|next, last| next == last && (next.ends_with(":delta") || *next == "tool:input"));
    names
}

/// Every file below a folder, with what it holds.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![(path.clone(), std::fs::read(&path).unwrap())],
    };
    entries.flat_map(read).collect()
}
