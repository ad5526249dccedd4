//! The reads and changes of a page besides runs: threads and their branches, uploads, memories, records, files and
//! undo.

use serde_json::json;
use testkit::upstream::Reply;

use crate::{ScenarioClient, shown, start};

pub(crate) async fn check_threads(client: ScenarioClient) {
    let (world, server) = start("").await;
    world.upstream.program(|_| Reply::says("An answer about lighthouses."));
    let seen = shown(client.scenario(&server, "threads")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
    client.note("threads");
}

pub(crate) async fn check_uploads(client: ScenarioClient) {
    let (world, server) = start("").await;
    world.upstream.program(|_| Reply::says("It is in the manual."));
    let seen = shown(client.scenario(&server, "uploads")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
    client.note("uploads");
}

pub(crate) async fn check_things(client: ScenarioClient) {
    let (_world, server) = start("").await;
    let seen = shown(client.scenario(&server, "things")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
    client.note("things");
}

#[tokio::test]
async fn threads_are_listed_searched_branched_and_exported() {
    check_threads(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn files_are_uploaded_and_answered_from() {
    check_uploads(ScenarioClient::TypeScript).await;
}

#[tokio::test]
async fn what_the_user_has_is_read_and_changed() {
    check_things(ScenarioClient::TypeScript).await;
}
