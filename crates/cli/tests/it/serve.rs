//! `rondo serve` with everything as it should be, and without a model.

use std::process::Command;

use serde_json::{Value, json};
use testkit::upstream::{Reply, ScriptedCall};

use crate::process::Process;
use crate::world::{Server, World, names};

/// Returns the result of this tool as the model is told it.
fn result<'a>(body: &'a Value, tool: &str) -> &'a str {
    let messages = body["messages"].as_array().unwrap();
    let mut calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let id = &calls.find(|call| call["function"]["name"] == tool).expect("the tool was called")["id"];
    messages.iter().find(|message| message["tool_call_id"] == *id).unwrap()["content"].as_str().unwrap()
}

#[tokio::test]
async fn a_chat_with_tools_from_end_to_end() {
    let world = World::new().await;
    world.upstream.script([
        Reply::stream()
            .text("Let me see. ")
            .call(ScriptedCall::new("calculate", r#"{"expression": "6 * 7"}"#).fragments(4))
            .call(ScriptedCall::new("current_time", r#"{"timezone": "Asia/Tokyo"}"#)),
        Reply::stream().text("It is ").text("42."),
        Reply::says("As I said, 42."),
    ]);
    let server = world.serve().await;
    let frames = server.say("What is 6 times 7, and what time is it?").await;
    let thread = frames.header("x-thread-id");
    let log = frames.all().await;
    let model = ["step:start", "text:delta", "tool:input", "step:end"];
    let tools = ["tool:start", "tool:complete"];
    let mut seen = names(&log);
    assert_eq!(seen[..3], ["message:user", "run:start", "context:loaded"]);
    assert_eq!(seen[3..7], model);
    seen[7..11].sort_unstable(); // the two calls run side by side
    assert_eq!(seen[7..11], [tools[1], tools[1], tools[0], tools[0]]);
    assert_eq!(seen[11..], ["step:start", "text:delta", "step:end", "stream:complete", "run:end"]);
    assert_eq!(log.iter().map(|frame| frame.id).collect::<Vec<_>>(), Vec::from_iter(1..=log.len() as u64));
    assert_eq!(log.last().unwrap().data["status"], "completed");

    let again = json!({ "message": "Again?", "sessionId": thread, "temperature": 0.5, "model": "other" });
    server.stream("/studio/stream", &again).await.all().await;
    let requests = world.upstream.requests();
    let [first, second, third] = [0, 1, 2].map(|index| &requests[index].body);
    assert_eq!(
        (&first["model"], &third["model"], &third["temperature"]),
        (&json!("gpt-6-luna"), &json!("other"), &json!(0.5))
    );
    let offered =
        first["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap());
    assert_eq!(offered.collect::<Vec<_>>(), ["current_time", "calculate"]);
    for body in [second, third] {
        assert!(result(body, "calculate").contains("42"), "{body}");
        assert!(result(body, "current_time").contains("+09:00"), "{body}");
    }
    let (_, messages) = server.get(&format!("/v1/threads/{thread}/messages")).await;
    let texts: Vec<&str> =
        messages["data"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["What is 6 times 7, and what time is it?", "It is 42.", "Again?", "As I said, 42."]);
    server.process.kill();
    world.audit();
}

#[tokio::test]
async fn without_a_model_it_serves_and_says_what_to_set() {
    let world = World::new().await;
    let server = Server::start(world.rondo(&["serve"]).env_remove("OPENAI_BASE_URL")).await;
    let log = server.process.errors.text();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    let expected = "no model is configured, so runs will fail: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or \
                    OPENAI_BASE_URL for a local server, or add a provider to rondo.toml, or start Ollama, or get a \
                    small model for this process with `rondo models pull qwen2.5-coder-0.5b`";
    assert!(matches!(warnings.as_slice(), [warning] if warning.ends_with(expected)), "{log}");
    let remedy = expected.split_once(": ").unwrap().1;

    let log = server.say("Hello").await.all().await;
    let end = &log.last().unwrap().data;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("model_not_configured")));
    let message = end["error"]["message"].as_str().unwrap();
    assert_eq!(message, format!("no model is configured: {remedy}; then restart the server"));
    let (_, apps) = server.get("/v1/apps").await;
    assert_eq!((&apps["data"][0]["id"], &apps["data"][0]["model"]), (&json!("studio"), &Value::Null));
    server.process.kill();

    let mut doctor = world.rondo(&["doctor"]);
    doctor.env_remove("OPENAI_BASE_URL").env("RONDO_MODEL", "some");
    let report = Process::start(&mut doctor).ended().await.output;
    assert!(
        report.contains("BAD   model: the default model is \"some\", but no provider serves it"),
        "{report}"
    );
}

#[tokio::test]
async fn without_an_app_it_serves_and_says_what_to_add() {
    let world = World::new().await;
    std::fs::create_dir(world.path("none")).unwrap();
    let server = Server::start(world.rondo(&["serve", "--apps", "none"]).env_remove("RONDO_APPS")).await;
    let log = server.process.errors.text();
    assert!(log.contains("there is no app in none; make one with `rondo init NAME`"), "{log}");
    let (status, problem) = server.post("/studio/stream", &json!({ "message": "Hello" })).await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn in_an_empty_folder_it_serves_the_built_in_apps() {
    let world = World::with(&[]).await;
    let doctor = Process::start(world.rondo(&["doctor"]).env_remove("RONDO_APPS")).ended().await;
    let note = "note  apps: there is no folder ./apps, so the built-in apps are served (companion, kalito, studio, \
                trailhead, tutor); `rondo init NAME` makes an app of your own there";
    assert!(doctor.output.lines().any(|line| line == note), "{doctor:?}");
    assert!(!world.path("data").exists(), "the doctor makes nothing");

    world.upstream.program(|_| Reply::says("Forty-two."));
    let server = Server::start(world.rondo(&["serve"]).env_remove("RONDO_APPS")).await;
    let log = server.process.errors.text();
    let hint = "there is no folder ./apps, so the built-in apps are served; `rondo init NAME` makes an app of your own there";
    assert!(log.contains(hint), "{log}");
    let (_, apps) = server.get("/v1/apps").await;
    let ids: Vec<&Value> = apps["data"].as_array().unwrap().iter().map(|app| &app["id"]).collect();
    assert_eq!(ids, ["companion", "kalito", "studio", "trailhead", "tutor"]);
    let end = server.say("Hello").await.all().await;
    assert_eq!(end.last().unwrap().data["status"], json!("completed"));

    let made = Process::start(world.rondo(&["init", "mine"]).env_remove("RONDO_APPS")).ended().await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let note = "Note: the built-in apps (companion, kalito, studio, trailhead, tutor) are not served after the next start";
    assert!(made.output.contains(note), "{made:?}");
    server.process.errors.line("hot reload: the new version of the app is served").await;
    let (status, _) = server.get("/v1/apps/mine/personas").await;
    assert_eq!(status, 200, "a new app is taken up beside the built-in ones");
}

#[tokio::test]
async fn health_says_whether_the_server_accepts_requests() {
    let world = World::new().await;
    let server = world.serve().await;
    let health = world.run(&["health", "--url", &server.url]).await;
    assert_eq!((health.code, health.output.as_str()), (Some(0), "ready\n"), "{health:?}");
    let health = world.run(&["health", "--listen", server.address()]).await;
    assert_eq!(health.code, Some(0), "{health:?}");
    let url = server.url.clone();
    drop(server);
    let health = world.run(&["health", "--url", &url]).await;
    assert_eq!(health.code, Some(1), "{health:?}");
    assert!(health.errors.contains("cannot reach http://127.0.0.1"), "{health:?}");
}

#[tokio::test]
async fn a_log_for_machines_is_json_in_every_line() {
    let world = World::new().await;
    world.write("rondo.toml", "[log]\nformat = \"json\"");
    let server = Server::start(&mut world.rondo(&["serve"])).await;
    for line in server.process.errors.text().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(line["level"], "INFO");
    }
}

/// `serve` by a shell that first limits the files that may be open.
fn limited(world: &World, limit: &str) -> Command {
    let rondo = world.rondo(&[]);
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" serve")).arg(rondo.get_program());
    shell.env_clear().envs(rondo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(rondo.get_current_dir().unwrap());
    shell
}

#[tokio::test]
async fn connections_leave_files_for_everything_else() {
    let world = World::new().await;
    let server = Server::start(&mut limited(&world, "-n 300")).await;
    let warning = "this process may open 300 files, so it serves at most 100 connections instead of 16384, and \
                   at most 50 parallel model calls instead of 8192";
    server.process.errors.line(warning).await;
    server.process.kill();

    // A soft limit is there to be raised.
    let server = Server::start(&mut limited(&world, "-S -n 300")).await;
    assert!(!server.process.errors.text().contains("may open 300 files"));
}
