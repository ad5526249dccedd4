//! Kalito: eldercare with personas, records in the prompt, a conversation as background, and a search of the web.

mod chart;
mod documents;
mod history;
mod persona;
mod prompt;
mod requests;
mod search;
mod sections;
mod streams;
mod suspicion;
mod tools;

use serde_json::{Value, json};
use testkit::TAVILY_KEY;
use testkit::upstream::Reply;
use testkit::web::{self, Web};

use crate::product::Product;
use crate::world::Server;

const NURSE: &str = "persona_eldercare_nurse";
const MARKER: &str = "[SEARCHING_ONLINE]\n\n";

/// A server with the model `small`, which speaks Ollama's words.
async fn with_small(product: &Product) -> Server {
    let url = product.upstream().root_url();
    let home = format!("[providers.home]\nbase_url = '{url}'\nwire = 'ollama'\nkind = 'local'\n");
    product.world.write("rondo.toml", &format!("{home}[models.small]\nprovider = 'home'\n"));
    let server = product.serve().await;
    // At start Ollama is asked what it has, and this one cannot tell.
    assert!(product.upstream().violations().iter().all(|one| one.contains("/api/tags")));
    server
}

/// Kalito with a model that says the same to everything.
async fn kalito() -> Product {
    let product = Product::new("kalito").await;
    answers(&product, |_| Reply::says("So it is."));
    product
}

/// Kalito with Mary's records.
async fn with_sample() -> (Product, Server) {
    let product = kalito().await;
    product.import_sample().await;
    let server = product.serve().await;
    (product, server)
}

/// Kalito that may search; the web answers with these.
async fn searching(found: impl IntoIterator<Item = web::WebReply>) -> (Web, Product, Server) {
    let web = Web::start().await;
    web.on("POST", "/search", found);
    let product = kalito().await.env("TAVILY_API_KEY", TAVILY_KEY).env("TAVILY_BASE_URL", &web.url());
    let server = product.serve().await;
    (web, product, server)
}

fn sunny() -> web::WebReply {
    web::WebReply::tavily(None, &[("Weather", "https://weather.example.com/sf", "65°F, partly cloudy")])
}

/// Answers the conversation as the program says; names and summaries are written in the background.
fn answers(product: &Product, program: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
    product.upstream().program(move |body| match first(body) {
        system if system.starts_with("Name this conversation") => Reply::says("Evening medications"),
        system if system.starts_with("You summarise") => Reply::says("They spoke of the garden."),
        _ => program(body),
    });
}

fn first(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap_or_default()
}

/// Returns the requests to the model for the conversation itself.
fn asked(product: &Product) -> Vec<Value> {
    let background =
        |body: &Value| ["Name this", "You summarise"].iter().any(|start| first(body).starts_with(start));
    let bodies = product.upstream().requests().into_iter().map(|request| request.body);
    bodies.filter(|body| body.get("messages").is_some() && !background(body)).collect()
}

/// The system prompt of the newest such request.
fn system(product: &Product) -> String {
    first(asked(product).last().unwrap()).to_owned()
}

/// Role and text of each message of the newest such request.
fn told(product: &Product) -> Vec<(String, String)> {
    let messages = asked(product).last().unwrap()["messages"].as_array().unwrap().clone();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

/// Returns the results of tools since the user last spoke.
fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let since = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    let of_tools = messages[since..].iter().filter(|message| message["role"] == "tool");
    of_tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

async fn say_in(product: &Product, server: &Server, thread: &Value, message: &str) -> Value {
    product.answer(server, json!({ "message": message, "threadId": thread })).await
}

/// Whether these stand in the text, in this order.
fn in_order(text: &str, parts: &[&str]) -> bool {
    let places: Vec<Option<usize>> = parts.iter().map(|part| text.find(part)).collect();
    places.iter().all(Option::is_some) && places.is_sorted()
}
