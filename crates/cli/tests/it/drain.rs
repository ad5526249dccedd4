//! SIGTERM while runs are under way: streams end at once, runs may end in time, the rest goes on at the next start.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::json;
use testkit::upstream::{Gate, Reply};

use crate::process::within;
use crate::world::{World, names, read_text};

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
    assert!(!ended.errors.contains("handing back"), "{}", ended.errors);
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
            ended.errors.contains("handing back runs; the next start takes them up runs=1"),
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
