//! SIGTERM while runs are under way: streams end at once, runs may end in time, the rest goes on at the next start.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};

use crate::process::within;
use crate::world::{Server, World, names, read_text, send};

/// An app whose one tool can be undone by another request.
const DESK: &str = r#"name = "Desk"
[tool.open]
description = "Opens a ticket."
effect = "reversible"
parameters = { type = "object" }
[tool.open.http]
method = "POST"
url = "WEB/tickets"
[[tool.open.flow]]
[tool.open.undo]
method = "DELETE"
url = "WEB/tickets/{{ output.id }}"
"#;

/// A world with that app, a server in it that has `drain_seconds` to stop, and the path at which its one action is
/// undone.
async fn with_an_action(web: &Web, drain_seconds: u32) -> (World, Server, String) {
    let world = World::with(&[]).await;
    world.write("apps/desk/app.toml", &DESK.replace("WEB", &web.url()));
    world.write("apps/desk/instructions.md", "Help.");
    let config = format!("[server]\ndrain_seconds = {drain_seconds}\n[egress]\nallow = [{:?}]", web.host());
    world.write("rondo.toml", &config);
    web.on("POST", "/tickets", [web::WebReply::json(&json!({ "id": 1 }))]);
    world.upstream.script([Reply::stream().call(ScriptedCall::new("open", "{}")), Reply::says("Done.")]);
    let server = desk(&world).await;
    let (status, run) =
        server.post("/v1/apps/desk/runs", &json!({ "message": "Open it", "stream": false })).await;
    assert_eq!((status, &run["status"]), (200, &json!("completed")), "{run}");
    let (_, actions) = server.get("/v1/apps/desk/actions").await;
    let undo = format!("/v1/actions/{}/undo", actions["data"][0]["id"].as_str().expect("an action"));
    (world, server, undo)
}

async fn desk(world: &World) -> Server {
    Server::start(world.rondo(&["serve"]).env("RONDO_APPS", world.path("apps"))).await
}

/// The time is for what users asked for, too: an undo that ends in it is done, and says so.
#[tokio::test]
async fn an_undo_that_ends_in_time_is_done() {
    let (web, gate) = (Web::start().await, Gate::new());
    let (world, server, undo) = with_an_action(&web, 20).await;
    web.on("DELETE", "/tickets/1", [web::WebReply::status(204).wait(&gate)]);
    let undone = send(server.request(Method::POST, &undo));
    let (answer, ended) = tokio::join!(undone, async {
        web.wait_for(2).await;
        server.process.signal("TERM");
        server.process.errors.contains("stopping: streams close now").await;
        gate.open();
        server.process.ended().await
    });
    assert_eq!((answer.0, &answer.1["status"]), (200, &json!("complete")), "{}", answer.1);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(!ended.errors.contains("letting go"), "{}", ended.errors);
    world.audit();
}

/// All requests under way share one time limit. A call that an external server never answers is abandoned, and the next
/// start ends it.
#[tokio::test]
async fn an_undo_that_does_not_end_in_time_is_let_go() {
    let (web, gate) = (Web::start().await, Gate::new());
    let (world, server, undo) = with_an_action(&web, 1).await;
    let again = web::WebReply::status(204);
    web.on("DELETE", "/tickets/1", [web::WebReply::status(204).wait(&gate), again]);
    let undone = send(server.request(Method::POST, &undo));
    let (answer, (took, ended)) = tokio::join!(undone, async {
        web.wait_for(2).await;
        let begin = Instant::now();
        server.process.signal("TERM");
        let ended = server.process.ended().await;
        (begin.elapsed(), ended)
    });
    assert!(took < Duration::from_secs(4), "the process took {took:?} to end");
    assert_eq!((answer.0, &answer.1["code"]), (503, &json!("unavailable")), "{}", answer.1);
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("abandoning approved calls and undos"), "{}", ended.errors);

    let server = desk(&world).await;
    web.wait_for(3).await; // it may be asked for again, so it is
    let action = undo.trim_end_matches("/undo");
    let undone = async {
        while server.get(action).await.1["undone"] != Value::Bool(true) {
            tokio::task::yield_now().await;
        }
    };
    within("the undo to end", undone).await;
    server.process.kill();
    world.audit();
}

/// Reads on until `part` has come, or to the end.
async fn read(response: &mut Response, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) || part.is_empty() {
        let Some(chunk) = response.chunk().await.expect("the stream is readable") else { break };
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

#[tokio::test]
async fn a_run_that_ends_in_time_is_whole() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("Half").wait(&gate).text(" and half")]);
    let server = world.serve().await;
    let body = json!({ "message": "Tell me" });
    let mut stream =
        server.request(Method::POST, "/studio/stream").json(&body).send().await.expect("the server answers");
    let run = stream.headers()["x-run-id"].to_str().unwrap().to_owned();
    read(&mut stream, "Half").await;
    let begin = Instant::now();
    server.process.signal("TERM");
    let rest = within("the stream to end", read(&mut stream, "")).await;
    println!("the stream ended {:?} after the signal", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
    let last = rest.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("retry: "), "{rest:?}");
    let refused =
        server.request(Method::POST, "/studio/stream").json(&body).send().await.expect("it still answers");
    assert_eq!(refused.status(), 503, "no run begins now");
    assert_eq!(server.get("/readyz").await.0, 503, "and probes see that it is going");
    assert_eq!(server.get(&format!("/v1/runs/{run}")).await.0, 200);
    assert_eq!(world.upstream.requests().len(), 1);
    gate.open();
    let ended = server.process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(ended.errors.contains("stopping: streams close now, runs have 25 s to end"), "{}", ended.errors);
    assert!(!ended.errors.contains("stopping with unfinished runs"), "{}", ended.errors);
    world.audit();

    let server = world.serve().await;
    let log = server.follow(&format!("/v1/runs/{run}/events"), 0).await.all().await;
    assert_eq!(names(&log)[3..], ["step:start", "text:delta", "step:end", "stream:complete", "run:end"]);
    let complete = &log[log.len() - 2].data["text"];
    assert_eq!(complete, "Half and half");
    assert_eq!(world.upstream.requests().len(), 1, "it was not asked again");
}

#[tokio::test]
async fn a_run_that_does_not_is_handed_back() {
    for seconds in [0, 1] {
        let world = World::new().await;
        world.write("rondo.toml", &format!("[server]\ndrain_seconds = {seconds}"));
        let gate = Gate::new();
        world.upstream.script([Reply::stream().text("Half").wait(&gate), Reply::says("Whole.")]);
        let server = world.serve().await;
        let mut frames = server.say("Tell me").await;
        let events = format!("/v1/runs/{}/events", frames.header("x-run-id"));
        let mut log = read_text(&mut frames, "Half").await;
        let begin = Instant::now();
        server.process.signal("TERM");
        log.extend(frames.all().await); // ends in good order, or this panics
        let ended = server.process.ended().await;
        let limit = Duration::from_secs(seconds + 2);
        assert!(begin.elapsed() < limit, "the process took {:?} to end", begin.elapsed());
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        assert!(
            ended
                .errors
                .contains("stopping with unfinished runs; the next start of the server resumes them runs=1"),
            "{}",
            ended.errors
        );

        let server = world.serve().await;
        log.extend(server.follow(&events, log.last().unwrap().id).await.all().await);
        assert_eq!(
            names(&log)[4..],
            ["text:delta", "step:reset", "text:delta", "step:end", "stream:complete", "run:end"]
        );
        assert_eq!(log.last().unwrap().data["status"], "completed");
        server.process.kill();
        world.audit();
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_runs() {
    let world = World::new().await;
    let gate = Gate::new();
    world.upstream.script([Reply::stream().text("Half").wait(&gate), Reply::says("Whole.")]);
    let server = world.serve().await;
    let mut frames = server.say("Tell me").await;
    let events = format!("/v1/runs/{}/events", frames.header("x-run-id"));
    read_text(&mut frames, "Half").await;
    server.process.signal("TERM");
    server.process.errors.contains("stopping: streams close now").await;
    let begin = Instant::now();
    server.process.signal("INT");
    let ended = server.process.ended().await;
    assert!(begin.elapsed() < Duration::from_secs(1), "it took {:?}", begin.elapsed());
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(!world.path("data/control.json").exists(), "it is a clean end");

    let server = world.serve().await;
    let log = server.follow(&events, 0).await.all().await;
    assert_eq!(log.last().unwrap().data["status"], "completed");
    server.process.kill();
    world.audit();
}
