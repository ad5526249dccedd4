//! Resuming a run: a reader gets exactly the events after those that it has seen (S3, S5, S6).

use axum::http::Method;
use protocol::Stored;
use serde_json::{Value, json};
use server::ServerLimits;
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Setup, TestApp};

use crate::support::{
    Names, RUNS, Wire, blocks, delete, get_after, good, problem, refused, say, say_in, status_of, wire,
};

fn many_streams() -> Setup {
    let limits = ServerLimits { max_streams_per_user: 256, ..ServerLimits::default() };
    Setup { limits, ..Setup::default() }
}

fn after(wire: &[Wire], id: u64) -> Vec<Wire> {
    wire.iter().filter(|event| event.id > id).cloned().collect()
}

/// A run with every kind of event, second in its thread so that its ids do not begin at 1.
pub(crate) async fn rich_run(app: &TestApp) -> Names {
    app.upstream.script([
        Reply::says("First."),
        Reply::stream()
            .reasoning("Hm.")
            .text("Let me see. ")
            .call(ScriptedCall::new("echo", r#"{"text":"é\n"}"#).fragments(4))
            .call(ScriptedCall::new("echo", r#"{"text":"b"}"#)),
        Reply::says("Done."),
    ]);
    let first = say(app, "One").await;
    say_in(app, &first.thread, "Two").await
}

#[tokio::test]
async fn s3_an_ended_run_resumes_after_any_event_with_exactly_the_rest() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let path = names.events_path();
    let whole = wire(&app, &path, None).await;
    assert!(whole.len() > 14 && whole[0].id > 1, "{whole:?}");
    let last = whole.last().unwrap().id;
    for id in 0..last {
        let rest = after(&whole, id);
        assert_eq!(wire(&app, &path, Some(id)).await, rest, "Last-Event-ID: {id}");
        assert_eq!(wire(&app, &format!("{path}?after={id}"), None).await, rest, "?after={id}");
    }
    for request in [
        app.request(Method::GET, &path).header("last-event-id", last),
        app.request(Method::GET, &format!("{path}?after={last}")),
    ] {
        let answer = app.send(request).await;
        assert_eq!((answer.status, answer.body), (204, Value::Null));
    }
}

/// S1: what is sent is what is stored, byte for byte.
#[tokio::test]
async fn s1_the_stored_bytes_are_the_ones_sent() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let whole = wire(&app, &names.events_path(), None).await;
    let of_run = |event: &Stored| event.run.is_some_and(|run| run.to_string() == names.run);
    let stored = app.stored_log().into_iter().filter(of_run).map(|event| {
        let Stored { seq, kind, body, .. } = event;
        Wire { id: seq, text: format!("event: {kind}\nid: {seq}\ndata: {body}\n\n") }
    });
    assert_eq!(whole, stored.collect::<Vec<_>>());
}

#[tokio::test]
async fn s3_a_run_under_way_resumes_after_any_event_with_exactly_the_rest() {
    let app = TestApp::with(many_streams()).await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::says("First."),
        Reply::stream().text("Let me see. ").call(ScriptedCall::new("echo", r#"{"text":"a"}"#)),
        Reply::stream().text("Hel").wait(&gate).text("lo").text("."),
    ]);
    let thread = say(&app, "One").await.thread;
    let mut stream = app.stream(RUNS, &json!({ "message": "Two", "threadId": thread })).await;
    let names = Names::of(&stream);
    let path = names.events_path();
    stream.read_until("text:delta").await;
    let seen = stream.read_until("text:delta").await;
    assert_eq!(seen.last().map(|frame| &frame.data["delta"]), Some(&json!("Hel")));

    // All of them are connected, at every place of the log, before the run goes on.
    let head = seen.last().unwrap().id;
    let mut open = Vec::new();
    for id in 0..=head {
        let by_header = app.request(Method::GET, &path).header("last-event-id", id);
        open.push((id, by_header.send().await.unwrap()));
        let by_query = app.request(Method::GET, &format!("{path}?after={id}"));
        open.push((id, by_query.send().await.unwrap()));
    }
    gate.open();
    assert_eq!(status_of(&stream.all().await), "completed");
    let whole = wire(&app, &path, None).await;
    for (id, response) in open {
        assert_eq!(response.status(), 200);
        assert_eq!(blocks(&response.text().await.unwrap()), after(&whole, id), "after {id}");
    }
}

/// S3: a reader who is cut off again and again, and comes back in the moment in which the next piece is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_cuts_at_every_place_of_a_live_run_lose_and_double_nothing() {
    const PIECES: usize = 120;
    let app = TestApp::with(many_streams()).await;
    let gates: Vec<Gate> = (0..PIECES).map(|_| Gate::new()).collect();
    let reply = Reply::stream().text("begin");
    app.upstream.script([gates.iter().fold(reply, |reply, gate| reply.wait(gate).text(" and so on"))]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Count" })).await;
    let path = Names::of(&stream).events_path();
    let mut seen = stream.read_until("text:delta").await;
    for gate in gates {
        gate.open();
        let mut part = app.follow(&path, seen.last().map(|frame| frame.id)).await;
        seen.extend(part.read_until("text:delta").await);
    }
    seen.extend(app.follow(&path, seen.last().map(|frame| frame.id)).await.all().await);
    assert_eq!(seen, stream_of(&app, &path).await);
    let ids: Vec<u64> = seen.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let text: String = seen.iter().filter_map(|frame| frame.data["delta"].as_str()).collect();
    assert_eq!(text, format!("begin{}", " and so on".repeat(PIECES)));
}

async fn stream_of(app: &TestApp, path: &str) -> Vec<Frame> {
    app.follow(path, None).await.all().await
}

/// A run much larger than what is kept in memory for its readers, read from the start while it is written.
#[tokio::test]
async fn s3_a_run_larger_than_the_ring_is_read_whole() {
    let app = TestApp::start().await;
    let (first, second) = (Gate::new(), Gate::new());
    let piece = "0123456789abcdef".repeat(512);
    let mut reply = Reply::stream().text("Begin.").wait(&first);
    for _ in 0..150 {
        reply = reply.text(&piece);
    }
    app.upstream.script([reply.wait(&second).text("End.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Go on" })).await;
    let path = Names::of(&stream).events_path();
    stream.read_until("text:delta").await;
    // One connected and reading nothing, one that comes in the middle, and the one that began it.
    let idle = app.follow(&path, None).await;
    first.open();
    second.reached().await;
    let late = app.follow(&path, None).await;
    second.open();
    stream.read_until("run:end").await;
    let whole = stream_of(&app, &path).await;
    assert_eq!(idle.all().await, whole);
    assert_eq!(late.all().await, whole);
    let answer = whole.iter().find(|frame| frame.event == "stream:complete").unwrap();
    assert_eq!(answer.data["text"].as_str().map(str::len), Some(6 + 150 * 8192 + 4));
}

#[tokio::test]
async fn s5_a_run_resumes_after_a_restart() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let whole = wire(&app, &names.events_path(), None).await;
    let app = app.restart().await;
    assert_eq!(wire(&app, &names.events_path(), None).await, whole);
    let middle = whole[whole.len() / 2].id;
    assert_eq!(wire(&app, &names.events_path(), Some(middle)).await, after(&whole, middle));
}

#[tokio::test]
async fn the_header_wins_over_the_query() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let whole = wire(&app, &names.events_path(), None).await;
    let (early, late) = (whole[1].id, whole[4].id);
    let path = format!("{}?after={early}", names.events_path());
    assert_eq!(wire(&app, &path, Some(late)).await, after(&whole, late));
    let garbled = format!("{}?after=abc", names.events_path());
    assert_eq!(wire(&app, &garbled, Some(late)).await, after(&whole, late));
    refused(get_after(&app, &path, "abc").await, 400, "invalid_cursor");
}

#[tokio::test]
async fn s6_what_is_no_number_is_no_place_in_the_log() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let huge = "9".repeat(40);
    for path in [names.events_path(), names.channel_path()] {
        for wrong in ["-1", "abc", "1.5", "", "1e3", "+1", "0x1", "9223372036854775808", huge.as_str()] {
            let detail = refused(get_after(&app, &path, wrong).await, 400, "invalid_cursor");
            assert_eq!(detail, "Last-Event-ID must be the id of an event, a number such as 42", "{wrong:?}");
            let query = wrong.replace('+', "%2B");
            let detail = refused(app.get(&format!("{path}?after={query}")).await, 400, "invalid_cursor");
            assert_eq!(detail, "after must be the id of an event, a number such as 42", "{wrong:?}");
        }
        let bytes = app.request(Method::GET, &path).header("last-event-id", &b"\xff1"[..]);
        refused(app.send(bytes).await, 400, "invalid_cursor");
    }
}

#[tokio::test]
async fn s6_a_place_past_the_log_of_an_ended_run_gets_a_snapshot() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let whole = app.follow(&names.events_path(), None).await.all().await;
    let message =
        whole.iter().find(|frame| frame.event == "stream:complete").unwrap().data["messageId"].clone();
    let end = whole.last().unwrap().id;
    for past in [end + 1, 1_000_000, i64::MAX.unsigned_abs()] {
        let frames = app.follow(&names.events_path(), Some(past)).await.all().await;
        let data = json!({
            "runId": names.run, "threadId": names.thread, "status": "completed", "text": "Done.",
            "messageId": message,
        });
        assert_eq!(frames, [Frame { id: end, event: "snapshot".into(), data }], "{past}");
    }
    assert_eq!(get_after(&app, &names.events_path(), &end.to_string()).await.status, 204);
}

/// S6: never a silent gap: what the snapshot holds and what follows it are the whole answer.
#[tokio::test]
async fn s6_a_place_past_the_log_of_a_run_under_way_gets_what_was_said_and_what_follows() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let head = stream.read_until("text:delta").await.last().unwrap().id;
    let mut lost = app.follow(&names.events_path(), Some(1_000)).await;
    let snapshot = lost.next().await.unwrap();
    let data = json!({ "runId": names.run, "threadId": names.thread, "status": "running", "text": "Hel" });
    assert_eq!(snapshot, Frame { id: head, event: "snapshot".into(), data });
    gate.open();
    let rest = lost.all().await;
    assert_eq!(rest, stream.all().await);
    assert_eq!(rest[0].data, json!({ "step": 1, "delta": "lo." }));
}

/// S6: a snapshot holds what a reader would have on the screen: no text of a step that was reset, no earlier step.
#[tokio::test]
async fn s6_a_snapshot_has_the_text_of_the_step_that_counts() {
    let app = TestApp::with(Setup::app("tools = [\"gated\"]")).await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("Let me see. ").call(ScriptedCall::new("gated", "{}")),
        Reply::stream().text("Taken back. ").without_end(),
        Reply::stream().reasoning("Hm.").text("Hel").wait(&gate).text("lo."),
    ]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let path = Names::of(&stream).events_path();
    let text = async || app.follow(&path, Some(1_000)).await.next().await.unwrap().data["text"].clone();
    stream.read_until("tool:start").await;
    assert_eq!(text().await, "Let me see. ");
    app.gate.open();
    stream.read_until("step:reset").await;
    stream.read_until("text:delta").await;
    assert_eq!(text().await, "Hel");
    gate.open();
    stream.all().await;
    assert_eq!(text().await, "Hello.");
}

#[tokio::test]
async fn s6_a_snapshot_of_a_failed_run_says_why() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "no")]);
    let stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    assert_eq!(status_of(&stream.all().await), "failed");
    let frames = app.follow(&names.events_path(), Some(99)).await.all().await;
    assert_eq!(frames.len(), 1);
    let error = good(app.get(&names.run_path()).await)["error"].clone();
    assert_eq!(error["code"], "provider_auth");
    assert_eq!((&frames[0].data["status"], &frames[0].data["error"]), (&json!("failed"), &error));
}

/// S6: requests for unknown, foreign and malformed runs have the same answer.
#[tokio::test]
async fn s6_a_run_that_is_not_yours_does_not_exist() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let sql = "PRAGMA foreign_keys = OFF; DROP TRIGGER runs_absorb;
        UPDATE runs SET user = 'ann'; UPDATE threads SET user = 'ann'";
    app.database().execute_batch(sql).unwrap();
    let foreign = names.run.as_str();
    let upper = foreign.to_uppercase();
    let wrong_kind = foreign.replace("run_", "thr_");
    let unknown = "run_ffffffffffffffffffffffffffffffff";
    for end in ["", "/events", "/events?after=1"] {
        let expected = problem(app.get(&format!("/v1/runs/{unknown}{end}")).await);
        assert_eq!((&expected["status"], &expected["code"]), (&json!(404), &json!("not_found")));
        assert_eq!(expected["detail"], "there is no such run, or it is not yours");
        for run in [foreign, &upper, &wrong_kind, "run_1", "x", "%00", "%ff", "run_%66", "..%2f..%2fetc"] {
            let answer = app.get(&format!("/v1/runs/{run}{end}")).await;
            assert_eq!(problem(answer), expected, "{run}{end}");
        }
    }
    for run in [foreign, unknown, "x"] {
        let answer = app.send(app.request(Method::POST, &format!("/v1/runs/{run}/cancel"))).await;
        assert_eq!(refused(answer, 404, "not_found"), "there is no such run, or it is not yours");
    }
}

/// A reader that begins to follow a thread in the moment in which it is deleted is refused or sees the end. No
/// reader waits for events that cannot come.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_comes_while_its_thread_is_deleted_is_not_left_waiting() {
    const ROUNDS: usize = 20;
    let app = TestApp::with(many_streams()).await;
    for _ in 0..ROUNDS {
        let gate = Gate::new();
        app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
        let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
        let names = Names::of(&stream);
        stream.read_until("text:delta").await;
        let follow = async |path: String| {
            let response = app.request(Method::GET, &path).send().await.unwrap();
            let status = response.status().as_u16();
            response.text().await.map(|_| status)
        };
        let path = names.thread_path();
        let (deleted, thread, run) =
            tokio::join!(delete(&app, &path), follow(names.channel_path()), follow(names.events_path()),);
        assert_eq!(deleted.status, 204);
        for ended in [thread.unwrap(), run.unwrap()] {
            assert!(ended == 200 || ended == 404, "{ended}");
        }
    }
}
