//! The streams and runs that one user may hold open, and the answers to a load balancer.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use server::ServerLimits;
use service::{CallShares, NewKey};
use testkit::upstream::{Gate, Reply};
use testkit::{Frames, Fuse, Setup, TestApp};
use tokio::time::timeout;

use crate::support::{RUNS, THREADS, good, problem, refused, rows, say};

const PATIENCE: Duration = Duration::from_secs(20);

async fn with_streams(max_streams_per_user: usize) -> TestApp {
    let limits = ServerLimits { max_streams_per_user, ..ServerLimits::default() };
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
        assert_eq!(
            document["detail"],
            "2 of your requests wait for events or answers already; close one and try again"
        );
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

/// L1: four times as many answers are waited for, as streams or not, and nothing is stored for one more.
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
        stream.read_until("text:delta").await; // from here on nothing is stored before the gate opens
        open.push(stream);
    }
    let before = rows(&app);
    let message = json!({ "message": "Hi" });
    for path in [RUNS, "/test/stream"] {
        refused(app.post(path, &message).await, 429, "too_many_streams");
    }
    // A client that waits without a stream costs a request and a follower all the same.
    let waits = json!({ "message": "Hi", "stream": false });
    refused(app.post(RUNS, &waits).await, 429, "too_many_streams");
    assert_eq!(rows(&app), before);
    gate.open();
    for stream in open {
        stream.all().await;
    }
    // A stream that has ended makes room by itself.
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
    app.service.retire();
    assert_eq!(app.get("/healthz").await.status, 200);
    let answer = app.get("/readyz").await;
    insta::assert_json_snapshot!(problem(answer));
}

async fn with_user_limits(limits: &str) -> TestApp {
    TestApp::with(Setup::app(&format!("[limits]\n{limits}"))).await
}

/// The status, then `Retry-After`, `RateLimit-Policy` and `RateLimit` of an answer that is read to its end, without what
/// is said of runs at once: the one that is answered may have ended by then.
async fn paced(app: &TestApp, path: &str, key: Option<&str>) -> (u16, [String; 3]) {
    let mut request = app.request(Method::POST, path).json(&json!({ "message": "Hi" }));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let response = request.send().await.unwrap();
    let header = |name| {
        let text = response.headers().get(name).map_or("-", |value| value.to_str().unwrap());
        text.split(", \"running\"").next().unwrap_or_default().to_owned()
    };
    let headers = ["retry-after", "ratelimit-policy", "ratelimit"].map(header);
    let status = response.status().as_u16();
    response.bytes().await.unwrap();
    app.service.idle().await;
    (status, headers)
}

/// L2: the clock of these tests stands at noon, so that a minute has sixty seconds left and a day half of its own.
#[tokio::test]
async fn l2_a_user_begins_so_many_runs_and_no_more_even_after_a_restart() {
    let app = with_user_limits("runs_per_minute = 2\nruns_per_day = 9").await;
    app.upstream.program(|_| Reply::says("Hello."));
    let policy = "\"runs-minute\";q=2;w=60, \"runs-day\";q=9;w=86400";
    let left =
        |minute: u32, day: u32| format!("\"runs-minute\";r={minute};t=60, \"runs-day\";r={day};t=43200");
    let expected = |retry: &str, minute, day| [retry.to_owned(), policy.to_owned(), left(minute, day)];
    assert_eq!(paced(&app, RUNS, None).await, (200, expected("-", 1, 8)));
    assert_eq!(paced(&app, "/test/stream", Some("again")).await, (200, expected("-", 0, 7)));

    let before = rows(&app);
    for path in [RUNS, "/test/stream"] {
        assert_eq!(paced(&app, path, None).await, (429, expected("60", 0, 7)));
    }
    let app = app.restart().await;
    let detail = refused(app.post(RUNS, &json!({ "message": "Hi" })).await, 429, "rate_limited");
    assert_eq!(detail, "this app answers 2 messages of one user in a minute; wait a little");
    assert_eq!(rows(&app), before);
    // An earlier request is answered again, and one that is refused for another reason says what is left, too.
    assert_eq!(paced(&app, "/test/stream", Some("again")).await, (200, expected("-", 0, 7)));
    let wrong = app.request(Method::POST, RUNS).json(&json!({ "message": " " })).send().await.unwrap();
    let expected = format!("{}, \"running\";r=16", left(0, 7));
    assert_eq!((wrong.status().as_u16(), wrong.headers()["ratelimit"].to_str().unwrap()), (422, &*expected));
    assert_eq!(rows(&app), before);
}

#[tokio::test]
async fn l2_of_many_runs_at_once_no_more_begin_than_may() {
    let app = with_user_limits("runs_per_minute = 3").await;
    app.upstream.program(|_| Reply::says("Hello."));
    let body = json!({ "message": "Hi", "stream": false });
    let answers = futures_util::future::join_all((0..12).map(|_| app.post(RUNS, &body))).await;
    let begun = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((begun, app.count("SELECT count(*) FROM runs")), (3, 3));
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        refused(answer, 429, "rate_limited");
    }
}

#[tokio::test]
async fn l2_spent_tokens_hold_the_next_run_back_until_the_window_ends() {
    let app = with_user_limits("tokens_per_minute = 100").await;
    app.upstream.program(|_| Reply::says("Hello.").usage(90, 10));
    say(&app, "Hi").await;
    let (status, [retry, policy, left]) = paced(&app, RUNS, None).await;
    assert_eq!((status, &*retry), (429, "60"));
    assert_eq!(policy, "\"tokens-minute\";q=100;qu=\"tokens\";w=60");
    assert_eq!(left, "\"tokens-minute\";r=0;t=60");
    app.database().execute("UPDATE pace SET minute = minute - 60000", []).unwrap();
    say(&app, "Hi").await;
}

#[tokio::test]
async fn l2_so_many_runs_work_at_once_and_messages_may_wait_behind_them() {
    let app = with_user_limits("max_running = 1").await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.")
    });
    let mut first = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    assert_eq!(first.header("ratelimit"), "\"running\";r=0");
    assert_eq!(first.header("ratelimit-policy"), "\"running\";q=1;qu=\"concurrent-requests\"");
    first.read_until("text:delta").await;
    let before = rows(&app);
    let detail = refused(app.post(RUNS, &json!({ "message": "Hi" })).await, 429, "rate_limited");
    assert_eq!(detail, "1 of your runs are active; wait for an answer, or cancel a run");
    assert_eq!(rows(&app), before);
    let thread = first.header("x-thread-id");
    let behind = json!({ "message": "And?", "threadId": thread, "onBusy": "queue" });
    let second = app.stream(RUNS, &behind).await;
    gate.open();
    first.all().await;
    second.all().await;
    say(&app, "Hi").await;
}

/// L3: an app that sets no limits has one all the same.
#[tokio::test]
async fn l3_sixteen_runs_of_a_user_work_at_once_if_the_app_does_not_say() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.")
    });
    let mut streams = Vec::new();
    for left in (0..16).rev() {
        let stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
        assert_eq!(stream.header("ratelimit"), format!("\"running\";r={left}"));
        assert_eq!(stream.header("ratelimit-policy"), "\"running\";q=16;qu=\"concurrent-requests\"");
        streams.push(stream);
    }
    let answer = app.post(RUNS, &json!({ "message": "Hi" })).await;
    let detail = refused(answer, 429, "rate_limited");
    assert_eq!(detail, "16 of your runs are active; wait for an answer, or cancel a run");
    gate.open();
    for stream in streams {
        stream.all().await;
    }
    say(&app, "Hi").await;
    let none = ["-", "-", "-"].map(String::from);
    assert_eq!(paced(&app, "/v1/apps/absent/runs", None).await, (404, none));
}

async fn key_of(app: &TestApp, user: &str) -> String {
    let key = NewKey { user: user.into(), app: None, admin: false, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

/// L3: a user whose calls take for ever holds a share of all places, and others are answered meanwhile.
#[tokio::test]
async fn l3_slow_calls_of_one_user_do_not_keep_another_from_an_answer() {
    // Of a user's four places three are for one provider, since there are two of them.
    let model_calls = CallShares { all: 8, of_one_user: 4 };
    let app = TestApp::with(Setup { model_calls, ..Setup::app("[limits]\nmax_running = 1000\n") }).await;
    app.upstream.program(|request| {
        if request.to_string().contains("Slowly") { Reply::silence() } else { Reply::says("At once.") }
    });
    let (mallory, alice) = (key_of(&app, "mallory").await, key_of(&app, "alice").await);
    for _ in 0..8 {
        let said = app.request(Method::POST, RUNS).bearer_auth(&mallory);
        let answer = said.json(&json!({ "message": "Slowly" })).send().await.unwrap();
        assert_eq!(answer.status(), 200); // and goes away
    }
    app.upstream.wait_for_requests(3).await;
    let said = app.request(Method::POST, RUNS).bearer_auth(&alice);
    let answer = timeout(PATIENCE, app.send(said.json(&json!({ "message": "Hi", "stream": false })))).await;
    assert_eq!(good(answer.unwrap())["reply"], "At once.");
    assert_eq!(app.upstream.requests().len(), 4, "three of mallory's eight, and alice's");
}

/// L3: what others take of the time is not taken off a run's own.
#[tokio::test]
async fn l3_a_run_that_waits_for_its_turn_to_ask_has_all_of_its_time_afterwards() {
    let model_calls = CallShares { all: 1, of_one_user: 1 };
    let app = TestApp::with(Setup { model_calls, ..Setup::app("[loop]\nrun_timeout_seconds = 1\n") }).await;
    app.upstream.program(|_| Reply::silence());
    let body = json!({ "message": "Hi", "stream": false });
    let (first, second) = tokio::join!(app.post(RUNS, &body), app.post(RUNS, &body));
    for answer in [first, second] {
        assert_eq!(good(answer)["error"]["code"], "run_timeout");
    }
    assert_eq!(app.upstream.requests().len(), 2, "both have asked");
}

/// The supervisor of the process has to start it again, so that both probes must say so.
#[tokio::test]
async fn both_probes_are_red_once_nothing_can_be_written() {
    let fuse = Fuse::blowing_at(0);
    let app = TestApp::with(Setup { fuse: Some(fuse.clone()), ..Setup::default() }).await;
    app.service.idle().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    fuse.arm();
    let lost = app.post("/v1/apps/test/threads", &json!({})).await;
    assert_eq!(lost.status, 503, "{lost:?}");
    app.service.writing_ended().await;
    for path in ["/healthz", "/readyz"] {
        let answer = app.get(path).await;
        assert_eq!((answer.status, &answer.body["code"]), (503, &json!("unavailable")), "{path}: {answer:?}");
    }
}
