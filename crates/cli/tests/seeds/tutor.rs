//! Rows of docs/seeds.md for tutor: a learner, a tutor that answers with objects, and a memory model behind it.

mod answers;
mod changes;
mod expiry;
mod passes;
mod prompt;
mod teaching;

use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::{Received, Reply};

use crate::process::within;
use crate::product::{Product, of};
use crate::world::Server;

/// The model's name for every thread.
const TITLE: &str = "Adding thirds and sixths";

async fn tutor() -> (Product, Server) {
    let product = Product::new("tutor").await;
    let server = product.serve().await;
    (product, server)
}

/// An answer of the tutor as its model writes it.
fn object(memories: &[&str], response: &str) -> String {
    json!({ "memoriesReferenced": memories, "response": response }).to_string()
}

fn is_memory_model(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "memories"
}

fn is_naming(body: &Value) -> bool {
    body.get("tools").is_none() && body.get("response_format").is_none()
}

/// Plays the tutor with one script, and its memory model with another; threads are named by the way.
fn plays(
    product: &Product,
    tutor: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    memory_model: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) {
    product.upstream().program(move |body| match body {
        body if is_memory_model(body) => memory_model(body),
        body if is_naming(body) => Reply::says(TITLE),
        body => tutor(body),
    });
}

/// A tutor without a memory model that finds anything.
fn teaches(product: &Product, tutor: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
    plays(product, tutor, |_| finds(&[]));
}

/// A tutor that refers to these memories in every answer.
fn refers(product: &Product, memories: &[&str]) {
    let answer = object(memories, "Let us see.");
    teaches(product, move |_| Reply::says(&answer));
}

/// The answer of a memory model.
fn finds(changes: &[Value]) -> Reply {
    Reply::says(&json!({ "changes": changes }).to_string())
}

/// One change that rests on words of the first message that is looked at.
fn change(action: &str, labels: &[String], text: Option<&str>, quote: &str) -> Value {
    let kind = text.map(|_| "level");
    json!({ "action": action, "ids": labels, "text": text, "kind": kind, "message": "u1", "quote": quote })
}

/// Returns the words that the memory model was told.
fn told(body: &Value) -> &str {
    body["messages"][1]["content"].as_str().unwrap()
}

/// By what the memory model is to name a memory that it was shown.
fn label(body: &Value, memory: &str) -> String {
    let quoted = Value::from(memory).to_string();
    let line = told(body).lines().find(|line| line.starts_with('m') && line.ends_with(&quoted));
    line.unwrap_or_else(|| panic!("{memory} is not shown: {}", told(body)))
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

/// Returns the results of tools since the learner last spoke.
fn results(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    let since = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    messages[since..].iter().filter(|message| message["role"] == "tool").cloned().collect()
}

fn requests(product: &Product, of: impl Fn(&Value) -> bool) -> Vec<Value> {
    let all = product.upstream().requests();
    all.into_iter().map(|Received { body, .. }| body).filter(|body| of(body)).collect()
}

/// Returns the requests to the tutor's model, without naming and the memory model.
fn asked(product: &Product) -> Vec<Value> {
    requests(product, |body| !is_memory_model(body) && !is_naming(body))
}

fn system(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap()
}

/// The ids that an answer may name.
fn choice(body: &Value) -> Value {
    let schema = &body["response_format"]["json_schema"]["schema"];
    schema["properties"]["memoriesReferenced"]["items"]["enum"].clone()
}

fn text(frames: &[Frame]) -> String {
    of(frames, "text:delta").iter().map(|data| data["delta"].as_str().unwrap()).collect()
}

fn thread_of(frames: &[Frame]) -> String {
    of(frames, "run:start")[0]["threadId"].as_str().unwrap().to_owned()
}

async fn remember(product: &Product, server: &Server, text: &str) -> String {
    let (status, made) = server.post(&product.path("memories"), &json!({ "text": text })).await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

async fn memory(server: &Server, id: &str) -> Value {
    let (status, memory) = server.get(&format!("/v1/memories/{id}")).await;
    assert_eq!(status, 200, "{memory}");
    memory
}

/// The texts of the memories of this status, in the order of the alphabet.
async fn known(product: &Product, server: &Server, status: &str) -> Vec<String> {
    let (code, page) = server.get(&product.path(&format!("memories?status={status}"))).await;
    assert_eq!(code, 200, "{page}");
    let texts =
        page["data"].as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap().to_owned());
    let mut texts: Vec<String> = texts.collect();
    texts.sort_unstable();
    texts
}

/// Returns the event of the thread's channel about the memory model's work.
async fn update(server: &Server, thread: &str) -> Value {
    let mut channel = server.follow(&format!("/v1/threads/{thread}/events"), 0).await;
    within("memory:update", channel.read_until("memory:update")).await.pop().unwrap().data
}
