//! `rondo doctor` on the well and on the sick.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::process::{Ended, Process, connection_refused};
use crate::world::World;

const KEY: &str = "sk-planted-0123456789";

/// A server that gives every request this status and body. Its thread ends with the test's process.
pub(crate) fn server(status: &'static str, body: &'static str, expect: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut head) = (stream.unwrap(), Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let head = String::from_utf8(head).unwrap();
            let known = expect.iter().all(|part| head.contains(part));
            let status = if known { status } else { "418 I'm a teapot" };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    url
}

/// A provider with a list as OpenAI has it, or without one.
fn provider(status: &'static str, body: &'static str) -> String {
    server(status, body, &["GET /v1/models "]) + "/v1"
}

async fn examine(command: &mut Command) -> Ended {
    let ended = Process::start(command).ended().await;
    assert!(!format!("{ended:?}").contains(KEY), "the key is shown: {ended:?}");
    ended
}

fn finding<'a>(ended: &'a Ended, about: &str) -> &'a str {
    let found = ended.output.lines().find(|line| line.contains(about));
    found.unwrap_or_else(|| panic!("nothing about {about:?}: {ended:?}"))
}

#[tokio::test]
async fn all_is_well() {
    let world = World::new().await;
    let url = provider("200 OK", r#"{"data": [{"id": "gpt-6-luna"}, {"id": "other"}]}"#);
    let doctor = || {
        let mut command = world.rondo(&["doctor"]);
        command.env("OPENAI_BASE_URL", &url).env("OPENAI_API_KEY", KEY);
        command
    };
    let ended = examine(&mut doctor()).await;
    let data = world.path("data");
    let report = format!(
        "ok    configuration: defaults and environment (`rondo config` prints a file to start from)\n\
         ok    data folder: {}, which is made at the first start\n\
         ok    app studio: Studio\n\
         ok    provider openai: {url} lists 2 models\n\
         ok    model gpt-6-luna: served by openai\n\
         {known}\n\
         note  server: not running on 127.0.0.1:0; start it with `rondo serve`\n",
        data.display(),
        known = finding(&ended, "known models: as of "), // how fresh it is depends on the day
    );
    assert_eq!((ended.code, ended.output.as_str(), ended.errors.as_str()), (Some(0), report.as_str(), ""));
    assert_eq!(std::fs::read_dir(world.path("")).unwrap().count(), 0, "it leaves nothing behind");

    let server = world.serve().await;
    let ended = examine(doctor().env("RONDO_LISTEN", server.address())).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(finding(&ended, "server:"), format!("ok    server: running on {}", server.address()));
    assert_eq!(finding(&ended, "data folder:"), format!("ok    data folder: {}", data.display()));
}

#[tokio::test]
async fn what_the_provider_says() {
    let world = World::new().await;
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    };
    let refusal = provider("401 Unauthorized", r#"{"error": {"message": "Incorrect API key provided"}}"#);
    let silent = provider("404 Not Found", "");
    let other = provider("200 OK", r#"{"data": [{"id": "llama3"}]}"#);
    for (key, url, code, expected) in [
        (
            KEY,
            &refusal,
            1,
            "BAD   provider openai: {} refused the key (401 Unauthorized); check OPENAI_API_KEY, or the file \
             or \
             variable that rondo.toml names instead",
        ),
        ("", &refusal, 1, "BAD   provider openai: {} asks for a key (401 Unauthorized); set OPENAI_API_KEY"),
        (
            KEY,
            &gone,
            1,
            "BAD   provider openai: {} cannot be reached ({refused}); is it running, and is OPENAI_BASE_URL right?",
        ),
        (KEY, &silent, 0, "note  provider openai: {} answers, but does not list its models (404 Not Found)"),
        ("", &other, 0, "ok    provider openai: {} lists 1 model"),
    ] {
        let ended =
            examine(world.rondo(&["doctor"]).env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", key)).await;
        assert_eq!(
            finding(&ended, "provider openai:"),
            expected.replace("{}", url).replace("{refused}", &connection_refused())
        );
        assert_eq!(ended.code, Some(code), "{ended:?}");
        if url == &other {
            let expected = "note  model gpt-6-luna: openai does not list gpt-6-luna, but llama3; choose one of them \
                            with RONDO_MODEL if it does not answer";
            assert_eq!(finding(&ended, "model gpt-6-luna:"), expected);
        }
    }
}

#[tokio::test]
async fn every_provider_is_asked_in_its_own_way() {
    let world = World::new().await;
    let listed = r#"{"data": [{"id": "claude-sonnet-5-5-20261015"}]}"#;
    let newer = server(
        "200 OK",
        listed,
        &["/v1/models?limit=1000 ", "authorization: Bearer sk-", "anthropic-version: 2026-10-21"],
    );
    let older = server(
        "200 OK",
        listed,
        &["/v1/models?limit=1000 ", "x-api-key: sk-", "anthropic-version: 2023-06-01"],
    );
    let ollama = server("200 OK", r#"{"models": [{"name": "llama3.2:latest"}]}"#, &["GET /api/tags "]);
    world.write(
        "rondo.toml",
        &format!(
            "[providers.older]\nwire = 'anthropic-2023-06-01'\nbase_url = '{older}'\napi_key_env = 'ANTHROPIC_API_KEY'"
        ),
    );
    let mut doctor = world.rondo(&["doctor"]);
    doctor.env_remove("OPENAI_BASE_URL").env("ANTHROPIC_BASE_URL", &newer).env("ANTHROPIC_API_KEY", KEY);
    let ended = examine(doctor.env("OLLAMA_HOST", &ollama)).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for expected in [
        format!("ok    provider anthropic: {newer}/v1 lists 1 model"),
        format!("ok    provider older: {older}/v1 lists 1 model"),
        format!("ok    provider ollama: {ollama} lists 1 model"),
        "ok    model claude-sonnet-5-5: served by anthropic".to_owned(),
    ] {
        assert!(ended.output.lines().any(|line| line == expected), "{expected}\n{ended:?}");
    }
}

#[tokio::test]
async fn a_model_that_an_app_names_must_be_served() {
    let world = World::new().await;
    let url = provider("200 OK", r#"{"data": [{"id": "gpt-6-luna"}]}"#);
    let ollama = server("200 OK", r#"{"models": [{"name": "llama3.2:latest"}]}"#, &["GET /api/tags "]);
    world.write(
        "apps/mine/app.toml",
        "model = 'gpt-9'\nfallbacks = ['nobody', 'ollama/qwen3', 'llama3.2:latest']",
    );
    world.write("apps/mine/instructions.md", "Be kind.");
    world.write("rondo.toml", "[providers.openai]\nopen = false\n[models.'gpt-9']\nprovider = 'openai'");
    let mut doctor = world.rondo(&["doctor", "--apps", "apps"]);
    let ended = examine(doctor.env("OPENAI_BASE_URL", &url).env("OLLAMA_HOST", &ollama)).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for (about, expected) in [
        (
            "model gpt-9:",
            "BAD   model gpt-9: openai does not list gpt-9, but gpt-6-luna; correct the app's app.toml, or id in \
             [models.\"gpt-9\"]",
        ),
        (
            "model ollama/qwen3:",
            "BAD   model ollama/qwen3: ollama does not list qwen3, but llama3.2:latest; get it with `ollama pull qwen3`",
        ),
        ("model llama3.2:latest:", "ok    model llama3.2:latest: served by ollama"),
    ] {
        assert_eq!(finding(&ended, about), expected);
    }
    let ended = examine(world.rondo(&["doctor", "--apps", "apps"]).env("OPENAI_BASE_URL", &url)).await;
    let expected = "BAD   model nobody: no provider serves it, although app mine names it; add \
        [models.\"nobody\"] to \
                    rondo.toml, or choose one of gpt-9";
    assert_eq!(finding(&ended, "model nobody:"), expected);
}

#[tokio::test]
async fn what_is_missing() {
    let world = World::new().await;
    std::fs::create_dir(world.path("none")).unwrap();
    world.write("file", "");
    let mut doctor = world.rondo(&["doctor", "--apps", "none", "--data", "file/data"]);
    let ended = examine(doctor.env_remove("OPENAI_BASE_URL")).await;
    assert_eq!((ended.code, ended.errors.as_str()), (Some(1), "rondo: 3 of 6 checks failed\n"));
    let data = "BAD   data folder: file/data: Not a directory (os error 20); choose another with RONDO_DATA";
    assert_eq!(finding(&ended, "data folder:"), data);
    let apps = "BAD   apps: there is no app in none; make one with `rondo init NAME`";
    assert_eq!(finding(&ended, "apps:"), apps);
    let model = "BAD   model: none is configured; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL for a \
                 local server, or add a provider to rondo.toml, or start Ollama, or get a small model for this process \
                 with `rondo models pull qwen2.5-coder-0.5b`";
    assert_eq!(finding(&ended, "model:"), model);

    world.write("apps/mine/app.toml", "tools = ['clock']");
    world.write("apps/mine/instructions.md", "Be kind.");
    let ended = examine(&mut world.rondo(&["doctor", "--apps", "apps", "--data", "file"])).await;
    let tool = "BAD   app mine: apps/mine/app.toml:1:10: there is no tool named \"clock\"; use one of ask_user, calculate, \
                current_time, update_profile, documents, markdown, memory, proposals, undo, web_search, or remove it";
    assert_eq!(finding(&ended, "app mine:"), tool);
    assert!(finding(&ended, "data folder:").starts_with("BAD"), "{ended:?}");
    world.upstream.violations(); // it does not list its models
}

#[tokio::test]
async fn an_address_that_another_program_has() {
    let world = World::new().await;
    let other = world.upstream.base_url();
    let address = other.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    let ended = examine(world.rondo(&["doctor"]).env("RONDO_LISTEN", address)).await;
    let expected = format!(
        "BAD   server: another program uses {address} (it answers 404 Not Found); choose another address \
         with RONDO_LISTEN"
    );
    assert_eq!((ended.code, finding(&ended, "server:")), (Some(1), expected.as_str()));
    world.upstream.violations(); // it is no server of ours, and does not list its models
}
