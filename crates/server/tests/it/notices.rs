//! The channel of a user: one sequence of notices about all apps, and threads that are followed on the same connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use protocol::Stored;
use serde_json::{Value, json};
use server::ServerLimits;
use service::NewKey;
use testkit::client::{RequestBuilder, Response};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{EventDecoder, Setup, StreamedEvent, TestApp, WordVectors};

use crate::support::{
    RUNS, THREADS, delete, good, patch, refused, repeating, say, say_in, send_as, thread, told,
};

const EVENTS: &str = "/v1/events";

/// An open channel.
struct Channel {
    response: Response,
    decoder: EventDecoder,
    ready: VecDeque<StreamedEvent>,
    text: String,
}

/// A notice as it came.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    id: Option<u64>,
    event: String,
    data: Value,
}

impl Channel {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut channel =
            Self { response, decoder: EventDecoder::default(), ready: VecDeque::new(), text: String::new() };
        // Once it has said where it stands, it misses nothing.
        while !channel.text.contains("id: ") {
            channel.read().await;
        }
        channel
    }

    async fn of(app: &TestApp, query: &str) -> Self {
        Self::open(app.request(Method::GET, &format!("{EVENTS}{query}"))).await
    }

    async fn read(&mut self) {
        let chunk = self.response.chunk().await.unwrap().expect("a channel does not end");
        self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        self.ready.extend(self.decoder.feed(&chunk).unwrap());
    }

    async fn next(&mut self) -> Told {
        while self.ready.is_empty() {
            self.read().await;
        }
        let StreamedEvent { id, event, data } = self.ready.pop_front().unwrap();
        Told { id, event, data: serde_json::from_slice(&data).unwrap() }
    }

    async fn take(&mut self, count: usize) -> Vec<Told> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await);
        }
        all
    }

    /// Everything up to the first one that fits.
    async fn until(&mut self, fits: impl Fn(&Told) -> bool) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let told = self.next().await;
            let found = fits(&told);
            all.push(told);
            if found {
                return all;
            }
        }
    }

    /// Everything up to the end of a run.
    async fn until_run_ends(&mut self) -> Vec<Told> {
        self.until(|told| told.event == "notice:run" && told.data["status"] == "completed").await
    }

    /// The place that the stream begins with, before any event.
    fn place(&self) -> u64 {
        let id = self.text.split("\n\n").find_map(|block| block.strip_prefix("id: "));
        id.expect("a place").parse().unwrap()
    }
}

fn names(told: &[Told]) -> Vec<String> {
    let word = |told: &Told| {
        ["status", "change"].iter().find_map(|field| told.data[*field].as_str().map(str::to_owned))
    };
    told.iter().map(|told| format!("{} {}", told.event, word(told).unwrap_or_default())).collect()
}

fn numbers(told: &[Told]) -> Vec<u64> {
    told.iter().map(|told| told.id.expect("a notice has a number")).collect()
}

fn with_other_app() -> Setup {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    Setup { files, ..Setup::default() }
}

#[tokio::test]
async fn every_tab_hears_of_messages_that_wait() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo."), Reply::stream().text("Yes.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let mut channel = Channel::of(&app, "").await;
    let body = json!({ "message": "Next", "threadId": stream.header("x-thread-id") });
    let waiting = app.stream(RUNS, &body).await;
    let told = channel.until(|told| told.event == "notice:run").await;
    let queued = &told.last().unwrap().data;
    assert_eq!((&queued["status"], &queued["runId"]), (&json!("queued"), &json!(waiting.header("x-run-id"))));
    gate.open();
    stream.all().await;
    waiting.all().await;
    let rest = channel.until_run_ends().await;
    assert_eq!(rest.last().map(|told| &told.event), Some(&"notice:run".to_owned()));
}

#[tokio::test]
async fn every_tab_hears_of_threads_and_runs_in_one_order() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let (mut one, mut two) = (Channel::of(&app, "").await, Channel::of(&app, "").await);
    assert_eq!(one.place(), 0);

    let made = good(app.post(THREADS, &json!({ "title": "First" })).await);
    let path = format!("/v1/threads/{}", made["id"].as_str().unwrap());
    say_in(&app, made["id"].as_str().unwrap(), "Hello").await;
    good(patch(&app, &path, &json!({ "title": "Named" })).await);
    assert_eq!(delete(&app, &path).await.status, 204);

    let seen = one.until(|told| told.data["change"] == "deleted").await;
    assert_eq!(
        names(&seen),
        [
            "notice:thread created",
            "notice:thread changed",
            "notice:run running",
            "notice:thread changed",
            "notice:run completed",
            "notice:thread changed",
            "notice:thread deleted",
        ]
    );
    assert_eq!(numbers(&seen), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seen[0].data["appId"], "test");
    assert_eq!(seen[2].data["threadId"], made["id"]);
    let gone = json!({ "appId": "test", "threadId": made["id"], "change": "deleted", "title": null, "pinned": false,
            "archived": false, "lastSeq": 0 });
    assert_eq!(seen[6].data, gone);
    let same = two.take(7).await;
    assert_eq!((names(&same), numbers(&same)), (names(&seen), numbers(&seen)));
    // A run costs two rows.
    assert_eq!(app.count("SELECT count(*) FROM notices WHERE kind = 'run'"), 2);
    assert_eq!(app.count("SELECT count(*) FROM notices"), 5);
}

#[tokio::test]
async fn a_run_in_a_new_thread_writes_two_rows_and_its_thread_is_new() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut channel = Channel::of(&app, "").await;
    let stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Hi" })).await;
    let (run, thread) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    let begun = channel.take(2).await;
    assert_eq!(names(&begun), ["notice:thread created", "notice:run running"]);
    assert_eq!(begun[0].data["activeRunId"], run.as_str());
    assert!(begun[0].data["lastSeq"].as_u64().unwrap() >= 2, "{begun:?}");
    assert_eq!(
        begun[1].data,
        json!({ "appId": "test", "threadId": thread, "runId": run, "status": "running" })
    );
    assert_eq!(app.count("SELECT count(*) FROM notices"), 1);
    gate.open();
    stream.all().await;
    let ended = channel.until_run_ends().await;
    assert_eq!(ended[0].data.get("activeRunId"), None, "{ended:?}");
    assert_eq!(app.count("SELECT count(*) FROM notices WHERE kind = 'run'"), 2);
}

#[tokio::test]
async fn a_reader_goes_on_after_any_notice_also_after_a_restart() {
    let limits = ServerLimits { max_streams_per_user: 64, ..ServerLimits::default() };
    let app = TestApp::with(Setup { limits, ..Setup::default() }).await;
    app.upstream.program(repeating);
    let first = say(&app, "One").await;
    say_in(&app, &first.thread, "Two").await;
    let newest = Channel::of(&app, "").await.place();
    assert!(newest >= 8, "{newest}");
    let whole = Channel::of(&app, "?after=0").await.take(newest as usize).await;
    assert_eq!(numbers(&whole), (1..=newest).collect::<Vec<_>>());
    for place in 0..newest {
        let rest = whole[place as usize..].to_vec();
        assert_eq!(Channel::of(&app, &format!("?after={place}")).await.take(rest.len()).await, rest);
    }
    let by_header = app.request(Method::GET, EVENTS).header("last-event-id", "3");
    assert_eq!(Channel::open(by_header).await.next().await, whole[3]);

    // The numbers go on, and what was seen stays seen.
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    drop(app.stream("/v1/apps/test/runs", &json!({ "message": "Three", "threadId": first.thread })).await);
    let app = app.restart().await;
    gate.open();
    app.service.idle().await;
    let mut channel = Channel::of(&app, &format!("?after={newest}")).await;
    let rest = channel.until_run_ends().await;
    assert_eq!(
        names(&rest),
        ["notice:thread changed", "notice:run running", "notice:thread changed", "notice:run completed"]
    );
    assert_eq!(numbers(&rest), [newest + 1, newest + 2, newest + 3, newest + 4]);
}

#[tokio::test]
async fn a_place_that_is_older_than_a_day_or_was_never_there_is_told_to_read_all_again() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    say(&app, "One").await;
    let newest = Channel::of(&app, "").await.place();
    let resync = |number: u64| Told { id: Some(number), event: "resync".into(), data: json!({}) };
    let mut ahead = Channel::of(&app, &format!("?after={}", newest + 1)).await;
    assert_eq!(ahead.next().await, resync(newest));

    app.setup().clock.advance(Duration::from_hours(23));
    let doomed = thread(&app).await;
    assert_eq!(ahead.next().await.id, Some(newest + 1));
    app.setup().clock.advance(Duration::from_hours(2));
    // A deleted thread leaves something to sweep.
    assert_eq!(delete(&app, &format!("/v1/threads/{doomed}")).await.status, 204);
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM notices"), 2);
    let newest = newest + 2;
    let mut late = Channel::of(&app, "?after=1").await;
    assert_eq!(late.next().await, resync(newest));
    let mut in_time = Channel::of(&app, &format!("?after={}", newest - 2)).await;
    assert_eq!(in_time.until(|told| told.data["change"] == "deleted").await.last().unwrap().id, Some(newest));

    // All are swept, and the numbers go on.
    app.setup().clock.advance(Duration::from_hours(25));
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM notices"), 0);
    assert_eq!(Channel::of(&app, "").await.place(), newest);
    let mut late = Channel::of(&app, &format!("?after={}", newest - 1)).await;
    assert_eq!(late.next().await, resync(newest));
    thread(&app).await;
    assert_eq!(numbers(&late.take(1).await), [newest + 1]);
    assert_eq!(numbers(&Channel::of(&app, &format!("?after={newest}")).await.take(1).await), [newest + 1]);
}

#[tokio::test]
async fn a_key_for_one_app_hears_of_that_app_and_nobody_hears_of_others() {
    let app = TestApp::with(with_other_app()).await;
    let key = async |user: &str, only: Option<&str>| {
        let key = NewKey { user: user.into(), app: only.map(Into::into), ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let (ann, bob) = (key("ann", None).await, key("bob", None).await);
    let ann_in_other = key("ann", Some("other")).await;
    let open = async |token: &str| Channel::open(app.request(Method::GET, EVENTS).bearer_auth(token)).await;
    let (mut all, mut limited, mut of_bob) = (open(&ann).await, open(&ann_in_other).await, open(&bob).await);
    let titled = json!({ "title": "T" });
    for (token, of) in [(&ann, "test"), (&bob, "test"), (&ann, "other"), (&ann, "test"), (&ann, "other")] {
        good(send_as(&app, token, Method::POST, (&format!("/v1/apps/{of}/threads"), &titled)).await);
    }
    let apps = |told: &[Told]| -> Vec<(u64, String)> {
        told.iter().map(|told| (told.id.unwrap(), told.data["appId"].as_str().unwrap().to_owned())).collect()
    };
    let of_all = [(1, "test".to_owned()), (2, "other".into()), (3, "test".into()), (4, "other".into())];
    assert_eq!(apps(&all.take(4).await), of_all);
    assert_eq!(apps(&limited.take(2).await), [(2, "other".to_owned()), (4, "other".into())]);
    assert_eq!(apps(&of_bob.take(1).await), [(1, "test".to_owned())]);
}

#[tokio::test]
async fn calls_of_the_client_are_told_of() {
    let app =
        TestApp::with(Setup::app("tools = []\n[tool.scan]\nclient = true\ndescription = \"Scans.\"")).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("scan", "{}")), Reply::says("Milk.")]);
    let mut channel = Channel::of(&app, "").await;
    let titled = good(app.post(THREADS, &json!({ "title": "T" })).await)["id"].clone();
    let asks = json!({ "message": "Scan", "threadId": titled, "stream": false });
    let result = good(app.post("/v1/apps/test/runs", &asks).await);
    let asked = channel.until(|told| told.data["status"] == "waiting").await;
    let of_call = asked.iter().find(|told| told.event == "notice:call").unwrap();
    let call = result["clientCalls"][0]["id"].clone();
    assert_eq!(
        of_call.data,
        json!({ "appId": "test", "callId": call, "status": "open", "name": "scan",
            "threadId": result["threadId"], "runId": result["runId"] })
    );
    good(
        app.post(&format!("/v1/calls/{}/result", call.as_str().unwrap()), &json!({ "result": "milk" })).await,
    );
    let answered = channel.until_run_ends().await;
    assert!(names(&answered).contains(&"notice:call answered".to_owned()), "{answered:?}");
}

#[tokio::test]
async fn proposals_memories_and_documents_are_told_of() {
    let app = TestApp::with(Setup::app("tools = [\"risky\"]")).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#))]);
    let mut channel = Channel::of(&app, "").await;
    let titled = good(app.post(THREADS, &json!({ "title": "T" })).await)["id"].clone();
    let waiting = json!({ "message": "Do it", "threadId": titled, "stream": false });
    let result = good(app.post("/v1/apps/test/runs", &waiting).await);
    let asked = channel.until(|told| told.data["status"] == "waiting").await;
    let of_proposal = asked.iter().find(|told| told.event == "notice:proposal").unwrap();
    let proposal = result["proposals"][0]["id"].clone();
    assert_eq!(
        of_proposal.data,
        json!({ "appId": "test", "proposalId": proposal, "status": "open", "tool": "risky",
            "threadId": result["threadId"], "runId": result["runId"] })
    );
    app.upstream.script([Reply::says("Done.")]);
    let confirm = format!("/v1/proposals/{}/confirm", proposal.as_str().unwrap());
    good(app.send(app.request(Method::POST, &confirm)).await);
    let decided = channel.until_run_ends().await;
    assert!(names(&decided).contains(&"notice:proposal confirmed".to_owned()), "{decided:?}");
    assert!(names(&decided).contains(&"notice:run running".to_owned()), "{decided:?}");

    let memory = good(app.post("/v1/apps/test/memories", &json!({ "text": "Ann likes tea." })).await);
    let memory_path = format!("/v1/memories/{}", memory["id"].as_str().unwrap());
    good(patch(&app, &memory_path, &json!({ "text": "Ann likes coffee." })).await);
    assert_eq!(delete(&app, &memory_path).await.status, 204);
    let upload = app.request(Method::POST, "/v1/apps/test/documents?name=a.txt");
    let document = good(app.send(upload.header("content-type", "text/plain").body("Some text.")).await);
    assert_eq!(
        delete(&app, &format!("/v1/documents/{}", document["id"].as_str().unwrap())).await.status,
        204
    );
    let told = channel.take(5).await;
    assert_eq!(
        names(&told),
        [
            "notice:memory created",
            "notice:memory changed",
            "notice:memory deleted",
            "notice:document added",
            "notice:document deleted",
        ]
    );
    assert_eq!(told[0].data, json!({ "appId": "test", "memoryIds": [memory["id"]], "change": "created" }));
    assert_eq!(told[3].data["documentId"], document["id"]);
}

/// The events of a thread as the log has them, in the form of the channel.
fn stored_of(app: &TestApp, thread: &str) -> Vec<Told> {
    let of_thread = |event: &Stored| event.thread.to_string() == thread;
    let in_channel = |event: Stored| {
        let body: Value = serde_json::from_str(&event.body).unwrap();
        let mut data = json!({ "threadId": thread, "seq": event.seq, "data": body });
        if let Some(run) = event.run {
            data["runId"] = json!(run.to_string());
        }
        Told { id: None, event: event.kind.into_owned(), data }
    };
    app.stored_log().into_iter().filter(of_thread).map(in_channel).collect()
}

#[tokio::test]
async fn threads_are_followed_on_the_same_connection_each_in_its_own_order() {
    let app = TestApp::start().await;
    app.upstream.program(repeating);
    let titled =
        async || good(app.post(THREADS, &json!({ "title": "T" })).await)["id"].as_str().unwrap().to_owned();
    let (one, two) = (titled().await, titled().await);
    say_in(&app, &one, "Before").await;
    let seen = stored_of(&app, &one).len();
    let mut channel = Channel::of(&app, &format!("?follow={one}:{seen},{two}:0")).await;
    for (thread, message) in [(&one, "A"), (&two, "B"), (&one, "C")] {
        say_in(&app, thread, message).await;
    }
    let (of_one, of_two) = (stored_of(&app, &one)[seen..].to_vec(), stored_of(&app, &two));
    let (mut got_one, mut got_two, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    while got_one.len() < of_one.len() || got_two.len() < of_two.len() || notices.len() < 12 {
        let told = channel.next().await;
        match (told.id, told.data["threadId"] == one.as_str()) {
            (Some(_), _) => notices.push(told),
            (None, true) => got_one.push(told),
            (None, false) => got_two.push(told),
        }
    }
    assert_eq!(got_one, of_one);
    assert_eq!(got_two, of_two);
    assert_eq!(numbers(&notices), (notices[0].id.unwrap()..).take(12).collect::<Vec<_>>());

    // A thread that is deleted ends; the notice says so, and the rest goes on.
    assert_eq!(delete(&app, &format!("/v1/threads/{two}")).await.status, 204);
    let gone = channel.until(|told| told.data["change"] == "deleted").await;
    assert_eq!(gone.last().unwrap().data["threadId"], two.as_str());
    say_in(&app, &one, "D").await;
    let rest = channel.until(|told| told.event == "run:end").await;
    assert!(rest.iter().all(|told| told.data["threadId"] == one.as_str()), "{rest:?}");
}

#[tokio::test]
async fn what_cannot_be_followed_is_refused_before_the_stream_begins() {
    let app = TestApp::start().await;
    let bob = {
        let key = NewKey { user: "bob".into(), ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let ann = {
        let key = NewKey { user: "ann".into(), ..NewKey::default() };
        app.service.add_key(key, None).await.unwrap().token.unwrap()
    };
    let ask = async |query: &str| {
        send_as(&app, &bob, Method::GET, (&format!("{EVENTS}{query}"), &Value::Null)).await
    };
    let mine = good(send_as(&app, &bob, Method::POST, (THREADS, &json!({}))).await)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let foreign = good(send_as(&app, &ann, Method::POST, (THREADS, &json!({}))).await);
    let foreign = foreign["id"].as_str().unwrap();
    let unknown = format!("thr_{}", "f".repeat(32));
    for thread in [foreign, &unknown] {
        refused(ask(&format!("?follow={mine}:0,{thread}:0")).await, 404, "not_found");
    }
    for wrong in
        ["x", "thr_1:0", &mine, &format!("{mine}:-1"), &format!("{mine}:0,"), &format!("{mine}:0;{mine}:0")]
    {
        refused(ask(&format!("?follow={wrong}")).await, 422, "invalid_request");
    }
    let twice = refused(ask(&format!("?follow={mine}:0,{mine}:1")).await, 422, "invalid_request");
    assert!(twice.contains("once"), "{twice}");
    let many = vec![format!("{mine}:0"); 21].join(",");
    let many = refused(ask(&format!("?follow={many}")).await, 422, "invalid_request");
    assert!(many.contains("at most 20"), "{many}");
    for wrong in ["?after=-1", "?after=x"] {
        refused(ask(wrong).await, 400, "invalid_cursor");
    }
}

#[tokio::test]
async fn a_noisy_thread_does_not_hold_up_notices() {
    const MESSAGES: usize = 12;
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Fine."));
    let thread = good(app.post(THREADS, &json!({ "title": "T" })).await)["id"].as_str().unwrap().to_owned();
    // Each is more than one read of the log gives.
    let long = "word ".repeat(10_000);
    for _ in 0..MESSAGES {
        told(&app, json!({ "message": long, "threadId": thread })).await;
    }
    let mut channel = Channel::of(&app, &format!("?after=0&follow={thread}:0")).await;
    let newest = 1 + 4 * MESSAGES as u64;
    let all = channel.until(|told| told.id == Some(newest)).await;
    let messages = all.iter().filter(|told| told.event == "message:user").count();
    assert!(messages <= 4, "{messages} of {MESSAGES} long messages came before the last notice");
    let rest = channel.until(|told| told.data["seq"] == stored_of(&app, &thread).len() as u64).await;
    let of_thread: Vec<_> = all.into_iter().chain(rest).filter(|told| told.id.is_none()).collect();
    assert_eq!(of_thread, stored_of(&app, &thread));
}

#[tokio::test]
async fn a_channel_counts_as_a_stream_and_ends_with_its_access() {
    let limits = ServerLimits { max_streams_per_user: 1, ..ServerLimits::default() };
    let app = TestApp::with(Setup { limits, ..Setup::default() }).await;
    let key = NewKey { user: "ann".into(), ..NewKey::default() };
    let key = app.service.add_key(key, None).await.unwrap();
    let token = key.token.unwrap();
    let mut channel = Channel::open(app.request(Method::GET, EVENTS).bearer_auth(&token)).await;
    refused(send_as(&app, &token, Method::GET, (EVENTS, &Value::Null)).await, 429, "too_many_streams");
    app.service.revoke_key(key.id, None).await.unwrap();
    let last = channel.next().await;
    assert_eq!(
        (last.id, last.event.as_str(), &last.data["reason"]),
        (None, "access:ended", &json!("revoked"))
    );
    assert!(channel.response.chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn a_document_is_told_of_again_when_every_piece_has_its_vector() {
    let embedder = Arc::new(WordVectors("words"));
    let setup = Setup::app("[context]\ndocuments = \"all\"");
    let app = TestApp::with(Setup { embedder: Some(embedder), ..setup }).await;
    let mut channel = Channel::of(&app, "").await;
    let text = (0..40).map(|number| format!("# Part {number}\n\n{}\n\n", "The pump is dry. ".repeat(20)));
    let upload = app.request(Method::POST, "/v1/apps/test/documents?name=a.md");
    let upload = upload.header("content-type", "text/markdown").body(text.collect::<String>());
    let document = good(app.send(upload).await);
    let told = channel.take(2).await;
    assert_eq!(names(&told), ["notice:document added", "notice:document ready"]);
    assert_eq!(told[1].data["documentId"], document["id"]);
}
