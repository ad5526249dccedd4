//! A planted key, looked for wherever the server writes (X2).

use serde_json::json;
use testkit::upstream::{Gate, Reply};

use crate::world::{Server, World, files};

const KEY: &str = "sk-planted-0123456789abcdef";

/// The key as it might be written: as it is, in hexadecimal, and in base 64.
fn forms() -> Vec<Vec<u8>> {
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let base64 = "c2stcGxhbnRlZC0wMTIzNDU2Nzg5YWJjZGVm";
    [KEY, &hex, base64].iter().map(|form| form.as_bytes().to_vec()).collect()
}

fn holds_key(bytes: &[u8]) -> bool {
    forms().iter().any(|form| bytes.windows(form.len()).any(|window| window == form))
}

#[tokio::test]
async fn the_key_goes_to_the_provider_and_nowhere_else() {
    let world = World::new().await;
    world.upstream.require_key(KEY);
    let said = format!("Incorrect API key provided: {KEY}. You can find it in your account.");
    let gate = Gate::new();
    world.upstream.script([
        Reply::says("Hello."),
        Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), &said),
        Reply::status(400).error("invalid_request_error", None, &said),
        Reply::stream().text("Half").wait(&gate),
    ]);
    let server =
        Server::start(world.rondo(&["serve"]).env("OPENAI_API_KEY", KEY).env("RONDO_LOG", "trace")).await;
    let mut seen = String::new();
    for expected in ["completed", "failed", "failed"] {
        let log = server.say("Hello").await.all().await;
        assert_eq!(log.last().unwrap().data["status"], expected);
        seen.push_str(&format!("{log:?}"));
    }
    let mut frames = server.say("Hello").await;
    let run = frames.header("x-run-id");
    frames.read_until("text:delta").await;
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    seen.push_str(&format!("{:?}", frames.all().await));
    seen.push_str(&server.get("/v1/apps").await.1.to_string());
    server.process.signal("TERM");
    let ended = server.process.ended().await;
    assert!(ended.errors.contains("TRACE"), "everything is logged: {}", ended.errors);
    seen.push_str(&format!("{ended:?}"));
    assert!(!holds_key(seen.as_bytes()), "{seen}");
    let files = files(&world.path("data"));
    assert!(files.iter().any(|(path, _)| path.ends_with("rondo.db")), "{files:?}");
    for (path, bytes) in files {
        assert!(!holds_key(&bytes), "{} holds the key", path.display());
    }
    world.audit();
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_not_quoted() {
    let world = World::new().await;
    world.write("key", &format!("{KEY}\nand another"));
    world.write("file.toml", "[providers.openai]\napi_key_file = 'key'");
    let refused = world.run(&["serve", "--config", "file.toml"]).await;
    let expected =
        "rondo: key: this is not a key: it is empty, or contains spaces or line breaks; write only the key\n";
    assert_eq!((refused.code, refused.errors.as_str()), (Some(1), expected));
    world.write("inline.toml", &format!("[providers.openai]\napi_key = '{KEY}'"));
    let refused = world.run(&["serve", "--config", "inline.toml"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.errors.starts_with("rondo: inline.toml:2:1: unknown key \"api_key\"; "),
        "{}",
        refused.errors
    );
    assert!(!holds_key(refused.errors.as_bytes()), "{}", refused.errors);
}
