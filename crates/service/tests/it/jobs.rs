//! Work in the background: caused by runs, done once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Frame, Frames, Method, Setup, TestApp};

fn titles(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().filter(|frame| frame.event == "thread:named").map(|frame| &frame.data["title"]).collect()
}

/// The thread's channel up to its first name.
async fn until_named(app: &TestApp, thread: &str) -> Vec<Frame> {
    app.follow(&format!("/v1/threads/{thread}/events"), None).await.read_until("thread:named").await
}

fn thread_of(frames: &[Frame]) -> String {
    frames[1].data["threadId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_thread_is_named_by_its_first_words() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("High."), Reply::says("Low.")]);
    let thread = thread_of(&app.say("How high is the tide in Oslo today?\nAnd tomorrow?").await);
    assert_eq!(titles(&until_named(&app, &thread).await), ["How high is the tide in Oslo today?"]);
    let body = json!({ "message": "And at night?", "threadId": thread });
    app.stream("/v1/apps/test/runs", &body).await.all().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'thread:named'"), 1, "once per thread");
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE status = 'done'"), 1, "J2: one job per key");
}

#[tokio::test]
async fn a_thread_is_named_by_the_model_where_the_app_says_how() {
    let title = Some("Name the conversation in at most five words.".to_owned());
    let app = TestApp::with(Setup { title, ..Setup::default() }).await;
    app.upstream
        .script([Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#)), Reply::says("High.")]);
    app.upstream.program(|request| {
        let system = request["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("Name the conversation"), "{system}");
        Reply::says("\"Tides in Oslo\"\n")
    });
    let thread = thread_of(&app.say("How high is the tide?").await);
    assert_eq!(titles(&until_named(&app, &thread).await), ["Tides in Oslo"]);
    let named = &app.upstream.requests()[2].body;
    assert!(named.get("tools").is_none() && named["max_tokens"] == 64, "{named}");
}

#[tokio::test]
async fn a_name_given_by_the_user_stays() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("High.")]);
    let thread = app.post("/v1/apps/test/threads", &json!({ "title": "Mine" })).await.body["id"].clone();
    let body = json!({ "message": "How high?", "threadId": thread });
    app.stream("/v1/apps/test/runs", &body).await.all().await;
    app.service.idle().await;
    let shown = app.get(&format!("/v1/threads/{}", thread.as_str().unwrap())).await.body;
    assert_eq!(shown["title"], "Mine");
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE status = 'done'"), 1);
}

#[tokio::test]
async fn a_thread_whose_first_answer_failed_is_named_all_the_same() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401)]);
    let thread = thread_of(&app.say("How high is the tide?").await);
    assert_eq!(titles(&until_named(&app, &thread).await), ["How high is the tide?"]);
}

/// A title is wanted, not the model's.
#[tokio::test]
async fn a_thread_is_named_by_its_first_words_when_the_model_does_not_answer() {
    let title = Some("Name the conversation in at most five words.".to_owned());
    let app = TestApp::with(Setup { title, ..Setup::default() }).await;
    app.upstream.program(|request| match request["messages"][0]["content"].as_str() {
        Some(system) if system.starts_with("Name the") => Reply::status(503),
        _ => Reply::says("High."),
    });
    let thread = thread_of(&app.say("How high is the tide?").await);
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE status = 'ready' AND attempts = 1"), 1);
    app.database().execute("UPDATE jobs SET run_at = 0, attempts = 2", []).unwrap();
    app.say("And at night?").await; // makes the worker look
    assert_eq!(titles(&until_named(&app, &thread).await), ["How high is the tide?"]);
}

#[tokio::test]
async fn a_job_of_an_unknown_kind_fails_alone_with_a_reason() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    app.say("First").await;
    app.service.idle().await;
    let insert = "INSERT INTO jobs (id, kind, key, app, user, status, run_at, created_at, updated_at)
                  VALUES (randomblob(16), 'no_such_kind', 'k', 'test', 'local', 'ready', 0, 0, 0)";
    app.database().execute(insert, []).unwrap();
    let thread = thread_of(&app.say("Second").await);
    assert_eq!(titles(&until_named(&app, &thread).await), ["Second"], "J4: it blocks nobody");
    app.service.idle().await;
    let failed = "SELECT count(*) FROM jobs WHERE kind = 'no_such_kind' AND attempts = 1 AND status = 'ready'
                  AND error = 'the server does not know this kind of job' AND run_at > updated_at";
    assert_eq!(app.count(failed), 1, "it waits for its next attempt, and says why");
}

#[tokio::test]
async fn a_sweep_is_a_job_like_any_other() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One.")]);
    let insert = "INSERT INTO jobs (id, kind, key, app, user, status, run_at, created_at, updated_at)
                  VALUES (randomblob(16), 'sweep', '1', '', '', 'ready', 0, 0, 0)";
    app.database().execute(insert, []).unwrap();
    app.say("First").await; // its end makes the worker look
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'sweep' AND status = 'ready'"), 0);
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE error IS NOT NULL"), 0);
}

async fn key_of(app: &TestApp, user: &str) -> String {
    let key = NewKey { user: user.into(), app: None, admin: false, ..NewKey::default() };
    app.service.add_key(key, None).await.unwrap().token.unwrap()
}

async fn say_as(app: &TestApp, key: &str, body: &Value) -> Vec<Frame> {
    let said = app.request(Method::POST, "/v1/apps/test/runs").bearer_auth(key).json(body);
    Frames::new(said.send().await.unwrap()).all().await
}

/// Hanging jobs of one user hold up neither others nor what comes round.
#[tokio::test]
async fn jobs_of_one_user_that_hang_hold_up_nobody_elses() {
    let app =
        TestApp::with(Setup::app("[memory]\ninject = \"all\"\nextract = true\nextract_delay_seconds = 0\n"))
            .await;
    app.upstream.program(|request| {
        let is_extraction = request["response_format"]["json_schema"]["name"] == "memories";
        if is_extraction { Reply::silence() } else { Reply::says("Fine.") }
    });
    let (mallory, alice) = (key_of(&app, "mallory").await, key_of(&app, "alice").await);
    let thread = thread_of(&say_as(&app, &mallory, &json!({ "message": "One" })).await);
    for message in ["Two", "Three", "Four", "Five"] {
        say_as(&app, &mallory, &json!({ "message": message, "threadId": thread })).await;
    }
    for number in 0..20 {
        say_as(&app, &mallory, &json!({ "message": format!("Thread {number}") })).await;
    }
    app.upstream.wait_for_requests(25 + 8).await;
    let works = "SELECT count(*) FROM jobs WHERE status = 'running' AND user = 'mallory'";
    assert_eq!(app.count(works), 8, "a share, of 21 threads");
    let one_thread =
        "SELECT max(n) FROM (SELECT count(*) AS n FROM jobs WHERE status = 'running' GROUP BY thread)";
    assert_eq!(app.count(one_thread), 1, "one at a time in a thread");
    let thread = thread_of(&say_as(&app, &alice, &json!({ "message": "How high is the tide?" })).await);
    let path = format!("/v1/threads/{thread}/events");
    let follow = app.request(Method::GET, &path).bearer_auth(&alice).send().await.unwrap();
    assert_eq!(titles(&Frames::new(follow).read_until("thread:named").await), ["How high is the tide?"]);
}

#[tokio::test]
async fn ten_thousand_unfinished_runs_are_owned_again_before_the_server_is_ready() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::silence());
    app.database()
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO threads (id, app, user, created_at, updated_at)
                 SELECT unhex(printf('%032x', 1000000 + i)), 'test', 'local', 0, 0 FROM n;
             INSERT INTO runs (id, thread, app, user, message, status, start_seq, created_at)
                 SELECT id, id, app, user, id, 'running', 1, 0 FROM threads;",
        )
        .unwrap();
    let started = Instant::now();
    let app = app.restart().await;
    let took = started.elapsed();
    println!("10,000 unfinished runs: ready after {took:?}");
    assert!(app.service.is_ready());
    assert_eq!(app.count("SELECT count(*) FROM runs WHERE epoch = 2"), 10_000, "R2");
    assert!(took < Duration::from_secs(2), "R2: {took:?}");
}
