//! Messages to a thread that is still answering: they wait, are refused, or interrupt, and none is lost (Q1, Q2).

use std::time::{Duration, Instant};

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use server::ServerLimits;
use testkit::upstream::{Gate, Reply};
use testkit::{Frames, Setup, TestApp};

use crate::support::{
    Names, RUNS, delete, good, refused, repeating, rows, said, status_of, thread, to_the_end,
};

/// With room for as many streams as these tests need.
async fn start() -> TestApp {
    let limits = ServerLimits { max_streams_per_user: 64, ..ServerLimits::default() };
    TestApp::with(Setup { limits, ..Setup::default() }).await
}

/// A run that has said `Hel` and waits for the gate, in a new thread.
async fn under_way(app: &TestApp, gate: &Gate) -> (Frames, Names) {
    app.upstream.script([Reply::stream().text("Hel").wait(gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let names = Names::of(&stream);
    (stream, names)
}

fn next(names: &Names, message: &str) -> Value {
    json!({ "message": message, "threadId": names.thread })
}

fn with(mut body: Value, field: &str, value: impl Into<Value>) -> Value {
    body[field] = value.into();
    body
}

async fn status(app: &TestApp, run: &Names) -> String {
    good(app.get(&run.run_path()).await)["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn messages_that_wait_are_listed_in_their_order_until_they_begin_or_are_cancelled() {
    let app = start().await;
    let gate = Gate::new();
    let (stream, names) = under_way(&app, &gate).await;
    app.upstream.program(repeating);
    let path = format!("{}/queue", names.thread_path());
    assert_eq!(good(app.get(&path).await), json!({ "data": [], "next": null }));
    let dropped = app.stream(RUNS, &next(&names, " Second ")).await;
    let last = app.stream(RUNS, &next(&names, "Third")).await;
    let (first, second) = (Names::of(&dropped), Names::of(&last));
    let listed = good(app.get(&path).await);
    let data = listed["data"].as_array().unwrap();
    let texts: Vec<_> = data.iter().map(|queued| (&queued["runId"], &queued["text"])).collect();
    assert_eq!(texts, [(&json!(first.run), &json!("Second")), (&json!(second.run), &json!("Third"))]);
    assert!(data[0]["createdAt"].is_string() && data[0].get("parts").is_none());
    good(app.post(&format!("{}/cancel", first.run_path()), &Value::Null).await);
    let listed = good(app.get(&path).await);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    gate.open();
    to_the_end(vec![stream, dropped, last]).await;
    assert_eq!(good(app.get(&path).await)["data"], json!([]));
}

/// Q1, Q2: what is sent at once is answered one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn q2_twenty_messages_at_once_are_twenty_answers_in_order() {
    let app = start().await;
    app.upstream.program(repeating);
    let thread = thread(&app).await;
    let send = async |number: usize| {
        let (message, answer) = (format!("m{number}"), format!("Re: m{number}"));
        let body = json!({ "message": message, "threadId": thread });
        if number.is_multiple_of(2) {
            let result = good(app.post(RUNS, &with(body, "stream", false)).await);
            assert_eq!((&result["status"], &result["reply"]), (&json!("completed"), &json!(answer)));
            return;
        }
        // Whenever its turn came, a stream is whole.
        let frames = app.stream(RUNS, &body).await.all().await;
        assert_eq!(frames[0].event, "message:user", "{frames:?}");
        assert_eq!(frames[0].data["text"], message);
        assert_eq!(status_of(&frames), "completed");
    };
    join_all((0..20).map(send)).await;

    let said = said(&app, &thread).await;
    assert_eq!(said.len(), 40, "{said:?}");
    for pair in said.chunks(2) {
        assert_eq!(pair[1].strip_prefix("assistant: Re: "), pair[0].strip_prefix("user: "), "{said:?}");
    }
    let mut asked: Vec<_> = said.iter().step_by(2).cloned().collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 20, "{said:?}");
    // No two were under way at once: between a start and its end there is no other start.
    let overlaps =
        "SELECT count(*) FROM runs a JOIN runs b ON b.start_seq > a.start_seq AND b.start_seq < a.end_seq";
    assert_eq!(app.count(overlaps), 0);
}

/// Q1: the queue is bounded, and what is refused leaves no trace, not even on the run it meant to interrupt.
#[tokio::test]
async fn q1_twenty_messages_wait_and_no_more() {
    let app = start().await;
    app.upstream.program(repeating);
    let gate = Gate::new();
    let (first, names) = under_way(&app, &gate).await;
    let mut streams = vec![first];
    for number in 0..20 {
        streams.push(app.stream(RUNS, &next(&names, &format!("m{number}"))).await);
    }
    let before = rows(&app);
    for on_busy in ["queue", "interrupt"] {
        let body = with(next(&names, "too many"), "onBusy", on_busy);
        refused(app.post(RUNS, &body).await, 409, "queue_full");
    }
    refused(
        app.post("/test/stream", &json!({ "message": "x", "sessionId": names.thread })).await,
        409,
        "queue_full",
    );
    assert_eq!(rows(&app), before);
    assert_eq!(good(app.get(&names.run_path()).await)["cancelRequested"], false);

    gate.open();
    for frames in to_the_end(streams).await {
        assert_eq!(status_of(&frames), "completed");
    }
    let mut expected = vec!["user: Hi".to_owned(), "assistant: Hello.".to_owned()];
    for number in 0..20 {
        expected.extend([format!("user: m{number}"), format!("assistant: Re: m{number}")]);
    }
    assert_eq!(said(&app, &names.thread).await, expected);
}

#[tokio::test]
async fn q1_the_stream_of_a_queued_run_begins_when_its_turn_comes() {
    let app = start().await;
    app.upstream.program(repeating);
    let gate = Gate::new();
    let (first, names) = under_way(&app, &gate).await;
    let second = app.stream(RUNS, &next(&names, "Next")).await;
    let queued = Names::of(&second);
    let run = good(app.get(&queued.run_path()).await);
    assert_eq!((&run["status"], &run["endedAt"]), (&json!("queued"), &Value::Null), "{run}");
    let joined = app.follow(&queued.events_path(), None).await;
    let mut ahead = app.follow(&queued.events_path(), Some(1_000)).await;
    let snapshot = ahead.next().await.unwrap();
    assert_eq!((snapshot.event.as_str(), &snapshot.data["status"]), ("snapshot", &json!("queued")));
    assert_eq!(said(&app, &names.thread).await, ["user: Hi"], "it is said when its turn comes");
    assert_eq!(good(app.get(&names.thread_path()).await)["activeRunId"], names.run.as_str());

    gate.open();
    let end = first.all().await.last().unwrap().id;
    let frames = second.all().await;
    assert_eq!((frames[0].event.as_str(), frames[0].id), ("message:user", end + 1), "{frames:?}");
    assert_eq!(frames[1].event, "run:start");
    assert_eq!(status_of(&frames), "completed");
    assert_eq!(joined.all().await, frames);
    assert_eq!(ahead.all().await, frames);
    assert_eq!(app.follow(&queued.events_path(), None).await.all().await, frames);
}

/// Q2: the run under way stops as if cancelled, and the message that stopped it goes before those that wait.
#[tokio::test]
async fn q2_an_interrupting_message_is_answered_next() {
    let app = start().await;
    app.upstream.script([Reply::stream().text("Hel").stall()]);
    app.upstream.program(repeating);
    let mut first = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&first);
    first.read_until("text:delta").await;
    let waiting = app.stream(RUNS, &next(&names, "Later")).await;
    let asked = Instant::now();
    let urgent = app.stream(RUNS, &with(next(&names, "Now"), "onBusy", "interrupt")).await;
    let closed = app.upstream.closed(0).await.at.saturating_duration_since(asked);
    assert!(closed < Duration::from_millis(250), "{closed:?}");

    let ended = to_the_end(vec![first, urgent, waiting]).await;
    let statuses: Vec<_> = ended.iter().map(|frames| status_of(frames)).collect();
    assert_eq!(statuses, ["interrupted", "completed", "completed"]);
    assert_eq!(status(&app, &names).await, "interrupted");
    assert_eq!(
        said(&app, &names.thread).await,
        [
            "user: Hi",
            "assistant: Hel",
            "user: Now",
            "assistant: Re: Now",
            "user: Later",
            "assistant: Re: Later"
        ]
    );
}

/// In a thread that is not busy, what to do if it were changes nothing.
#[tokio::test]
async fn q1_a_thread_that_is_free_answers_whatever_on_busy_says() {
    let app = start().await;
    app.upstream.program(repeating);
    let thread = thread(&app).await;
    for on_busy in ["queue", "reject", "interrupt"] {
        let body = json!({ "message": on_busy, "threadId": thread, "onBusy": on_busy, "stream": false });
        assert_eq!(good(app.post(RUNS, &body).await)["reply"], format!("Re: {on_busy}"));
    }
    let body = json!({ "message": "x", "threadId": thread, "onBusy": "wait" });
    let detail = refused(app.post(RUNS, &body).await, 422, "invalid_request");
    assert!(detail.starts_with("onBusy: "), "{detail}");
}

#[tokio::test]
async fn c3_a_queued_run_is_cancelled_at_once_and_the_others_go_on() {
    let app = start().await;
    app.upstream.program(repeating);
    let gate = Gate::new();
    let (first, names) = under_way(&app, &gate).await;
    let dropped = app.stream(RUNS, &next(&names, "Never mind")).await;
    let last = app.stream(RUNS, &next(&names, "Last")).await;
    let run = Names::of(&dropped);
    for _ in 0..2 {
        let cancel = app.request(Method::POST, &format!("{}/cancel", run.run_path()));
        let answer = app.send(cancel).await;
        assert_eq!((answer.status, &answer.body["status"]), (202, &json!("cancelled")));
    }
    let frames = dropped.all().await; // while the first is still under way
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert_eq!(status_of(&frames), "cancelled");
    assert_eq!(app.follow(&run.events_path(), None).await.all().await, frames);
    assert_eq!(status(&app, &names).await, "running");

    gate.open();
    for frames in to_the_end(vec![first, last]).await {
        assert_eq!(status_of(&frames), "completed");
    }
    let expected = ["user: Hi", "assistant: Hello.", "user: Last", "assistant: Re: Last"];
    assert_eq!(said(&app, &names.thread).await, expected);
    assert_eq!(app.upstream.requests().len(), 2);
}

#[tokio::test]
async fn deleting_a_thread_ends_what_waits_for_it() {
    let app = start().await;
    let (first, names) = under_way(&app, &Gate::new()).await;
    let second = app.stream(RUNS, &next(&names, "Next")).await;
    let queued = Names::of(&second);
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    to_the_end(vec![first, second]).await;
    refused(app.get(&queued.run_path()).await, 404, "not_found");
    app.service.idle().await;
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "{:?}", rows(&app));
    assert_eq!(app.count("SELECT count(*) FROM queue"), 0);
    assert_eq!(app.upstream.requests().len(), 1);
}

/// A waiting message is durable: a server that comes back answers it.
#[tokio::test]
async fn q2_what_waits_is_answered_after_a_restart() {
    let app = start().await;
    app.upstream.program(repeating);
    let (first, names) = under_way(&app, &Gate::new()).await;
    let queued = Names::of(&app.stream(RUNS, &next(&names, "Next")).await);
    drop(first);
    let app = app.restart().await;
    let frames = app.follow(&queued.events_path(), None).await.all().await;
    assert_eq!(status_of(&frames), "completed");
    let expected = ["user: Hi", "assistant: Re: Hi", "user: Next", "assistant: Re: Next"];
    assert_eq!(said(&app, &names.thread).await, expected);
}
