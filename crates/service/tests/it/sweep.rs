//! Sweeps: asked for by what leaves something to purge, one at a time, and by no run that leaves nothing.

use futures_util::future::join_all;
use serde_json::json;
use testkit::upstream::Reply;
use testkit::{Method, Setup, TestApp};

/// A job that was done long ago, by which it can be seen whether a sweep has come by.
const OLD_JOB: &str = "INSERT INTO jobs (id, kind, key, app, user, status, run_at, created_at, updated_at)
    VALUES (randomblob(16), 'extract_memories', 'old', 'test', 'local', 'done', 0, 0, 0)";

fn old_jobs(app: &TestApp) -> i64 {
    app.count("SELECT count(*) FROM jobs WHERE key = 'old'")
}

async fn new_thread(app: &TestApp) -> String {
    app.post("/v1/apps/test/threads", &json!({})).await.body["id"].as_str().unwrap().to_owned()
}

async fn delete(app: &TestApp, thread: &str) {
    let deleted = app.send(app.request(Method::DELETE, &format!("/v1/threads/{thread}"))).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

#[tokio::test]
async fn a_run_that_ends_sweeps_only_if_its_thread_was_deleted() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("One."), Reply::silence()]);
    app.service.idle().await; // the sweep of the start is over
    app.database().execute(OLD_JOB, []).unwrap();
    app.say("First").await;
    app.service.idle().await;
    assert_eq!(old_jobs(&app), 1, "nothing was left to purge");
    let thread = new_thread(&app).await;
    let body = json!({ "message": "Second", "threadId": thread });
    let running = app.stream("/v1/apps/test/runs", &body).await;
    app.upstream.wait_for_requests(2).await;
    delete(&app, &thread).await;
    drop(running);
    app.service.idle().await;
    assert_eq!(old_jobs(&app), 0);
    assert_eq!(app.count("SELECT count(*) FROM threads WHERE deleted_at IS NOT NULL"), 0);
}

#[tokio::test]
async fn what_is_deleted_during_a_sweep_is_purged_by_the_one_after_it() {
    let app = TestApp::start().await;
    app.service.idle().await;
    let threads: Vec<String> = join_all((0..20).map(|_| new_thread(&app))).await;
    join_all(threads.iter().map(|thread| delete(&app, thread))).await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0);
}

/// The job that named a thread is forgotten after a day. The thread has its name all the same, and no model is asked.
#[tokio::test]
async fn a_thread_is_named_once_though_its_job_is_forgotten() {
    let title = Some("Name the conversation.".to_owned());
    let app = TestApp::with(Setup { title, ..Setup::default() }).await;
    app.upstream.script([Reply::says("High."), Reply::says("Tides"), Reply::says("Low.")]);
    let thread = app.say("How high is the tide?").await[1].data["threadId"].as_str().unwrap().to_owned();
    app.service.idle().await;
    app.database().execute("UPDATE jobs SET updated_at = 0", []).unwrap();
    let other = new_thread(&app).await;
    delete(&app, &other).await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs"), 0);
    let body = json!({ "message": "And at night?", "threadId": thread });
    app.stream("/v1/apps/test/runs", &body).await.all().await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM jobs WHERE kind = 'name_thread' AND status = 'done'"), 1);
    assert_eq!(app.upstream.requests().len(), 3, "nobody was asked for a second name");
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'thread:named'"), 1);
    assert_eq!(app.get(&format!("/v1/threads/{thread}")).await.body["title"], "Tides");
}
