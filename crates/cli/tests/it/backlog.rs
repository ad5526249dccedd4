//! kill -9 with work waiting: jobs, queued messages, and many runs at once (J1, Q1, Q2, R1).

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use testkit::Frame;
use testkit::upstream::{Gate, Reply};

use crate::cut::{Cut, reply, status};
use crate::process::within;
use crate::world::{Server, World};

const TITLE_PROMPT: &str = "Give this conversation a title.";

/// Returns the last message of a request to the model.
fn said(body: &Value) -> &str {
    body["messages"].as_array().and_then(|all| all.last()?["content"].as_str()).unwrap_or_default()
}

/// Waits until the thread has its name, and gives back its log.
async fn named(server: &Server, thread: &str) -> Vec<Frame> {
    let mut frames = server.follow(&format!("/v1/threads/{thread}/events"), 0).await;
    within("the name", frames.read_until("thread:named")).await;
    server.log(thread).await
}

fn count(log: &[Frame], event: &str) -> usize {
    log.iter().filter(|frame| frame.event == event).count()
}

#[tokio::test]
async fn a_thread_is_named_once_though_the_server_dies_after_the_first_answer() {
    for _ in 0..5 {
        let world = World::new().await;
        world.upstream.program(|_| Reply::says("Of course."));
        let server = world.serve().await;
        let frames = server.say("A plan for Oslo").await;
        let thread = frames.header("x-thread-id");
        assert_eq!(status(&frames.all().await), "completed");
        server.process.kill(); // the job may be waiting, under way or done

        let server = world.serve().await;
        let log = named(&server, &thread).await;
        assert_eq!(count(&log, "thread:named"), 1);
        let (_, view) = server.get(&format!("/v1/threads/{thread}")).await;
        assert_eq!(view["title"], "A plan for Oslo");
        let jobs = world.run(&["jobs"]).await;
        assert_eq!((jobs.code, jobs.output.lines().count()), (Some(0), 1), "{jobs:?}");
        assert!(jobs.output.contains("  done     name_thread  "), "{}", jobs.output);
        server.process.kill();
        world.audit();
    }
}

/// The model is being asked for a title when the server ends, one way or the other.
#[tokio::test]
async fn a_job_that_is_half_done_is_done_again() {
    for signal in ["KILL", "TERM"] {
        let world = World::new().await;
        for (name, text) in [("app.toml", ""), ("instructions.md", "Be kind."), ("title.md", TITLE_PROMPT)] {
            world.write(&format!("apps/mine/{name}"), text);
        }
        let gate = Gate::new();
        let held = gate.clone();
        world.upstream.program(move |body| match body["messages"][0]["content"].as_str() {
            Some(system) if system.contains(TITLE_PROMPT) => Reply::stream().text("Oslo").wait(&held),
            _ => Reply::says("Of course."),
        });
        let serve = || {
            let mut command = world.rondo(&["serve"]);
            command.env("RONDO_APPS", "apps");
            command
        };
        let server = Server::start(&mut serve()).await;
        let frames = server.stream("/mine/stream", &json!({ "message": "Where to?" })).await;
        let thread = frames.header("x-thread-id");
        assert_eq!(status(&frames.all().await), "completed");
        within("the job", gate.reached()).await;
        let begin = Instant::now();
        server.process.signal(signal);
        server.process.ended().await;
        assert!(begin.elapsed() < Duration::from_secs(2), "a job is not waited for: {:?}", begin.elapsed());
        gate.open();

        let server = Server::start(&mut serve()).await;
        let log = named(&server, &thread).await;
        assert_eq!((count(&log, "thread:named"), count(&log, "run:end")), (1, 1));
        assert_eq!(log.last().unwrap().data["title"], "Oslo");
        let (_, jobs) = server.get("/v1/admin/jobs").await;
        assert_eq!((&jobs["data"][0]["status"], &jobs["data"][0]["attempts"]), (&json!("done"), &json!(2)));
        server.process.kill();
        world.audit();
    }
}

#[tokio::test]
async fn queued_messages_are_answered_in_order() {
    let world = World::new().await;
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |body| Reply::stream().text(&format!("Re {}", said(body))).wait(&held));
    let server = world.serve().await;
    let frames = server.say("0").await;
    let thread = frames.header("x-thread-id");
    let mut cuts = vec![Cut::of(Vec::new(), &frames)];
    for message in 1..=6 {
        let body = json!({ "message": message.to_string(), "threadId": thread });
        cuts.push(Cut::of(Vec::new(), &server.stream("/v1/apps/studio/runs", &body).await));
    }
    within("the first answer", gate.reached()).await;
    server.process.kill();
    gate.open();

    let server = world.serve().await;
    for (number, cut) in cuts.into_iter().enumerate() {
        let whole = within("the run to end", cut.follow(&server)).await;
        assert_eq!((status(&whole), reply(&whole)), ("completed", &*format!("Re {number}")));
    }
    let log = server.log(&thread).await;
    let texts = |event: &str| -> Vec<String> {
        let of = log.iter().filter(|frame| frame.event == event);
        of.map(|frame| frame.data["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts("message:user"), ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(texts("stream:complete"), ["Re 0", "Re 1", "Re 2", "Re 3", "Re 4", "Re 5", "Re 6"]);
    assert_eq!((count(&log, "run:start"), count(&log, "run:end"), count(&log, "step:reset")), (7, 7, 1));
    let last = world.upstream.requests().into_iter().rfind(|request| said(&request.body) == "6").unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 14, "instructions, six questions with their answers, and the last question");
    server.process.kill();
    world.audit();
}

#[tokio::test]
async fn hundreds_of_runs_are_owned_again_before_it_is_ready() {
    const RUNS: usize = 200;
    let world = World::with(&[]).await;
    world.write("apps/mine/app.toml", "[limits]\nmax_running = 1000\n");
    world.write("apps/mine/instructions.md", "Be kind.");
    world.write("rondo.toml", "[server]\nmax_model_calls_per_user = 1000\n");
    let serve = || {
        let mut command = world.rondo(&["serve"]);
        command.env("RONDO_APPS", "apps");
        command
    };
    let gate = Gate::new();
    let held = gate.clone();
    world.upstream.program(move |_| Reply::stream().text("Half").wait(&held).text(" and half"));
    let server = Server::start(&mut serve()).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let frames = server.stream("/mine/stream", &json!({ "message": "Hello" })).await;
        runs.push(frames.header("x-run-id")); // and goes away
    }
    within("every run to ask", world.upstream.wait_for_requests(RUNS)).await;
    server.process.kill();

    let begin = Instant::now();
    let server = Server::start(&mut serve()).await; // waits for /readyz
    let ready = begin.elapsed();
    println!("{RUNS} unfinished runs: ready {ready:?} after the start");
    assert!(ready < Duration::from_secs(2), "it took {ready:?}");
    assert!(server.process.errors.text().contains(&format!("resuming unfinished runs runs={RUNS}")));
    for run in &runs {
        let (_, view) = server.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(view["status"], "running");
    }
    within("every run to ask again", world.upstream.wait_for_requests(2 * RUNS)).await;
    gate.open();
    for run in &runs {
        let request = server.request(Method::GET, &format!("/v1/runs/{run}/events"));
        let log = testkit::Frames::new(request.send().await.unwrap()).all().await;
        assert_eq!((status(&log), reply(&log)), ("completed", "Half and half"));
    }
    server.process.kill();
    world.audit();
}
