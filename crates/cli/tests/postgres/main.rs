//! The real binary on a real PostgreSQL: which servers may share it, and what commands beside them say.
//!
//! `cargo xtask test postgres` fetches and starts the PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

#[path = "../it/process.rs"]
mod process;
#[path = "../it/world.rs"]
mod world;

use std::process::Command;

use process::{Ended, Process};
use reqwest::Method;
use serde_json::json;
use testkit::database::postgres_url_of;
use world::{Server, World, send};

const KEY: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";
const OTHER_KEY: &str = "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0";

/// A command on the database of the world, with a data folder and, for nodes, a vault key.
fn rondo(world: &World, args: &[&str], (data, key): (&str, Option<&str>)) -> Command {
    let store =
        postgres_url_of(&world.path("")).expect("run `cargo xtask test postgres`, which names the database");
    let mut command = world.rondo(args);
    command.env("RONDO_STORE", store).env("RONDO_DATA", world.path(data));
    command.envs(key.map(|key| ("RONDO_VAULT_KEY", key)));
    command
}

async fn serve(world: &World, of: (&str, Option<&str>)) -> Server {
    Server::start(&mut rondo(world, &["serve"], of)).await
}

async fn ended(world: &World, args: &[&str], of: (&str, Option<&str>)) -> Ended {
    Process::start(&mut rondo(world, args, of)).ended().await
}

/// Returns the doctor's findings about nodes and the vault key. It looks from a folder that does not exist.
async fn findings(world: &World, key: Option<&str>) -> String {
    let report = ended(world, &["doctor"], ("nowhere", key)).await;
    assert!(!world.path("nowhere").exists(), "it leaves nothing behind");
    world.upstream.violations(); // it does not list its models
    let told =
        report.output.lines().filter(|line| line.contains(" nodes: ") || line.contains(" vault key: "));
    told.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_server_needs_a_data_folder_of_its_own() {
    for key in [Some(KEY), None] {
        let world = World::new().await;
        let first = serve(&world, ("one", key)).await;
        let control = std::fs::read(world.path("one/control.json")).unwrap();
        let second = ended(&world, &["serve"], ("one", key)).await;
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.errors.contains("each server needs a data folder of its own"), "{second:?}");
        assert!(second.errors.contains("RONDO_DATA"), "{second:?}");
        assert_eq!(std::fs::read(world.path("one/control.json")).unwrap(), control);
        // Commands ask the server of the folder.
        let listed = ended(&world, &["keys", "list"], ("one", key)).await;
        assert_eq!(listed.code, Some(0), "{listed:?}");
        if key.is_some() {
            serve(&world, ("two", key)).await;
        }
        // A server that was killed keeps no other server away.
        first.process.kill();
        serve(&world, ("one", key)).await;
    }
}

#[tokio::test]
async fn a_server_with_another_vault_key_is_refused_and_the_doctor_says_so() {
    let world = World::new().await;
    assert_eq!(
        findings(&world, Some(KEY)).await,
        "ok    nodes: RONDO_VAULT_KEY is set, so this server is a node; no node is running"
    );
    let server = serve(&world, ("one", Some(KEY))).await;
    let told = findings(&world, Some(KEY)).await;
    assert!(told.contains("so this server is a node; 1 node is running: node 2 (version "), "{told}");
    assert!(told.ends_with("ok    vault key: it is the one that the database knows"), "{told}");
    let told = findings(&world, Some(OTHER_KEY)).await;
    assert!(told.contains("BAD   vault key: the running nodes have another one"), "{told}");
    let told = findings(&world, None).await;
    assert!(told.starts_with("BAD   nodes: RONDO_VAULT_KEY is not set"), "{told}");
    assert!(told.contains("1 node is running") && !told.contains("vault key:"), "{told}");

    let path = "/v1/apps/studio/credentials/mail";
    let (status, answer) = send(server.request(Method::PUT, path).json(&json!({ "value": "secret" }))).await;
    assert_eq!(status, 200, "{answer}");
    server.process.signal("TERM");
    assert_eq!(server.process.ended().await.code, Some(0));

    // No node runs that could be asked, and the key is still known.
    for (data, key) in [("one", Some(OTHER_KEY)), ("two", None)] {
        let told = findings(&world, key).await;
        assert!(told.contains("BAD   vault key: another one has encrypted"), "{told}");
        let refused = ended(&world, &["serve"], (data, key)).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.errors.contains("another vault key has encrypted"), "{refused:?}");
        assert!(refused.errors.contains("RONDO_VAULT_KEY"), "{refused:?}");
    }
    let again = serve(&world, ("one", Some(KEY))).await;
    assert_eq!(again.get("/v1/apps/studio/credentials").await.0, 200);
}
