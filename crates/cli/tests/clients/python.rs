//! The Python client: its scenarios in both forms, its own tests, its types, and the examples of its README.

use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Kind;
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::Process;
use crate::{ScenarioClient, pages, start, streams, succeeded};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");

/// Python with the package and what it needs.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python-client/bin/python");

const ASKING_APP: &str = "tools = [\"current_time\"]\n[tool.current_time]\nconfirm = true";

/// Python in the folder of the package.
pub(crate) fn python(args: &[&str]) -> Command {
    assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is not there; `cargo xtask test clients` makes it");
    let mut python = Command::new(PROGRAM);
    python.args(args).current_dir(PACKAGE).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(PACKAGE).join(path)).unwrap()
}

/// A file that a test makes for the package.
fn made(name: &str) -> PathBuf {
    let folder = Path::new(PACKAGE).join("tests/made");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[tokio::test]
async fn a_stream_survives_the_death_of_its_server() {
    streams::check_death(ScenarioClient::Python).await;
}

#[tokio::test]
async fn a_stream_survives_the_death_of_its_server_in_asyncio() {
    streams::check_death(ScenarioClient::AsyncPython).await;
}

#[tokio::test]
async fn a_run_is_cancelled_and_keeps_its_words() {
    streams::check_cancel(ScenarioClient::Python).await;
    streams::check_cancel(ScenarioClient::AsyncPython).await;
}

#[tokio::test]
async fn calls_are_approved_and_rejected() {
    streams::check_approvals(ScenarioClient::Python).await;
    streams::check_approvals(ScenarioClient::AsyncPython).await;
}

#[tokio::test]
async fn functions_are_run_as_tools() {
    streams::check_tools(ScenarioClient::Python).await;
    streams::check_tools(ScenarioClient::AsyncPython).await;
}

#[tokio::test]
async fn the_channel_of_the_user_goes_on_after_a_restart() {
    streams::check_channel(ScenarioClient::Python).await;
}

#[tokio::test]
async fn the_channel_of_the_user_goes_on_after_a_restart_in_asyncio() {
    streams::check_channel(ScenarioClient::AsyncPython).await;
}

#[tokio::test]
async fn threads_files_memories_and_uploads_are_read_and_changed() {
    pages::check_threads(ScenarioClient::Python).await;
    pages::check_uploads(ScenarioClient::Python).await;
    pages::check_things(ScenarioClient::Python).await;
    for feature in ["threads", "uploads", "things"] {
        let result = ScenarioClient::AsyncPython.result(feature);
        result.absent("tested in the blocking form, which is made of this one").note();
    }
}

#[tokio::test]
async fn the_types_are_those_of_the_server() {
    let (_world, server) = start("").await;
    let (_, document) = server.get("/openapi.json").await;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi-python.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let generated =
        succeeded(Process::start(&mut python(&["scripts/generate.py", file.to_str().unwrap()]))).await;
    let is_same = generated.output == read("src/rondo/schema.py");
    let command = format!("python3 scripts/generate.py {} > src/rondo/schema.py", file.display());
    assert!(is_same, "the API has changed: run `{command}` in clients/python");
}

#[test]
fn the_client_knows_every_event() {
    let events = read("src/rondo/_events.py");
    for kind in Kind::ALL {
        let name = kind.name();
        assert!(events.contains(&format!("Event[Literal[\"{name}\"]")), "_events.py does not name {name}");
    }
}

#[tokio::test]
async fn the_tests_of_the_package_pass() {
    let tests = Process::start(&mut python(&["-m", "unittest", "discover", "-s", "tests"]));
    succeeded(tests).await;
}

#[tokio::test]
async fn the_package_is_typed_throughout() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy");
    let args = ["-m", "mypy", "--cache-dir", cache.to_str().unwrap(), "src", "tests", "scripts"];
    succeeded(Process::start(&mut python(&args))).await;
    let args =
        ["-c", "import pathlib, rondo; assert pathlib.Path(rondo.__file__).with_name('py.typed').exists()"];
    succeeded(Process::start(&mut python(&args))).await;
}

/// The examples of the README, one after another, as they stand.
#[tokio::test]
async fn the_examples_work() {
    let (world, server) = start(ASKING_APP).await;
    world.upstream.program(|body| {
        let last = body["messages"].as_array().and_then(|all| all.last()).unwrap();
        let words = last["content"].to_string();
        match last["role"].as_str() {
            Some("user") if words.contains("How many lamps") => {
                Reply::stream().call(ScriptedCall::new("stock", r#"{"article":"lamp"}"#))
            }
            Some("user") if words.contains("Tidy up") => {
                Reply::stream().call(ScriptedCall::new("current_time", "{}"))
            }
            Some("tool") if words.contains("pieces") => Reply::says("There are 12 lamps."),
            _ => Reply::stream().text("Certainly. ").text("Forty-two."),
        }
    });
    let readme = read("README.md");
    let blocks: Vec<&str> =
        readme.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 8, "the README has {} examples", blocks.len());
    let file = made("examples.py");
    std::fs::write(&file, blocks.join("\n").replace("http://127.0.0.1:8787", &server.url)).unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy-examples");
    let args = ["-m", "mypy", "--strict", "--cache-dir", cache.to_str().unwrap(), file.to_str().unwrap()];
    succeeded(Process::start(&mut python(&args))).await;
    let mut examples = Process::start(&mut python(&["-W", "error", file.to_str().unwrap()]));
    examples.write("yes\n");
    let ended = succeeded(examples).await;
    for part in [
        "Certainly. Forty-two.",
        "completed",
        "not_found 404",
        "May I call current_time?",
        "There are 12 lamps.",
    ] {
        assert!(ended.output.contains(part), "{part}: {ended:?}");
    }
}
