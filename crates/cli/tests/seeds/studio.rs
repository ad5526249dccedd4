//! Rows of docs/seeds.md for studio.

mod corrupt;
mod history;
mod loops;
mod refusals;
mod requests;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Frame;
use testkit::sql::Connection;
use testkit::upstream::Reply;

use crate::product::{Product, calls, of, status};
use crate::world::Server;

const STREAM: &str = "/studio/stream";
const PATIENCE: Duration = Duration::from_secs(20);

async fn studio(replies: impl IntoIterator<Item = Reply>) -> (Product, Server) {
    let product = Product::new("studio").await;
    product.upstream().script(replies);
    let server = product.serve().await;
    (product, server)
}

/// A step that calculates this.
fn calculates(expression: &str) -> Reply {
    calls(&[("calculate", json!({ "expression": expression }))])
}

/// Says something over the product's own route, in a session or in a new one.
async fn say(server: &Server, session: Option<&str>, message: &str) -> Vec<Frame> {
    let mut body = json!({ "message": message });
    if let Some(session) = session {
        body["sessionId"] = json!(session);
    }
    server.stream(STREAM, &body).await.all().await
}

fn session(frames: &[Frame]) -> String {
    of(frames, "run:start")[0]["threadId"].as_str().unwrap().to_owned()
}

fn answer(frames: &[Frame]) -> &str {
    of(frames, "stream:complete")[0]["text"].as_str().unwrap()
}

async fn messages(server: &Server, session: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/threads/{session}/messages")).await;
    assert_eq!(status, 200, "{page}");
    page["data"].as_array().unwrap().clone()
}

/// Returns the requests to the model, in order.
fn asked(product: &Product) -> Vec<Value> {
    product.upstream().requests().into_iter().map(|request| request.body).collect()
}

fn roles(request: &Value) -> Vec<&str> {
    request["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

fn content(request: &Value, at: usize) -> &str {
    request["messages"][at]["content"].as_str().unwrap_or_default()
}

fn database(product: &Product) -> Connection {
    let database = Connection::open(product.world.path("data").join("rondo.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    database
}

/// The database with nothing left to protect it.
fn unguarded(product: &Product) -> Connection {
    let database = database(product);
    let names: Vec<String> = {
        let mut query = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for name in names {
        database.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    database.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    database
}
