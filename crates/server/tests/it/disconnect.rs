//! Clients that go away: a run does not notice (S4).

use serde_json::{Value, json};
use testkit::TestApp;
use testkit::upstream::{Gate, Reply};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Names, RUNS, good, prompt, say_in, status_of};

async fn assert_answered(app: &TestApp, names: &Names) {
    assert_eq!(good(app.get(&names.run_path()).await)["status"], "completed");
    let messages = good(app.get(&names.messages_path()).await);
    assert_eq!(messages["data"][1]["text"], "Hello.");
    let frames = app.follow(&names.events_path(), None).await.all().await;
    assert_eq!(status_of(&frames), "completed");
}

#[tokio::test]
async fn s4_a_client_that_leaves_in_the_middle_does_not_stop_the_run() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo."), Reply::says("Welcome back.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut follower = app.follow(&names.events_path(), None).await;
    stream.read_until("text:delta").await;
    follower.read_until("text:delta").await;
    drop(stream);
    drop(follower);
    gate.open();
    app.service.idle().await;
    assert_answered(&app, &names).await;
    say_in(&app, &names.thread, "I am back").await;
    assert_eq!(prompt(&app, 1), ["user: Hi", "assistant: Hello.", "user: I am back"]);
}

#[tokio::test]
async fn s4_a_client_that_leaves_before_its_answer_does_not_stop_the_run() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let body = json!({ "message": "Hi", "stream": false });
    tokio::select! {
        answer = app.post(RUNS, &body) => panic!("the gate is closed: {answer:?}"),
        () = gate.reached() => {}
    }
    gate.open();
    app.service.idle().await;
    let thread = good(app.get(crate::support::THREADS).await)["data"][0]["id"].as_str().unwrap().to_owned();
    let messages = good(app.get(&format!("/v1/threads/{thread}/messages")).await);
    let run = messages["data"][1]["runId"].as_str().unwrap().to_owned();
    assert_answered(&app, &Names { run, thread }).await;
}

/// A client that hangs up with its request still on the way leaves a whole run or none.
#[tokio::test]
async fn s4_a_client_that_hangs_up_at_once_leaves_a_whole_run_or_none() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Hello."));
    let address = app.url.strip_prefix("http://").unwrap();
    let body = json!({ "message": "Hi" }).to_string();
    let head = format!(
        "POST {RUNS} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let request = format!("{head}{body}");
    for cut in (0..request.len()).step_by(9).chain([request.len(); 20]) {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&request.as_bytes()[..cut]).await.unwrap();
        socket.set_zero_linger().unwrap();
        drop(socket);
    }
    // One that stays, so that those before it have been taken in.
    let stayed: Value = good(app.post(RUNS, &json!({ "message": "Hi", "stream": false })).await);
    assert_eq!(stayed["status"], "completed");
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM runs WHERE status <> 'completed'"), 0);
    let (threads, runs) = (app.count("SELECT count(*) FROM threads"), app.count("SELECT count(*) FROM runs"));
    assert_eq!(threads, runs);
    assert_eq!(app.count("SELECT count(*) FROM messages"), 2 * runs);
}
