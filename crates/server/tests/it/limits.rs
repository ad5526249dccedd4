//! What one user may hold open, and what a load balancer is told.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use server::Limits;
use testkit::upstream::{Gate, Reply};
use testkit::{Frames, Setup, TestApp};
use tokio::time::timeout;

use crate::support::{RUNS, THREADS, good, problem, refused, rows, say};

const PATIENCE: Duration = Duration::from_secs(20);

async fn with_streams(max_streams_per_user: usize) -> TestApp {
    let limits = Limits { max_streams_per_user, ..Limits::default() };
    TestApp::with(Setup { limits, ..Setup::default() }).await
}

/// Opens a stream as soon as there is room for one.
async fn open_when_there_is_room(app: &TestApp, path: &str) -> Frames {
    let opened = async {
        loop {
            let response = app.request(Method::GET, path).send().await.unwrap();
            if response.status() == 200 {
                return Frames::new(response);
            }
            assert_eq!(response.status(), 429);
        }
    };
    timeout(PATIENCE, opened).await.expect("a closed stream makes room")
}

/// L1: at the bound no further run or thread is followed; messages are still answered.
#[tokio::test]
async fn l1_a_user_has_so_many_streams_and_no_more() {
    let app = with_streams(2).await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    let names = say(&app, "Hi").await;
    let channel = names.channel_path();
    let first = open_when_there_is_room(&app, &channel).await;
    let second = open_when_there_is_room(&app, &channel).await;

    for path in [&channel, &names.events_path()] {
        let response = app.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "5");
        assert_eq!(response.status(), 429);
        let document: serde_json::Value = response.json().await.unwrap();
        assert_eq!(document["code"], "too_many_streams");
        assert_eq!(document["detail"], "2 streams are open already; close one and try again");
    }
    let frames = app.stream(RUNS, &json!({ "message": "Hi" })).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed");

    drop(first);
    let third = open_when_there_is_room(&app, &channel).await;
    refused(app.get(&channel).await, 429, "too_many_streams");
    drop((second, third));
    let _fourth = open_when_there_is_room(&app, &channel).await;
    let _fifth = open_when_there_is_room(&app, &channel).await;
}

/// L1: four times as many messages are answered as streams, and nothing is stored for one more.
#[tokio::test]
async fn l1_a_user_has_so_many_messages_answered_and_no_more() {
    let app = with_streams(1).await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.")
    });
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
        stream.until("text:delta").await; // from here on nothing is stored before the gate opens
        open.push(stream);
    }
    let before = rows(&app);
    let message = json!({ "message": "Hi" });
    for path in [RUNS, "/test/stream"] {
        refused(app.post(path, &message).await, 429, "too_many_streams");
    }
    assert_eq!(rows(&app), before);
    gate.open();
    for stream in open {
        stream.all().await;
    }
    // A stream that has ended makes room by itself, and what is no stream is not counted.
    let names = say(&app, "Again").await;
    open_when_there_is_room(&app, &names.events_path()).await;
    let body = json!({ "message": "Hi", "stream": false });
    assert_eq!(good(app.post(RUNS, &body).await)["status"], "completed");
}

#[tokio::test]
async fn a_refused_stream_does_not_hold_a_place() {
    let app = with_streams(1).await;
    for _ in 0..3 {
        refused(app.get("/v1/threads/thr_x/events").await, 404, "not_found");
        let unknown = "/v1/runs/run_ffffffffffffffffffffffffffffffff/events";
        refused(app.get(unknown).await, 404, "not_found");
        refused(app.post(RUNS, &json!({ "message": " " })).await, 422, "invalid_request");
    }
    let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
    app.follow(&format!("/v1/threads/{thread}/events"), None).await;
}

#[tokio::test]
async fn a_server_that_retires_lives_but_takes_no_work() {
    let app = TestApp::start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    app.engine.retire();
    assert_eq!(app.get("/healthz").await.status, 200);
    let answer = app.get("/readyz").await;
    insta::assert_json_snapshot!(problem(answer));
}
