//! The real binary against other people's software: the reference server of MCP over both of its transports, a
//! description that everybody knows, the client of the AI SDK, an identity provider, and the back ends of the documents.
//!
//! `cargo xtask test` fetches the packages into `target/real-servers`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "helpers of tests may fail like the tests themselves, and are shared with tests that need more of them"
)]

mod ai_sdk;
mod back_ends;
mod oidc;
#[path = "../it/process.rs"]
mod process;
#[path = "../it/results.rs"]
mod results;
#[path = "../it/world.rs"]
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

use process::{Process, within};
use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};
use world::{Server, World};

const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-servers/node_modules");

fn package(path: &str) -> String {
    let file = Path::new(PACKAGES).join(path);
    assert!(file.exists(), "{} is not there; `cargo xtask test` fetches it", file.display());
    file.to_str().unwrap().to_owned()
}

/// Puts a script beside the packages, which it finds from where it lies. Several tests put the same one at the same
/// time, and no test may read a half of it.
fn script(name: &str, text: &str) -> PathBuf {
    let script = Path::new(PACKAGES).with_file_name(name);
    let part = script.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, text).unwrap();
    std::fs::rename(&part, &script).unwrap();
    script
}

fn everything() -> String {
    package("@modelcontextprotocol/server-everything/dist/index.js")
}

fn write_app(world: &World, servers: &str) {
    world.write("apps/demo/app.toml", &format!("name = \"Demo\"\n{servers}"));
    world.write("apps/demo/instructions.md", "Do what you are asked.\n");
}

fn rondo(world: &World, args: &[&str]) -> Command {
    let mut command = world.rondo(args);
    command.env("RONDO_APPS", world.path("apps")).env("PATH", env!("PATH"));
    command.env("OPENAI_API_KEY", "sk-not-for-tools");
    command
}

/// Waits until the tools of the app's server are known.
async fn seen(server: &Server, name: &str) -> Vec<String> {
    let listed = async {
        loop {
            let (_, apps) = server.get("/v1/apps").await;
            let tools: Vec<String> = serde_json::from_value(apps["data"][0]["tools"].clone()).unwrap();
            if tools.iter().any(|tool| tool.starts_with(name)) {
                return tools;
            }
            tokio::task::yield_now().await;
        }
    };
    within("the tools of the server", listed).await
}

/// Returns the results of a run that makes these calls, by name.
async fn call(world: &World, server: &Server, calls: &[(&str, Value)]) -> Vec<(String, bool, Value)> {
    let step = calls.iter().fold(Reply::stream(), |reply, (name, input)| {
        reply.call(ScriptedCall::new(name, &input.to_string()))
    });
    world.upstream.script([step, Reply::says("Done.")]);
    let (status, run) = server.post("/v1/apps/demo/runs", &json!({ "message": "Go", "stream": false })).await;
    assert_eq!((status, &run["status"]), (200, &json!("completed")), "{run}");
    let results = run["toolResults"].as_array().unwrap().iter();
    let told = |result: &Value| {
        (result["name"].as_str().unwrap().to_owned(), result["success"] == true, result["result"].clone())
    };
    results.map(told).collect()
}

fn of<'a>(results: &'a [(String, bool, Value)], name: &str) -> (bool, &'a Value) {
    let (_, success, result) = results.iter().find(|(tool, ..)| tool == name).unwrap();
    (*success, result)
}

/// Everything that the reference server can be asked here, over whichever transport.
async fn uses_everything(world: &World, server: &Server) {
    let tools = seen(server, "everything__").await;
    for tool in ["everything__echo", "everything__get-sum", "everything__get-structured-content"] {
        assert!(tools.iter().any(|name| name == tool), "{tool} is not among {tools:?}");
    }
    let calls = [
        ("everything__echo", json!({ "message": "hello" })),
        ("everything__get-sum", json!({ "a": 2, "b": 3 })),
        ("everything__get-structured-content", json!({ "location": "New York" })),
        ("everything__get-tiny-image", json!({})),
        ("everything__get-resource-links", json!({ "count": 2 })),
        ("everything__trigger-long-running-operation", json!({ "duration": 1, "steps": 4 })),
        ("everything__get-env", json!({})),
    ];
    let results = call(world, server, &calls).await;
    assert_eq!(of(&results, "everything__echo"), (true, &json!("Echo: hello")));
    assert_eq!(of(&results, "everything__get-sum"), (true, &json!("The sum of 2 and 3 is 5.")));
    assert!(of(&results, "everything__get-structured-content").1["temperature"].is_number());
    let image = of(&results, "everything__get-tiny-image").1.as_str().unwrap();
    assert!(image.contains("image/png") && image.contains("was left out"), "{image}");
    assert!(of(&results, "everything__get-resource-links").0);
    assert!(of(&results, "everything__trigger-long-running-operation").0);
    assert!(!of(&results, "everything__get-env").1.to_string().contains("sk-not-for-tools"));
    // A call that does not fit the schema never leaves.
    let wrong = call(world, server, &[("everything__get-sum", json!({ "a": "two" }))]).await;
    assert_eq!(of(&wrong, "everything__get-sum").1["error"], "invalid_arguments");
}

const ALL_READ: &str = r#"
[tool.everything__echo]
effect = "read"
[tool.everything__get-sum]
effect = "read"
[tool.everything__get-structured-content]
effect = "read"
[tool.everything__get-tiny-image]
effect = "read"
[tool.everything__get-resource-links]
effect = "read"
[tool.everything__trigger-long-running-operation]
effect = "read"
[tool.everything__get-env]
effect = "read"
"#;

#[tokio::test]
async fn the_reference_server_over_its_input_and_output() {
    let world = World::new().await;
    let config =
        format!("[mcp.everything]\ncommand = \"node\"\nargs = [{:?}, \"stdio\"]\n{ALL_READ}", everything());
    write_app(&world, &config);
    let server = Server::start(&mut rondo(&world, &["serve"])).await;
    uses_everything(&world, &server).await;
}

#[tokio::test]
async fn the_reference_server_over_http() {
    let world = World::new().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("node");
    command.args([&everything(), "streamableHttp"]).env("PORT", port.to_string());
    let other = Process::start(&mut command);
    other.errors.line("listening on port").await;
    write_app(&world, &format!("[mcp.everything]\nurl = \"http://127.0.0.1:{port}/mcp\"\n{ALL_READ}"));
    let mut command = rondo(&world, &["serve"]);
    let server = Server::start(command.env("RONDO_EGRESS_ALLOW", format!("127.0.0.1:{port}"))).await;
    uses_everything(&world, &server).await;
}

/// A server of the newer protocol alone, over both transports: the older handshake is refused by it.
#[tokio::test]
async fn a_server_that_knows_only_the_newer_protocol() {
    let world = World::new().await;
    let script = script("newer.mjs", include_str!("newer.mjs"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let other = Process::start(Command::new("node").arg(&script).arg(port.to_string()));
    other.errors.line("ready").await;
    let config = format!(
        "[mcp.host]\nurl = \"http://127.0.0.1:{port}/mcp\"\n[mcp.pipe]\ncommand = \"node\"\nargs = [{script:?}, \"stdio\"]\n\
         [tool.host__greet]\neffect = \"read\"\n[tool.pipe__greet]\neffect = \"read\"\n"
    );
    write_app(&world, &config);
    let mut command = rondo(&world, &["serve"]);
    let server = Server::start(command.env("RONDO_EGRESS_ALLOW", format!("127.0.0.1:{port}"))).await;
    seen(&server, "host__").await;
    seen(&server, "pipe__").await;
    let calls = [("host__greet", json!({ "name": "Ann" })), ("pipe__greet", json!({ "name": "Bob" }))];
    let results = call(&world, &server, &calls).await;
    for (tool, name) in [("host__greet", "Ann"), ("pipe__greet", "Bob")] {
        let (success, said) = of(&results, tool);
        let said = said.as_str().unwrap();
        assert!(success && said.starts_with(&format!("Hello {name}, key \"call_")), "{tool}: {said}");
    }
}

/// The public pet store, as its description says, with a host of our own behind it.
#[tokio::test]
async fn a_public_description_becomes_tools_that_work() {
    let (world, web) = (World::new().await, Web::start().await);
    write_app(&world, "");
    let description = package("@readme/oas-examples/3.0/json/petstore.json");
    let url = web.url();
    let args =
        ["tools", "import", "openapi", &description, "--app", "demo", "--base-url", &url, "--prefix", "pets"];
    let imported = Process::start(&mut rondo(&world, &args)).ended().await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let rex = json!({ "id": 7, "name": "Rex", "status": "available" });
    web.on("GET", "/pet/7", [web::WebReply::json(&rex)]);
    web.on("POST", "/pet", [web::WebReply::json(&rex)]);
    let mut command = rondo(&world, &["serve"]);
    command.env("RONDO_SECRET_PETS_API_KEY", "pet-key").env("RONDO_SECRET_PETS_PETSTORE_AUTH", "pet-token");
    let server = Server::start(command.env("RONDO_EGRESS_ALLOW", web.host())).await;
    let results = call(&world, &server, &[("pets_getPetById", json!({ "petId": 7 }))]).await;
    assert_eq!(of(&results, "pets_getPetById"), (true, &rex));
    adds_a_pet(&world, &server).await;
    let arrivals = web.arrivals();
    assert_eq!(arrivals[0].header("api_key"), Some("pet-key"));
    assert_eq!(arrivals[1].header("authorization"), Some("Bearer pet-token"));
    assert_eq!(arrivals[1].json(), json!({ "name": "Rex", "photoUrls": [] }));
    assert!(arrivals.iter().all(|arrival| arrival.header("idempotency-key").is_some()));
}

/// An action that cannot be undone needs approval first.
async fn adds_a_pet(world: &World, server: &Server) {
    let add = ScriptedCall::new("pets_addPet", r#"{"name":"Rex","photoUrls":[]}"#);
    world.upstream.script([Reply::stream().call(add), Reply::says("Added.")]);
    let (_, run) = server.post("/v1/apps/demo/runs", &json!({ "message": "Add Rex", "stream": false })).await;
    assert_eq!(run["status"], "waiting", "{run}");
    let proposal = run["proposals"][0]["id"].as_str().unwrap();
    let (confirmed, _) = server.post(&format!("/v1/proposals/{proposal}/confirm"), &json!({})).await;
    assert_eq!(confirmed, 200);
    let run = run["runId"].as_str().unwrap();
    let events = server.follow(&format!("/v1/runs/{run}/events"), 0).await.all().await;
    assert_eq!(events.last().unwrap().data["status"], "completed");
}
