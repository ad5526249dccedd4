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
use testkit::database::postgres_url_of;
use world::{Server, World};

const KEY: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";

/// A command on the database of the world, with a data folder and, for nodes, a vault key.
fn rondo(world: &World, args: &[&str], (data, key): (&str, Option<&str>)) -> Command {
    let store = postgres_url_of(&world.path("")).expect("run `cargo xtask test postgres`, which names the database");
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
        // A server that was killed keeps nobody away.
        first.process.kill();
        serve(&world, ("one", key)).await;
    }
}
