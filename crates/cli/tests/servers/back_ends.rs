//! The back ends in `docs/authentication.md`, run as they stand there, with an acting key and the real binary.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply};

use crate::process::Process;
use crate::world::{Server, World, send};

const PAGE: &str = include_str!("../../../../docs/authentication.md");

/// The code of the reader: the name of the user who is signed in, here from a plain cookie.
const SESSION: &str = "export const userOf = ({ headers }) => {
  const cookie = (headers.get ? headers.get('cookie') : headers.cookie) ?? ''
  return decodeURIComponent(/user=([^;]+)/.exec(cookie)?.[1] ?? '')
}\n";

/// The beginning of what a back end logs if it cannot reach Rondo.
const LOGGED: &str = "The request to Rondo failed:";

/// Writes the block of the page whose first line is a comment with this path.
fn write_block(world: &World, path: &str) {
    let begin = format!("```js\n// {path}\n");
    let (_, block) = PAGE.split_once(&begin).unwrap_or_else(|| panic!("the page has no {path}"));
    world.write(path, block.split_once("\n```").unwrap().0);
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Checks the output of a client whose back end cannot reach Rondo.
fn check_lost(output: &str) {
    let seen: Value = serde_json::from_str(output).unwrap();
    let detail = "The agent server cannot be reached.";
    assert_eq!(seen, json!([502, { "status": 502, "detail": detail }]));
}

struct Product {
    world: World,
    server: Server,
    key: String,
}

impl Product {
    async fn start() -> Self {
        let world = World::new().await;
        let made = world.run(&["keys", "add", "backend", "--acts-for", "any"]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let server = world.serve().await;
        world.write("package.json", r#"{ "type": "module" }"#);
        world.write("session.js", SESSION);
        world.write("back_ends.mjs", include_str!("back_ends.mjs"));
        Self { world, server, key: made.output.trim().to_owned() }
    }

    fn node(&self, script: &str) -> Command {
        let mut node = Command::new("node");
        node.arg(self.world.path(script)).env("RONDO_URL", &self.server.url).env("RONDO_KEY", &self.key);
        node
    }

    /// The script with the address of a Rondo that is not there.
    fn lost_node(&self, script: &str) -> Command {
        let mut node = self.node(script);
        node.env("RONDO_URL", format!("http://127.0.0.1:{}", free_port()));
        node
    }

    /// Sends the requests of a client through the back end, and checks that its answer streams.
    async fn try_out(&self, to: &str) {
        let gate = Gate::new();
        self.world.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let client = Process::start(self.node("back_ends.mjs").arg(to));
        // The beginning arrives while the model is still silent.
        client.errors.line("delta").await;
        gate.open();
        let ended = client.ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let seen: Value = serde_json::from_str(&ended.output).unwrap();
        assert_eq!(seen["stranger"], 401, "{seen}");
        assert_eq!(seen["kind"], "text/event-stream", "{seen}");
        let events = seen["events"].as_str().unwrap();
        assert!(events.contains(r#""actor":"backend""#) && events.contains("event: run:end"), "{events}");
        let resumed = seen["resumed"].as_str().unwrap();
        assert!(!resumed.contains("id: 1\n") && resumed.contains("event: run:end"), "{resumed}");
        let access = &seen["access"];
        assert_eq!((&access["user"], &access["actor"]), (&json!("alice"), &json!("backend")), "{access}");
        let detail = "The id of the user must be 1 to 200 visible ASCII characters.";
        assert_eq!(seen["foreign"], json!([400, { "status": 400, "detail": detail }]), "{seen}");
        assert_eq!(seen["guarded"], json!([404, 404, 404, 404, 404]), "{seen}");
        assert_eq!(seen["etag"], "\"1\"", "{seen}");
    }

    async fn threads(&self, user: &str) -> usize {
        let request = self.server.request(Method::GET, "/v1/apps/studio/threads").bearer_auth(&self.key);
        let (status, threads) = send(request.header("x-rondo-user", user)).await;
        assert_eq!(status, 200, "{threads}");
        threads["data"].as_array().unwrap().len()
    }
}

#[tokio::test]
async fn the_route_handler_for_next_js_streams_answers() {
    let product = Product::start().await;
    write_block(&product.world, "app/api/rondo/[...path]/route.js");
    product.try_out("next").await;
    assert_eq!((product.threads("alice").await, product.threads("bob").await), (1, 0));
    let ended = Process::start(product.lost_node("back_ends.mjs").args(["next", "lost"])).ended().await;
    assert!(ended.errors.contains(LOGGED), "{ended:?}");
    check_lost(&ended.output);
}

#[tokio::test]
async fn the_back_end_without_a_framework_streams_answers() {
    let product = Product::start().await;
    write_block(&product.world, "server.js");
    let port = free_port();
    let back_end = Process::start(product.node("server.js").env("PORT", port.to_string()));
    back_end.output.line("ready").await;
    product.try_out(&format!("http://localhost:{port}")).await;
    assert_eq!((product.threads("alice").await, product.threads("bob").await), (1, 0));
    assert_eq!(back_end.errors.text(), "");

    let port = free_port();
    let lost = Process::start(product.lost_node("server.js").env("PORT", port.to_string()));
    lost.output.line("ready").await;
    let url = format!("http://localhost:{port}");
    let ended = Process::start(product.node("back_ends.mjs").args([&url, "lost"])).ended().await;
    check_lost(&ended.output);
    lost.errors.line(LOGGED).await;
}
