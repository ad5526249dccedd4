//! Rows of docs/seeds.md for trailhead: what its tests share.

mod chat;
mod context;
mod failures;
mod limits;
mod practice;
mod records;
mod safety;
mod steps;
mod tools;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::Reply;

use crate::product::{Product, calls, of};
use crate::world::{Server, send};

const APP: &str = "trailhead";

/// The product with its sample, and a server of it.
async fn with_sample() -> (Product, Server) {
    let product = Product::new(APP).await;
    product.import_sample().await;
    let server = product.serve().await;
    (product, server)
}

async fn empty() -> (Product, Server) {
    let product = Product::new(APP).await;
    let server = product.serve().await;
    (product, server)
}

/// Whether a request asks for the name of a conversation, which happens in the background.
fn is_title(body: &Value) -> bool {
    body["messages"][0].to_string().contains("ame this conversation")
}

/// Returns the results of tools since the user last spoke.
fn results(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    let since = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    messages[since..].iter().filter(|message| message["role"] == "tool").cloned().collect()
}

/// The model, told how many results it has seen since the user spoke.
fn plays(product: &Product, model: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) {
    product.upstream().program(move |body| match is_title(body) {
        true => Reply::says("What came up"),
        false => model(results(body).len(), body),
    });
}

/// The model calls these tools at once, and then says that it is done.
fn plays_calls(product: &Product, wanted: &[(&str, Value)]) {
    let reply = calls(wanted);
    plays(product, move |seen, _| if seen == 0 { reply.clone() } else { Reply::says("Done.") });
}

/// One call in a conversation of its own: how it ended, as the stream tells.
async fn does(product: &Product, server: &Server, tool: &str, input: Value) -> Value {
    plays_calls(product, &[(tool, input)]);
    let frames = product.say(server, "Please.").await;
    outcome(&frames, tool)
}

/// How the first call of a tool ended.
fn outcome(frames: &[Frame], tool: &str) -> Value {
    let ended = of(frames, "tool:complete").into_iter().find(|data| data["name"] == tool);
    ended.unwrap_or_else(|| panic!("{tool} was not called: {frames:?}")).clone()
}

/// Returns the output of a call that went well.
async fn output(product: &Product, server: &Server, tool: &str, input: Value) -> Value {
    let ended = does(product, server, tool, input).await;
    assert_eq!(ended["status"], "complete", "{ended}");
    ended["output"].clone()
}

/// Returns the requests to the model, without the names of conversations.
fn asked(product: &Product) -> Vec<Value> {
    product
        .upstream()
        .requests()
        .into_iter()
        .map(|request| request.body)
        .filter(|body| !is_title(body))
        .collect()
}

/// Returns the last request to the model, as one text.
fn prompt(product: &Product) -> String {
    let asked = asked(product);
    let messages = asked.last().expect("the model was asked")["messages"].as_array().unwrap();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    messages.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

/// The answer that a reader ends up with.
fn reply(frames: &[Frame]) -> &str {
    of(frames, "stream:complete")[0]["text"].as_str().unwrap()
}

async fn list(server: &Server, path: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/apps/{APP}/{path}")).await;
    assert_eq!(status, 200, "{page}");
    page["data"].as_array().unwrap().clone()
}

/// The part of this name.
async fn part_called(server: &Server, name: &str) -> Value {
    let found = list(server, "records/part").await.into_iter().find(|part| part["data"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no part {name}"))
}

/// The record of a type that has this word.
async fn record(server: &Server, kind: &str, name: &str) -> Value {
    let found = list(server, &format!("records/{kind}?q={name}")).await;
    found.into_iter().next().unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

async fn act(server: &Server, path: &str) -> (u16, Value) {
    send(server.request(Method::POST, path)).await
}

fn evidence(content: &str) -> Value {
    json!({ "type": "pattern", "content": content, "confidence": 0.8 })
}

/// The ids of evidence that belongs to no part yet; the sample has four pieces.
async fn loose_evidence(server: &Server) -> Vec<String> {
    let all = list(server, "records/evidence").await;
    all.iter().filter(|one| one["data"]["partId"].is_null()).map(id).collect()
}
