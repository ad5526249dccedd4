//! Actors before servers that break on purpose, and before a real one: what they write down is what happened.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};
use service::NewKey;
use tempfile::TempDir;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Setup, TestApp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::client::ClientRequest;
use super::reading::{FollowedStream, ReadingPlan};
use super::*;
use crate::balancer::Balancer;
use crate::program::MessageProgram;
use crate::record::{Book, End, Op, OperationOutcome, Trial, What};
use crate::stage::{Moments, Starts};

fn user(name: &str, key: &str) -> User {
    User { name: name.into(), app: "test".into(), key: key.into(), canary: format!("canary-{name}") }
}

fn stage(url: &str, users: Vec<User>) -> (Stage, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage {
        balancer: Balancer::new([url.to_owned()]),
        users: users.into(),
        seed: 42,
        book: Book::open(folder.path()).unwrap(),
        moments: Moments::new(),
        starts: Starts::default(),
        curtain: CancellationToken::new(),
    };
    (stage, folder)
}

fn actor(stage: &Stage) -> Actor {
    Actor {
        stage: stage.clone(),
        number: 0,
        user: stage.users[0].clone(),
        http: testkit::plain_client().build().unwrap(),
        pool: ActorPool::default(),
        streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        salt: 1,
        named: AtomicU64::new(0),
        asked: AtomicU64::new(0),
    }
}

#[tokio::test]
async fn a_request_is_sent_again_the_same_until_its_answer_is_definite_and_whole() {
    let web = Web::start().await;
    let (stage, _folder) = stage(&web.url(), vec![user("ann", "key")]);
    let memory = web::WebReply::json(&json!({ "id": "mem_1" }));
    let replies = [web::WebReply::broken(), web::WebReply::status(503), memory.clone().half(), memory];
    web.on("POST", "/v1/apps/test/memories", replies);

    let actor = actor(&stage);
    actor.change_memory(&mut Rng::with_seed(1)).await;

    let arrivals = web.arrivals();
    let first = &arrivals[0];
    assert!(arrivals.iter().all(|other| other.body == first.body));
    assert!(arrivals.iter().all(|other| other.header("idempotency-key") == Some("remember0-0-00000001")));
    let trial = stage.book.trial_so_far();
    let [op] = trial.ops.as_slice() else { panic!("{:?}", trial.ops) };
    assert_eq!((op.outcome, op.attempts.as_slice()), (OperationOutcome::Ok, [0, 503, 200, 200].as_slice()));
    assert!(op.answered.unwrap() <= op.ended && op.began <= op.answered.unwrap());
    let What::Remember { text, memory } = &op.what else { panic!("{op:?}") };
    assert_eq!((first.json()["text"].as_str(), memory.as_deref()), (Some(text.as_str()), Some("mem_1")));
    assert!(text.contains("canary-ann"));
}

#[tokio::test]
async fn a_refusal_is_definite_and_a_limit_is_not() {
    let web = Web::start().await;
    let (stage, _folder) = stage(&web.url(), vec![user("ann", "key")]);
    web.on("POST", "/v1/proposals/prop_1/confirm", [web::WebReply::status(429), web::WebReply::status(409)]);
    web.on("POST", "/v1/proposals/prop_1/reject", [web::WebReply::status(429), web::WebReply::status(409)]);

    actor(&stage).decide("prop_1", &mut Rng::with_seed(1)).await;

    let op = stage.book.trial_so_far().ops.remove(0);
    assert_eq!((op.outcome, op.attempts), (OperationOutcome::Fail, vec![429, 409]));
}

#[tokio::test]
async fn a_node_that_refuses_or_cannot_serve_is_passed_over() {
    let (busy, idle) = (Web::start().await, Web::start().await);
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (mut stage, _folder) = stage(&busy.url(), vec![user("ann", "key")]);
    stage.balancer = Balancer::new([format!("http://{gone}"), busy.url(), idle.url()]);
    let path = "/v1/proposals/prop_1/confirm";
    let later = || web::WebReply::status(503).header("retry-after", "1");
    busy.on("POST", path, [later(), later()]);
    idle.on("POST", path, [web::WebReply::json(&json!({ "runId": "run_1" }))]);
    let ask = ClientRequest::new(reqwest::Method::POST, path).key("k");
    let told = actor(&stage).ask_until_definite(&ask, &mut Rng::with_seed(1)).await;
    assert_eq!((told.attempts.as_slice(), told.node), ([200].as_slice(), Some(2)));

    stage.balancer.take_out(2);
    idle.on("POST", path, [web::WebReply::json(&json!({ "runId": "run_1" }))]);
    let opened = actor(&stage).open(&ask).await.unwrap();
    assert_eq!((opened.response.status().as_u16(), opened.node), (503, 1), "nobody else is in service");
}

fn event(seq: u64, event: &str, data: &str) -> String {
    format!("event: {event}\nid: {seq}\ndata: {data}\n\n")
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_after_the_last_whole_event() {
    let web = Web::start().await;
    let (stage, _folder) = stage(&web.url(), vec![user("ann", "key")]);
    let (first, second) = (event(3, "text:delta", "{}"), event(7, "run:end", r#"{"status":"completed"}"#));
    let stream = |text: String| web::WebReply::text(&text).header("content-type", "text/event-stream");
    let broken = stream(format!("retry: 600\n\n{first}{}", event(7, "run:end", &"x".repeat(100)))).half();
    let stopped = stream("retry: 600\n\n: keep-alive\n\nretry: 700\n\n".into());
    web.on("GET", "/v1/runs/run_1/events", [broken, stopped, web::WebReply::status(503), stream(second)]);

    let mut rng = Rng::with_seed(1);
    let place = FollowedStream::Run("run_1".into());
    let seen = actor(&stage).follow(&place, None, &mut ReadingPlan::to_the_end(&mut rng), &mut rng).await;

    assert_eq!(seen, [3, 7]);
    let cursors: Vec<Option<String>> =
        web.arrivals().iter().map(|arrival| arrival.header("last-event-id").map(str::to_owned)).collect();
    let three = || Some("3".to_owned());
    assert_eq!(cursors, [None, three(), three(), three()]);
    let readings = stage.book.trial_so_far().readings;
    let ends: Vec<(u16, Option<u64>, usize, End)> = readings
        .iter()
        .map(|reading| (reading.status, reading.after, reading.frames.len(), reading.end))
        .collect();
    let expected = [
        (200, None, 1, End::Cut),
        (200, Some(3), 0, End::Whole),
        (503, Some(3), 0, End::None),
        (200, Some(3), 1, End::Whole),
    ];
    assert_eq!(ends, expected);
}

#[tokio::test]
async fn another_user_s_word_in_an_answer_is_a_leak() {
    let web = Web::start().await;
    let (stage, _folder) = stage(&web.url(), vec![user("ann", "key"), user("bob", "other")]);
    let hits = json!({ "data": [{ "memory": { "text": "canary-ann keeps it" } }, { "memory": { "text": "canary-bob keeps it" } }] });
    web.on("POST", "/v1/apps/test/memories/search", [web::WebReply::json(&hits)]);

    let actor = actor(&stage);
    actor.pool.learn_memory("mem_1", "word");
    actor.search(&mut Rng::with_seed(1)).await;

    let trial = stage.book.trial_so_far();
    assert_eq!(trial.leaks.len(), 1, "{:?}", trial.leaks);
    assert!(trial.leaks[0].starts_with("ann of test received the word of bob"), "{:?}", trial.leaks);
    let What::Search { words, found } = &trial.ops[0].what else { panic!("{:?}", trial.ops) };
    assert_eq!((words.as_str(), found.len()), ("word", 2));
}

#[tokio::test]
async fn a_stalled_reader_stays_until_it_is_sent_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stage, _folder) =
        stage(&format!("http://{}", listener.local_addr().unwrap()), vec![user("ann", "key")]);
    let what = What::Send {
        tag: "t".into(),
        thread: None,
        runs: vec!["run_1".into()],
        threads: vec!["thr_1".into()],
        on_busy: None,
    };
    let (user, app, key) = ("ann".into(), "test".into(), "k".into());
    let (outcome, attempts, node) = (OperationOutcome::Ok, vec![200], Some(0));
    let (began, ended, answered) = (0, 1, Some(1));
    let op = Op { actor: 0, user, app, key, what, began, ended, outcome, attempts, answered, node };
    stage.book.note_op(op);

    let serving = async {
        let mut requests = HashSet::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8(request[..read].to_vec()).unwrap();
            requests.insert(request.lines().next().unwrap().to_owned());
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nevent: x\n\n").await.unwrap();
        }
        requests
    };
    let (requests, done) = tokio::join!(serving, stalled_readers(stage, 2));
    done.unwrap();
    let expected = ["GET /v1/threads/thr_1/events HTTP/1.1", "GET /v1/runs/run_1/events HTTP/1.1"];
    assert_eq!(requests, expected.map(str::to_owned).into());
}

#[test]
fn every_deed_is_drawn_as_often_as_it_weighs() {
    let mut rng = Rng::with_seed(1);
    let drawn: Vec<Deed> = (0..20_000).map(|_| Deed::draw(&mut rng)).collect();
    let all: u32 = DEEDS.iter().map(|(_, weight)| weight).sum();
    for (deed, weight) in DEEDS {
        let share = drawn.iter().filter(|other| **other == deed).count() as f64 / 20_000.0;
        let expected = f64::from(weight) / f64::from(all);
        assert!((share - expected).abs() < 0.02, "{deed:?}: {share} instead of {expected}");
    }
}

/// Returns the answer of the model: the program in the newest message says it, but for tools that this server does not
/// have.
fn reply(request: &Value) -> Reply {
    let messages = request["messages"].as_array().unwrap();
    let newest = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    let step = messages[newest..].iter().filter(|message| message["role"] == "assistant").count();
    let Some(program) = MessageProgram::parse(messages[newest]["content"].as_str().unwrap_or_default())
    else {
        return Reply::says("A title");
    };
    let step = &program.steps[step];
    let mut reply = Reply::stream().text(&format!("{} ", program.tag));
    for number in 0..step.say.min(20) {
        reply = reply.text(&format!("word{number} "));
    }
    step.calls.iter().fold(reply, |reply, (name, input)| {
        let name = if name == "ask" { "risky" } else { "echo" };
        reply.call(ScriptedCall::new(name, &json!({ "text": input.to_string() }).to_string()))
    })
}

/// Checks the conditions that must hold of everything that was written down.
fn check(trial: &Trial) {
    assert_eq!(trial.leaks, Vec::<String>::new());
    let keys: HashSet<&str> = trial.ops.iter().map(|op| op.key.as_str()).collect();
    assert_eq!(keys.len(), trial.ops.len());
    let mut tags = HashSet::new();
    for op in &trial.ops {
        assert_ne!(op.outcome, OperationOutcome::Unknown, "{op:?}");
        if let What::Send { tag, runs, threads, .. } = &op.what {
            assert!(tags.insert(tag.clone()), "{tag} twice");
            let told = usize::from(op.outcome == OperationOutcome::Ok);
            assert_eq!((runs.len(), threads.len()), (told, told), "{op:?}");
        }
    }
    let mut events = HashMap::new();
    for reading in &trial.readings {
        for frame in &reading.frames {
            let place = (reading.run.clone(), reading.thread.clone(), frame.seq);
            let seen = (frame.event.clone(), frame.hash.clone());
            assert_eq!(*events.entry(place).or_insert(seen.clone()), seen, "{reading:?}");
        }
        let last = reading.frames.last().map(|frame| frame.event.as_str());
        let run_ended = last == Some("run:end") && reading.run.is_some();
        assert!(!run_ended || reading.end == End::Whole, "{reading:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_before_a_real_server_leave_nothing_open_and_know_what_it_has() {
    const REQUESTS: usize = 60;
    let app = TestApp::with(Setup::app("tools = [\"echo\", \"risky\"]")).await;
    let mut users = Vec::new();
    for name in ["ann", "bob"] {
        let key = NewKey { user: name.into(), app: None, admin: false, ..NewKey::default() };
        users.push(user(name, &app.service.add_key(key, None).await.unwrap().token.unwrap()));
    }
    let (stage, _folder) = stage(&app.url, users);
    let (asked, curtain) = (AtomicUsize::new(0), stage.curtain.clone());
    app.upstream.program(move |request| {
        if asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS {
            curtain.cancel();
        }
        reply(request)
    });

    perform(stage.clone(), 0, 4).await.unwrap();

    let trial = stage.book.trial_so_far();
    check(&trial);
    let of = |outcome| trial.ops.iter().filter(|op| op.outcome == outcome).count();
    assert!(
        of(OperationOutcome::Ok) > of(OperationOutcome::Fail),
        "{} ok, {} refused",
        of(OperationOutcome::Ok),
        of(OperationOutcome::Fail)
    );
    assert!(trial.readings.iter().any(|reading| reading.after.is_some()));
    assert!(trial.readings.iter().any(|reading| reading.end == End::Whole));
    let accepted = trial
        .ops
        .iter()
        .filter(|op| matches!(op.what, What::Send { .. }) && op.outcome == OperationOutcome::Ok);
    assert!(app.count("SELECT count(*) FROM runs") <= i64::try_from(accepted.count()).unwrap());
    assert_eq!(app.count("SELECT count(*) FROM proposals WHERE status = 'open'"), 0);
    assert_eq!(app.count("SELECT count(*) FROM runs WHERE ended_at IS NULL"), 0);
}
