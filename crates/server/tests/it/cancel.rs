//! Cancelling a run: at once, for good, with what was said kept (C1, C2, C3).

use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::json;
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp, script};

use crate::support::{Names, RUNS, THREADS, good, prompt, rows, say_in, status_of, wire};

async fn cancel(app: &TestApp, names: &Names) -> Answer {
    app.send(app.request(Method::POST, &format!("{}/cancel", names.run_path()))).await
}

#[tokio::test]
async fn c1_a_cancelled_run_lets_go_of_the_provider_and_keeps_what_was_said() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").text("lo").stall(), Reply::says("Still here.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut frames = Vec::new();
    while !script(&frames).contains("Hello") {
        frames.push(stream.next().await.unwrap());
    }

    let asked = Instant::now();
    let answer = cancel(&app, &names).await;
    assert_eq!(answer.status, 202);
    assert_eq!(good(answer)["cancelRequested"], true);
    let closed = app.upstream.closed(0).await.at.saturating_duration_since(asked);
    println!("from cancel to a closed provider socket: {closed:?}");
    assert!(closed < Duration::from_millis(250), "{closed:?}");

    frames.extend(stream.all().await);
    assert_eq!(status_of(&frames), "cancelled");
    insta::assert_snapshot!("the_log_of_a_cancelled_run", script(&frames));
    insta::assert_json_snapshot!("a_cancelled_run", good(app.get(&names.run_path()).await));
    insta::assert_json_snapshot!(
        "the_messages_of_a_cancelled_run",
        good(app.get(&names.messages_path()).await)
    );

    // The thread goes on, and the model is told what it had said.
    say_in(&app, &names.thread, "Go on").await;
    assert_eq!(prompt(&app, 1), ["user: Hi", "assistant: Hello", "user: Go on"]);
}

#[tokio::test]
async fn c1_a_run_is_cancelled_before_the_provider_has_said_anything() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::silence(), Reply::says("Now.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("step:start").await;
    app.upstream.wait_for_requests(1).await;
    let asked = Instant::now();
    assert_eq!(cancel(&app, &names).await.status, 202);
    let closed = app.upstream.closed(0).await.at.saturating_duration_since(asked);
    assert!(closed < Duration::from_millis(250), "{closed:?}");
    assert_eq!(status_of(&stream.all().await), "cancelled");
    let messages = good(app.get(&names.messages_path()).await);
    assert_eq!(messages["data"].as_array().map(Vec::len), Some(1), "nothing was said: {messages}");
    say_in(&app, &names.thread, "And now?").await;
}

/// Every call has a result, also those the cancelling left without one (T2).
#[tokio::test]
async fn c1_a_run_is_cancelled_while_its_tools_work() {
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"hang\"]")).await;
    app.upstream.script([
        Reply::stream()
            .text("Both. ")
            .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
            .call(ScriptedCall::new("hang", "{}")),
        Reply::says("Now."),
    ]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut frames = stream.read_until("tool:complete").await;
    assert_eq!(cancel(&app, &names).await.status, 202);
    frames.extend(stream.all().await);
    assert_eq!(status_of(&frames), "cancelled");
    let results: Vec<_> = frames.iter().filter(|frame| frame.event == "tool:complete").collect();
    let statuses: Vec<_> = results.iter().map(|frame| (&frame.data["name"], &frame.data["status"])).collect();
    assert_eq!(statuses, [(&json!("echo"), &json!("complete")), (&json!("hang"), &json!("cancelled"))]);
    let messages = good(app.get(&names.messages_path()).await);
    assert_eq!(messages["data"][1]["toolResults"].as_array().map(Vec::len), Some(2), "{messages}");
    // The provider's rules hold for what comes of it; the upstream is strict.
    say_in(&app, &names.thread, "And now?").await;
}

#[tokio::test]
async fn c3_cancelling_again_changes_nothing() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").stall(), Reply::says("Done.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("text:delta").await;
    for _ in 0..3 {
        assert_eq!(cancel(&app, &names).await.status, 202);
    }
    stream.all().await;
    let (run, log, before) =
        (good(app.get(&names.run_path()).await), wire(&app, &names.events_path(), None).await, rows(&app));
    let again = cancel(&app, &names).await;
    assert_eq!((again.status, good(again)), (202, run.clone()));
    assert_eq!(good(app.get(&names.run_path()).await), run);
    assert_eq!(wire(&app, &names.events_path(), None).await, log);
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn c3_a_run_that_has_ended_stays_as_it_is() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Done.")]);
    let names = crate::support::say(&app, "Hi").await;
    let (run, before) = (good(app.get(&names.run_path()).await), rows(&app));
    assert_eq!((&run["status"], &run["cancelRequested"]), (&json!("completed"), &json!(false)));
    let answer = cancel(&app, &names).await;
    assert_eq!((answer.status, good(answer)), (202, run.clone()));
    assert_eq!(good(app.get(&names.run_path()).await), run);
    assert_eq!(rows(&app), before);
}

/// C3: cancelling is honoured from the first moment at which a client can know of the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c3_a_run_can_be_cancelled_as_soon_as_its_first_event_is_seen() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::silence());
    let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
    let mut channel = app.follow(&format!("/v1/threads/{thread}/events"), None).await;
    for _ in 0..40 {
        let body = json!({ "message": "Hi", "threadId": thread, "stream": false });
        let (result, ()) = tokio::join!(app.post(RUNS, &body), async {
            let start = channel.read_until("run:start").await;
            let run = start.last().unwrap().data["runId"].as_str().unwrap().to_owned();
            assert_eq!(cancel(&app, &Names { run, thread: thread.clone() }).await.status, 202);
        });
        assert_eq!(good(result)["status"], "cancelled");
        channel.read_until("run:end").await;
    }
}

/// C3: cancelling and completing at the same time: one of them wins, and all clients see the same one.
#[tokio::test]
async fn c3_a_race_between_cancelling_and_completing_has_one_winner() {
    let app = TestApp::start().await;
    for _ in 0..25 {
        let gate = Gate::new();
        app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
        let names = Names::of(&stream);
        stream.read_until("text:delta").await;
        gate.open();
        assert_eq!(cancel(&app, &names).await.status, 202);
        let rest = stream.all().await;
        let status = status_of(&rest);
        assert!(["completed", "cancelled"].contains(&status.as_str()), "{status}");
        let run = good(app.get(&names.run_path()).await);
        assert_eq!(run["status"], status.as_str());
        assert_eq!(rest.iter().filter(|frame| frame.event == "run:end").count(), 1);
        let messages = good(app.get(&names.messages_path()).await);
        assert_eq!(messages["data"].as_array().map(Vec::len), Some(2), "{messages}");
    }
}

/// C2: cancelling is a row. Stopped right after the 202, the server ends the run when it is back.
#[tokio::test]
async fn c2_a_cancelled_run_is_not_taken_up_after_a_restart() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").stall()]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    stream.read_until("text:delta").await;
    assert_eq!(cancel(&app, &names).await.status, 202);
    let app = app.restart().await;
    app.service.idle().await;
    let run = good(app.get(&names.run_path()).await);
    assert_eq!((&run["status"], &run["cancelRequested"]), (&json!("cancelled"), &json!(true)));
    assert_eq!(app.upstream.requests().len(), 1);
}
