//! What a page reads and changes besides runs: threads and their branches, uploads, memories, records, files and undo.

use serde_json::json;
use testkit::upstream::Reply;

use crate::{scenario, shown, start};

#[tokio::test]
async fn threads_are_listed_searched_branched_and_exported() {
    let (world, server) = start("").await;
    world.upstream.program(|_| Reply::says("An answer about lighthouses."));
    let seen = shown(scenario(&server, "threads")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
}

#[tokio::test]
async fn files_are_uploaded_and_answered_from() {
    let (world, server) = start("").await;
    world.upstream.program(|_| Reply::says("It is in the manual."));
    let seen = shown(scenario(&server, "uploads")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
}

#[tokio::test]
async fn what_the_user_has_is_read_and_changed() {
    let (_world, server) = start("").await;
    let seen = shown(scenario(&server, "things")).await;
    assert_eq!(seen["problems"], json!([]), "{seen}");
}
