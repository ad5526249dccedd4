//! Work in the background: caused by runs, done once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::upstream::{Call, Reply};
use testkit::{Frame, Setup, TestApp};

fn titles(frames: &[Frame]) -> Vec<&Value> {
    frames.iter().filter(|frame| frame.event == "thread:named").map(|frame| &frame.data["title"]).collect()
}

/// The thread's channel up to its first name.
async fn until_named(app: &TestApp, thread: &str) -> Vec<Frame> {
    app.follow(&format!("/v1/threads/{thread}/events"), None).await.until("thread:named").await
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
    app.engine.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'thread:named'"), 1, "once per thread");
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE status = 'done'"), 1, "J2: one job per key");
}

#[tokio::test]
async fn a_thread_is_named_by_the_model_where_the_app_says_how() {
    let title = Some("Name the conversation in at most five words.".to_owned());
    let app = TestApp::with(Setup { title, ..Setup::default() }).await;
    app.upstream.script([Reply::stream().call(Call::new("echo", r#"{"text":"x"}"#)), Reply::says("High.")]);
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
    app.engine.idle().await;
    let shown = app.get(&format!("/v1/threads/{}", thread.as_str().unwrap())).await.body;
    assert_eq!(shown["title"], "Mine");
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE status = 'done'"), 1);
}

#[tokio::test]
async fn a_failed_run_causes_no_name() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401)]);
    app.say("Hi").await;
    app.engine.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs"), 0);
}

#[tokio::test]
async fn a_job_of_an_unknown_kind_fails_alone_with_a_reason() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::says("Two.")]);
    app.say("First").await;
    app.engine.idle().await;
    let insert = "INSERT INTO jobs (id, kind, key, app, user, status, run_at, created_at, updated_at)
                  VALUES (randomblob(16), 'no_such_kind', 'k', 'test', 'local', 'ready', 0, 0, 0)";
    app.database().execute(insert, []).unwrap();
    let thread = thread_of(&app.say("Second").await);
    assert_eq!(titles(&until_named(&app, &thread).await), ["Second"], "J4: it blocks nobody");
    app.engine.idle().await;
    let failed = "SELECT count(*) FROM jobs WHERE kind = 'no_such_kind' AND attempts = 1 AND status = 'ready'
                  AND error = 'no such kind of job' AND run_at > updated_at";
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
    app.engine.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'sweep' AND status = 'ready'"), 0);
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE error IS NOT NULL"), 0);
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
    assert!(app.engine.is_ready());
    assert_eq!(app.count("SELECT count(*) FROM runs WHERE epoch = 2"), 10_000, "R2");
    assert!(took < Duration::from_secs(2), "R2: {took:?}");
}
