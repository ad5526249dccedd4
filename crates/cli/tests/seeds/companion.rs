//! Rows of docs/seeds.md for companion.

mod care;
mod memory;
mod recall;
mod turns;

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::Reply;

use crate::process::within;
use crate::product::{Product, calls, of, status};
use crate::world::Server;

/// Companion behind the real binary, with a model that answers these and then agrees to everything.
async fn companion(replies: impl IntoIterator<Item = Reply>) -> (Product, Server) {
    serving(Product::new("companion").await, replies).await
}

async fn serving(product: Product, replies: impl IntoIterator<Item = Reply>) -> (Product, Server) {
    let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
    product.upstream().program(move |request| match (is_extraction(request), is_conversation(request)) {
        (true, _) => Reply::says(r#"{"changes": []}"#),
        (false, false) => Reply::says("A conversation"),
        (false, true) => replies.lock().unwrap().pop_front().unwrap_or_else(|| Reply::says("I see.")),
    });
    let server = product.serve().await;
    (product, server)
}

fn is_extraction(request: &Value) -> bool {
    request["response_format"]["json_schema"]["name"] == "memories"
}

/// Work in the background bounds its answers, and a conversation here does not.
fn is_conversation(request: &Value) -> bool {
    request["max_tokens"].is_null() && request["max_completion_tokens"].is_null()
}

/// Returns the requests to the model for the user, in order.
fn asked(product: &Product) -> Vec<Value> {
    let chats = product
        .upstream()
        .requests()
        .into_iter()
        .filter(|request| request.path.ends_with("/chat/completions"));
    chats.map(|request| request.body).filter(is_conversation).collect()
}

/// The texts for which vectors were made, in order.
fn embedded(product: &Product) -> Vec<(String, String)> {
    let requests =
        product.upstream().requests().into_iter().filter(|request| request.path.ends_with("/embeddings"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    requests
        .flat_map(|request| {
            let inputs = request.body["input"].as_array().cloned().unwrap_or_default();
            inputs.iter().map(|input| (text(&request.body["model"]), text(input))).collect::<Vec<_>>()
        })
        .collect()
}

/// One message of a request.
fn content(request: &Value, at: usize) -> &str {
    request["messages"][at]["content"].as_str().unwrap_or_default()
}

/// The user's message of a request, with all that was put before it.
fn newest(request: &Value) -> &str {
    content(request, request["messages"].as_array().unwrap().len() - 1)
}

fn roles(request: &Value) -> Vec<&str> {
    request["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

fn thread(frames: &[Frame]) -> String {
    of(frames, "run:start")[0]["threadId"].as_str().unwrap().to_owned()
}

fn answer(frames: &[Frame]) -> &str {
    of(frames, "stream:complete")[0]["text"].as_str().unwrap()
}

async fn say_in(product: &Product, server: &Server, thread: &str, message: &str) -> Vec<Frame> {
    product.ask(server, json!({ "message": message, "threadId": thread })).await.all().await
}

async fn add(product: &Product, server: &Server, text: &str) -> Value {
    let (status, memory) = server.post(&product.path("memories"), &json!({ "text": text })).await;
    assert_eq!(status, 201, "{memory}");
    memory
}

/// The texts of all active memories, newest first.
async fn known(product: &Product, server: &Server) -> Vec<String> {
    let (_, page) = server.get(&product.path("memories?limit=100")).await;
    page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|memory| memory["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until nothing is left to do in the background.
async fn settled(server: &Server) {
    let open = async || {
        let (_, jobs) = server.get("/v1/admin/jobs?limit=100").await;
        jobs["data"].as_array().unwrap().iter().any(|job| job["status"] != "done")
    };
    within("the work in the background", async { while open().await {} }).await;
}
