//! The contract of the package and the server: types, names of events, and examples that work.

use protocol::Kind;
use testkit::upstream::Reply;

use crate::process::Process;
use crate::{node, package, read, start, succeeded};

/// The types are made of the server's description, so they can be compared with it.
#[tokio::test]
async fn the_types_are_those_of_the_server() {
    let (world, server) = start("").await;
    let (_, document) = server.get("/openapi.json").await;
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let generated =
        succeeded(Process::start(&mut node(&["scripts/generate.mjs", file.to_str().unwrap()]))).await;
    let is_same = generated.output == read("src/schema.ts");
    let command = format!("node scripts/generate.mjs {} > src/schema.ts", file.display());
    assert!(is_same, "the API has changed: run `{command}` in clients/typescript");
    drop(world);
}

#[test]
fn the_client_knows_every_event() {
    let events = read("src/events.ts");
    for kind in Kind::ALL {
        let name = kind.name();
        let is_there = events.contains(&format!("  \"{name}\": ")) || events.contains(&format!("  {name}: "));
        assert!(is_there, "src/events.ts does not name {name}");
    }
}

/// The tests of the package itself, against servers that say what they are told to say, and the size of its core.
#[tokio::test]
async fn the_tests_of_the_package_pass() {
    succeeded(Process::start(&mut node(&["node_modules/typescript/bin/tsc", "--noEmit", "-p", "tests"])))
        .await;
    let size = succeeded(Process::start(&mut node(&["scripts/size.mjs"]))).await;
    println!("{}", size.output);
    let names = std::fs::read_dir(package("tests")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> =
        names.filter(|name| name.ends_with(".test.mjs")).map(|name| format!("tests/{name}")).collect();
    assert!(files.len() >= 5, "{files:?}");
    let args: Vec<&str> = std::iter::once("--test").chain(files.iter().map(String::as_str)).collect();
    succeeded(Process::start(&mut node(&args))).await;
}

/// The examples of the README, one after another, as they stand.
#[tokio::test]
async fn the_examples_work() {
    let (world, server) = start("").await;
    world.upstream.program(|_| Reply::stream().text("Certainly. ").text("Forty-two."));
    let readme = read("README.md");
    let blocks: Vec<&str> =
        readme.split("```js\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3, "the README has {} examples", blocks.len());
    let script = blocks.join("\n").replace("http://127.0.0.1:8787", &server.url);
    let folder = package("tests").join("made");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("examples.mjs");
    std::fs::write(&file, script).unwrap();
    let ended = succeeded(Process::start(&mut node(&[file.to_str().unwrap()]))).await;
    assert!(ended.output.contains("Certainly. Forty-two."), "{ended:?}");
}
