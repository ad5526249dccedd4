//! Deleting a thread: gone at once for all readers, its run stopped, its rows purged.

use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::json;
use testkit::TestApp;
use testkit::upstream::{Reply, ScriptedCall};

use crate::support::{Names, RUNS, THREADS, delete, good, patch, refused, rows, say, say_in};

/// Everything by which a thread can be reached says 404.
async fn assert_gone(app: &TestApp, names: &Names) {
    let paths = [
        names.thread_path(),
        names.messages_path(),
        names.channel_path(),
        names.run_path(),
        names.events_path(),
    ];
    for path in paths {
        refused(app.get(&path).await, 404, "not_found");
    }
    refused(patch(app, &names.thread_path(), &json!({ "title": "x" })).await, 404, "not_found");
    refused(delete(app, &names.thread_path()).await, 404, "not_found");
    let cancel = app.request(Method::POST, &format!("{}/cancel", names.run_path()));
    refused(app.send(cancel).await, 404, "not_found");
    refused(app.post(RUNS, &json!({ "message": "Hi", "threadId": names.thread })).await, 404, "not_found");
    let chat = json!({ "message": "Hi", "sessionId": names.thread });
    refused(app.post("/test/stream", &chat).await, 404, "not_found");
    let list = good(app.get(THREADS).await);
    assert!(!list.to_string().contains(&names.thread), "{list}");
}

#[tokio::test]
async fn a_deleted_thread_is_gone_and_its_neighbour_stays() {
    let app = TestApp::start().await;
    app.upstream.script([
        Reply::says("Kept."),
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"a"}"#)),
        Reply::says("Gone."),
        Reply::says("Gone too."),
    ]);
    let kept = say(&app, "Stay").await;
    let before = rows(&app);
    let names = say(&app, "Go").await;
    say_in(&app, &names.thread, "Go on").await;
    assert_ne!(rows(&app), before);

    let answer = delete(&app, &names.thread_path()).await;
    assert_eq!((answer.status, answer.content_type.as_str()), (204, ""));
    assert_gone(&app, &names).await;
    app.service.idle().await;
    assert_eq!(rows(&app), before);
    assert_gone(&app, &names).await;
    assert_eq!(good(app.get(&kept.messages_path()).await)["data"][1]["text"], "Kept.");
}

/// As cancelling does (C1): the provider is let go of within 250 ms.
#[tokio::test]
async fn deleting_a_thread_stops_its_run_and_ends_its_streams() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Hel").stall()]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let mut channel = app.follow(&names.channel_path(), None).await;
    stream.read_until("text:delta").await;
    channel.read_until("text:delta").await;

    let asked = Instant::now();
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    let closed = app.upstream.closed(0).await.at.saturating_duration_since(asked);
    assert!(closed < Duration::from_millis(250), "{closed:?}");
    assert_gone(&app, &names).await;
    // They see the end of the run, and then they end.
    for frames in [stream.all().await, channel.all().await] {
        let last = frames.last().expect("the end of the run");
        assert_eq!((last.event.as_str(), &last.data["status"]), ("run:end", &json!("cancelled")));
    }
    app.service.idle().await;
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "{:?}", rows(&app));
}

#[tokio::test]
async fn deleting_a_thread_whose_run_waits_for_a_yes_deletes_it_at_once() {
    let app = TestApp::with(testkit::Setup::app("tools = [\"risky\"]")).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("risky", "{}"))]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Do it" })).await;
    let names = Names::of(&stream);
    stream.read_until("proposal:open").await;
    app.service.idle().await;
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    assert_eq!(stream.all().await.last().expect("the end of the run").data["status"], "cancelled");
    app.service.idle().await;
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "{:?}", rows(&app));
}

/// A client that waits for the whole answer is told, and does not wait for ever.
#[tokio::test]
async fn deleting_a_thread_answers_whoever_waits_for_its_result() {
    let app = TestApp::start().await;
    let gate = testkit::upstream::Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate)]);
    let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
    let body = json!({ "message": "Hi", "threadId": thread, "stream": false });
    let path = format!("/v1/threads/{thread}");
    let (waited, deleted) = tokio::join!(app.post(RUNS, &body), async {
        gate.reached().await;
        delete(&app, &path).await
    });
    assert_eq!(deleted.status, 204);
    refused(waited, 404, "not_found");
}

/// A thread may be deleted by one client in the moment in which another begins a run in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deleting_a_thread_as_its_run_begins_leaves_nothing_behind() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::silence());
    for _ in 0..60 {
        let thread = good(app.post(THREADS, &json!({})).await)["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/threads/{thread}");
        let mut channel = app.follow(&format!("{path}/events"), None).await;
        let body = json!({ "message": "Hi", "threadId": thread, "stream": false });
        let (answer, deleted) = tokio::join!(app.post(RUNS, &body), async {
            channel.read_until("message:user").await;
            delete(&app, &path).await
        });
        assert_eq!(deleted.status, 204);
        refused(answer, 404, "not_found");
    }
    app.service.idle().await;
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "{:?}", rows(&app));
}
