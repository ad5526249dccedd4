//! Runs whose deltas are pruned: exact within the retention, one snapshot after it, never a gap (S5, S6).

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Answer, Frame, TestApp};

use crate::resume::rich_run;
use crate::support::{
    Names, RUNS, THREADS, delete, get_after, good, keyed, problem, rows, say, say_in, send_as, status_of,
    thread, token, wire,
};

/// The default retention in milliseconds.
const WEEK: i64 = 7 * 24 * 60 * 60 * 1000;

/// Makes every run that has ended older.
fn age(app: &TestApp, millis: i64) {
    let sql = "DROP TRIGGER IF EXISTS runs_absorb; UPDATE runs SET ended_at = ended_at - ";
    app.database().execute_batch(&format!("{sql}{millis} WHERE ended_at IS NOT NULL")).unwrap();
}

/// Lets the server sweep, as it does now and then.
async fn sweep(app: &TestApp) {
    let unwanted = thread(app).await;
    assert_eq!(delete(app, &format!("/v1/threads/{unwanted}")).await.status, 204);
    app.service.idle().await;
}

pub(crate) async fn prune(app: &TestApp) {
    age(app, WEEK);
    sweep(app).await;
}

fn deltas(app: &TestApp) -> i64 {
    app.count("SELECT coalesce(sum(last - first + 1), 0) FROM packed_deltas")
}

/// Returns the answer to a reader of a pruned run, which has said `text`.
fn snapshot(names: &Names, end: u64, message: &str, text: &str) -> Frame {
    let data = json!({
        "runId": names.run, "threadId": names.thread, "status": "completed", "text": text, "messageId": message,
    });
    Frame { id: end, event: "snapshot".into(), data }
}

async fn answer_id(app: &TestApp, names: &Names) -> String {
    let messages = good(app.get(&names.messages_path()).await);
    let of_run = |message: &&Value| message["runId"] == names.run.as_str() && message["role"] == "assistant";
    messages["data"].as_array().unwrap().iter().find(of_run).unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn s5_a_run_resumes_exactly_until_its_time_is_over() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let whole = wire(&app, &names.events_path(), None).await;
    age(&app, WEEK - 1);
    sweep(&app).await;
    assert_eq!(wire(&app, &names.events_path(), None).await, whole);
    let (middle, last) = (whole[whole.len() / 2].id, whole.last().unwrap().id);
    let rest: Vec<_> = whole.iter().filter(|event| event.id > middle).cloned().collect();
    assert_eq!(wire(&app, &names.events_path(), Some(middle)).await, rest);
    assert_eq!(get_after(&app, &names.events_path(), &last.to_string()).await.status, 204);

    age(&app, 1);
    sweep(&app).await;
    assert_eq!(wire(&app, &names.events_path(), None).await.len(), 1);
    assert_eq!(deltas(&app), 0);
}

/// S5, S6: wherever the reader was, it gets the whole answer once, and no reason to come back.
#[tokio::test]
async fn s5_a_pruned_run_is_one_snapshot_for_every_place_before_its_end() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let end = wire(&app, &names.events_path(), None).await.last().unwrap().id;
    let message = answer_id(&app, &names).await;
    let views = async |app: &TestApp| {
        (good(app.get(&names.run_path()).await), good(app.get(&names.messages_path()).await))
    };
    age(&app, WEEK);
    let seen = views(&app).await;
    sweep(&app).await;
    let app = app.restart().await;
    assert_eq!((views(&app).await, deltas(&app)), (seen, 0));
    let whole = snapshot(&names, end, &message, "Done.");
    for id in 0..end {
        let frames = app.follow(&names.events_path(), Some(id)).await.all().await;
        assert_eq!(frames, std::slice::from_ref(&whole), "Last-Event-ID: {id}");
    }
    let by_query = format!("{}?after=1", names.events_path());
    assert_eq!(app.follow(&by_query, None).await.all().await, std::slice::from_ref(&whole));
    assert_eq!(app.follow(&names.events_path(), None).await.all().await, std::slice::from_ref(&whole));
    assert_eq!(app.follow(&names.events_path(), Some(end + 1)).await.all().await, [whole]);
    let answer = get_after(&app, &names.events_path(), &end.to_string()).await;
    assert_eq!((answer.status, answer.body), (204, Value::Null));

    // Places after the run are in the log if the thread has gone on.
    app.upstream.script([Reply::says("More.")]);
    say_in(&app, &names.thread, "Three").await;
    assert_eq!(get_after(&app, &names.events_path(), &(end + 1).to_string()).await.status, 204);
}

/// S6: a snapshot is the outcome of the run, for each kind of outcome.
#[tokio::test]
async fn s5_a_pruned_run_that_did_not_complete_says_how_it_ended() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::status(401).error("invalid_request_error", None, "no"),
        Reply::stream().text("Hel").wait(&gate).text("lo."),
    ]);
    let failed = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let failure = Names::of(&failed);
    assert_eq!(status_of(&failed.all().await), "failed");
    let mut cancelled = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let cancel = Names::of(&cancelled);
    cancelled.read_until("text:delta").await;
    let waiting = app.stream(RUNS, &json!({ "message": "Later", "threadId": cancel.thread })).await;
    let queued = Names::of(&waiting);
    for names in [&queued, &cancel] {
        let answer = app.post(&format!("{}/cancel", names.run_path()), &json!({})).await;
        assert_eq!(answer.status, 202);
    }
    assert_eq!(status_of(&cancelled.all().await), "cancelled");
    assert_eq!(status_of(&waiting.all().await), "cancelled");
    app.service.idle().await;
    prune(&app).await;
    let told = async |names: &Names| {
        let frames = app.follow(&names.events_path(), Some(1)).await.all().await;
        assert_eq!((frames.len(), frames[0].event.as_str()), (1, "snapshot"));
        frames[0].data.clone()
    };
    let error = good(app.get(&failure.run_path()).await)["error"].clone();
    assert_eq!(error["code"], "provider_auth");
    let data = told(&failure).await;
    assert_eq!((&data["status"], &data["text"], &data["error"]), (&json!("failed"), &json!(""), &error));
    let data = told(&cancel).await;
    assert_eq!((&data["status"], &data["text"]), (&json!("cancelled"), &json!("Hel")));
    assert_eq!(data["messageId"], answer_id(&app, &cancel).await.as_str());
    let expected = json!({
        "runId": queued.run, "threadId": queued.thread, "status": "cancelled", "text": "",
    });
    assert_eq!(told(&queued).await, expected);
}

/// S6: other users do not learn that a run was pruned.
#[tokio::test]
async fn s6_a_pruned_run_of_somebody_else_does_not_exist() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    app.upstream.script([Reply::says("Hello.")]);
    let message = json!({ "message": "Hi", "stream": false });
    let run = good(send_as(&app, &ann, Method::POST, (RUNS, &message)).await);
    app.service.idle().await;
    age(&app, WEEK);
    drop(good(send_as(&app, &ann, Method::POST, (THREADS, &json!({}))).await));
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(deltas(&app), 0);
    for (what, id) in [("runs", &run["runId"]), ("threads", &run["threadId"])] {
        let id = id.as_str().unwrap();
        for after in ["", "?after=0", "?after=1", "?after=99999"] {
            let of = async |token: &str, id: &str| {
                let path = format!("/v1/{what}/{id}/events{after}");
                problem(send_as(&app, token, Method::GET, (&path, &Value::Null)).await)
            };
            let unknown = format!("{}_ffffffffffffffffffffffffffffffff", id.split('_').next().unwrap());
            let foreign = of(&bob, id).await;
            assert_eq!(foreign["status"], 404);
            assert_eq!(foreign, of(&bob, &unknown).await, "{what}{after}");
        }
    }
}

/// The channel of a thread has no snapshots: facts stay, and `step:end` has the whole text.
#[tokio::test]
async fn the_channel_of_a_thread_goes_on_without_what_was_pruned() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    let last = good(app.get(&names.thread_path()).await)["lastSeq"].as_u64().unwrap();
    let read = async |after: u64| {
        let mut channel = app.follow(&names.channel_path(), Some(after)).await;
        let mut frames = vec![channel.next().await.unwrap()];
        while frames.last().is_some_and(|frame| frame.id < last) {
            frames.push(channel.next().await.unwrap());
        }
        frames
    };
    let whole = read(0).await;
    assert_eq!(u64::try_from(whole.len()).unwrap(), last);
    prune(&app).await;
    let is_fact = |frame: &&Frame| !["text:delta", "reasoning:delta", "tool:input"].contains(&&*frame.event);
    let facts: Vec<Frame> = whole.iter().filter(is_fact).cloned().collect();
    assert!(facts.len() < whole.len());
    assert_eq!(read(0).await, facts);
    let middle = whole[whole.len() / 2].id;
    let rest: Vec<Frame> = facts.into_iter().filter(|frame| frame.id > middle).collect();
    assert_eq!(read(middle).await, rest);
}

/// S6, S8: a reader who takes its time while its run is pruned has a part, and then the whole. An answer that the buffers
/// of both sockets can take is read as if nothing had happened, so the answer grows until they cannot.
#[tokio::test]
async fn s6_a_run_that_is_pruned_while_it_is_read_ends_with_a_snapshot() {
    for pieces in [120, 240, 360] {
        if ends_with_a_snapshot(pieces).await {
            return;
        }
    }
    panic!("the buffers of the sockets take every answer");
}

/// Whether a slow reader of this number of pieces of 16 KiB got a part and then a snapshot; false if all was on its way
/// to it.
async fn ends_with_a_snapshot(pieces: usize) -> bool {
    let app = TestApp::start().await;
    let piece = "0123456789abcdef".repeat(1024);
    let reply = (0..pieces).fold(Reply::stream(), |reply, _| reply.text(&piece));
    app.upstream.script([reply]);
    let names = say(&app, "Go on").await;
    let whole = app.follow(&names.events_path(), None).await.all().await;
    let mut slow = app.follow(&names.events_path(), None).await;
    let mut seen = slow.read_until("text:delta").await;
    prune(&app).await;
    seen.extend(slow.all().await);
    if seen == whole {
        return false;
    }
    let last = seen.pop().unwrap();
    assert!(!seen.is_empty() && seen.len() < whole.len(), "{} of {}", seen.len(), whole.len());
    assert_eq!(seen, whole[..seen.len()]);
    let message = answer_id(&app, &names).await;
    assert_eq!(last, snapshot(&names, whole.last().unwrap().id, &message, &piece.repeat(pieces)));
    true
}

fn data_lines(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

async fn posted(app: &TestApp, path: &str, body: &Value) -> String {
    let request = app.request(Method::POST, path).header("idempotency-key", "k").json(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.text().await.unwrap()
}

/// Other contracts have no word for a snapshot; the facts say the same in fewer pieces.
#[tokio::test]
async fn other_contracts_tell_a_pruned_run_by_its_facts() {
    let chat = json!({
        "id": "c", "trigger": "submit-message",
        "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "Hi" }] }],
    });
    let doors = [("/v1/apps/test/runs?format=delta", json!({ "message": "Hi" })), ("/api/chat", chat)];
    for (path, body) in doors {
        let app = TestApp::start().await;
        app.upstream.script([
            Reply::stream()
                .reasoning("Hm.")
                .text("Let me ")
                .text("see.")
                .call(ScriptedCall::new("echo", r#"{"text":"a"}"#)),
            Reply::stream().text("Do").text("ne."),
        ]);
        let first = posted(&app, path, &body).await;
        app.service.idle().await;
        prune(&app).await;
        assert_eq!(deltas(&app), 0);
        let again = posted(&app, path, &body).await;
        let text = |sent: &str| -> String {
            data_lines(sent).iter().filter_map(|chunk| Some(chunk["delta"].as_str()?.to_owned())).collect()
        };
        assert!(!text(&first).is_empty());
        assert_eq!(text(&again), text(&first), "{path}");
        assert_eq!(data_lines(&again).last(), data_lines(&first).last(), "{path}");
        let of_calls = |sent: &str| -> Vec<Value> {
            let is_of_a_call =
                |chunk: &Value| chunk["type"].as_str().is_some_and(|kind| kind.ends_with("available"));
            data_lines(sent).into_iter().filter(is_of_a_call).collect()
        };
        assert_eq!(of_calls(&again), of_calls(&first));
    }
}

/// A request that is repeated under its key is answered, streamed or not, long after its run was pruned.
#[tokio::test]
async fn a_pruned_run_is_found_under_its_key() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Hello.")]);
    let body = json!({ "message": "Hi" });
    let first = posted(&app, RUNS, &body).await;
    app.service.idle().await;
    prune(&app).await;
    let again = data_lines_of_events(&posted(&app, RUNS, &body).await);
    assert_eq!(again.len(), 1);
    assert_eq!((&again[0]["text"], &again[0]["status"]), (&json!("Hello."), &json!("completed")));
    assert!(first.contains("text:delta"));

    let whole = json!({ "message": "Hi", "stream": false });
    app.upstream.script([Reply::says("Whole.")]);
    let answer: Answer = keyed(&app, Some("w"), Method::POST, (RUNS, &whole)).await;
    prune(&app).await;
    assert_eq!(keyed(&app, Some("w"), Method::POST, (RUNS, &whole)).await, answer);
}

fn data_lines_of_events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_thread_with_pruned_runs_goes_on_and_can_be_deleted() {
    let app = TestApp::start().await;
    let names = rich_run(&app).await;
    prune(&app).await;
    app.upstream.script([Reply::says("More.")]);
    let next = say_in(&app, &names.thread, "Three").await;
    let frames = app.follow(&next.events_path(), None).await.all().await;
    assert_eq!(status_of(&frames), "completed");
    assert_eq!(delete(&app, &names.thread_path()).await.status, 204);
    app.service.idle().await;
    assert!(rows(&app).iter().all(|(_, count)| *count == 0), "{:?}", rows(&app));
}

/// S6, D1: numbers that were sent and lost are not used again, and who has seen them starts from a snapshot.
#[tokio::test]
async fn s6_a_place_that_was_lost_with_the_power_gets_a_snapshot_and_what_follows() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream
        .script([Reply::stream().text("Hel").wait(&Gate::new()), Reply::stream().text("Hello").wait(&gate)]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    let names = Names::of(&stream);
    let head = stream.read_until("text:delta").await.last().unwrap().id;
    app.database().execute("UPDATE state SET value = 'another' WHERE name = 'boot'", []).unwrap();
    let app = app.restart().await;
    gate.reached().await;
    app.follow(&names.events_path(), Some(head)).await.read_until("text:delta").await; // the server has it, too
    // It has seen a few events more than the disk has.
    let mut lost = app.follow(&names.events_path(), Some(head + 3)).await;
    let snapshot = lost.next().await.unwrap();
    assert_eq!((snapshot.event.as_str(), &snapshot.data["text"]), ("snapshot", &json!("Hello")));
    assert!(snapshot.id > head + 3);
    // A reader that has seen no more than there is gets the rest, beyond the numbers that were left out.
    let mut kept = app.follow(&names.events_path(), Some(head)).await;
    let next = kept.next().await.unwrap();
    assert_eq!(next.event, "step:reset");
    assert!(next.id > head + 3 && next.id < snapshot.id);
    gate.open();
    let rest = lost.all().await;
    assert_eq!(status_of(&rest), "completed");
    assert!(rest.iter().all(|frame| frame.id > snapshot.id && frame.event != "text:delta"));
    let end = rest.last().unwrap().id;
    assert_eq!(get_after(&app, &names.events_path(), &end.to_string()).await.status, 204);
}
