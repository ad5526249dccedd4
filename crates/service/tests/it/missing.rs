//! Apps whose folder is away: what is unfinished there waits, and goes on when they are back.

use std::fs;
use std::sync::Arc;

use protocol::AppId;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Method, Setup, TestApp};

const RUNS: &str = "/v1/apps/test/runs";
const APP: &str = "test";

/// The app as its folder has it.
fn on_disk(app: &TestApp) -> Arc<app::App> {
    Arc::new(app::load(&app.data().join("../apps/test")).unwrap())
}

/// Puts the app's folder somewhere else, or back.
fn carry(app: &TestApp, from: &str, to: &str) {
    let root = app.data().join("..");
    fs::create_dir_all(root.join(to).parent().unwrap()).unwrap();
    fs::rename(root.join(from), root.join(to)).unwrap();
}

async fn status(app: &TestApp, run: &str) -> Value {
    app.get(&format!("/v1/runs/{run}")).await.body["status"].clone()
}

fn end(frames: &[Frame]) -> &Value {
    &frames.last().unwrap().data
}

/// A run that is in the midst of its answer, and one that is queued behind it.
async fn two_runs(app: &TestApp) -> (String, String, String) {
    let gate = Gate::new(); // never opened
    app.upstream.script([Reply::stream().text("Half").wait(&gate)]);
    let mut first = app.stream(RUNS, &json!({ "message": "One" })).await;
    first.read_until("text:delta").await;
    let (run, thread) = (first.header("x-run-id"), first.header("x-thread-id"));
    let second = app.stream(RUNS, &json!({ "message": "Two", "threadId": thread })).await;
    (run, second.header("x-run-id"), thread)
}

/// Restarts without any app, as before a volume is mounted.
async fn restart_without_app(app: TestApp) -> TestApp {
    carry(&app, "apps/test", "elsewhere/test");
    let app = app.restart().await;
    assert!(app.service.apps().is_empty());
    app
}

#[tokio::test]
async fn runs_wait_over_a_start_without_apps_and_are_answered_when_the_app_is_back() {
    let app = TestApp::start().await;
    let (first, second, _) = two_runs(&app).await;
    let app = restart_without_app(app).await;
    app.service.idle().await;
    assert_eq!(
        (status(&app, &first).await, status(&app, &second).await),
        (json!("running"), json!("queued"))
    );
    let app = app.restart().await; // a second time changes nothing
    assert_eq!(status(&app, &first).await, "running");

    app.upstream.script([Reply::says("Whole."), Reply::says("Second.")]);
    carry(&app, "elsewhere/test", "apps/test");
    app.service.replace_app(on_disk(&app)).await.unwrap();
    for (run, text) in [(&first, "Whole."), (&second, "Second.")] {
        let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
        assert_eq!(end(&frames)["status"], "completed", "{frames:?}");
        let complete = frames.iter().find(|frame| frame.event == "stream:complete").unwrap();
        assert_eq!(complete.data["text"], text);
    }
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM missing_apps"), 0, "it is not missed any more");
    assert_eq!(testkit::audit(&app.data()), Vec::<String>::new());
}

#[tokio::test]
async fn a_message_queued_while_its_app_goes_is_answered_when_the_app_is_back() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Half").wait(&gate).text(" and half"), Reply::says("Second.")]);
    let mut first = app.stream(RUNS, &json!({ "message": "One" })).await;
    first.read_until("text:delta").await;
    let thread = first.header("x-thread-id");
    let second = app.stream(RUNS, &json!({ "message": "Two", "threadId": thread })).await;
    let run = second.header("x-run-id");
    app.service.remove_app(&AppId::new(APP));
    gate.open();
    assert_eq!(end(&first.all().await)["status"], "completed", "who has begun keeps the app");
    app.service.idle().await;
    assert_eq!(status(&app, &run).await, "running", "its turn has come, and it waits");
    assert_eq!(app.upstream.requests().len(), 1);

    app.service.replace_app(on_disk(&app)).await.unwrap();
    assert_eq!(end(&second.all().await)["status"], "completed");
}

#[tokio::test]
async fn what_waits_for_its_app_can_be_cancelled_and_deleted() {
    let app = TestApp::start().await;
    let (first, second, thread) = two_runs(&app).await;
    let app = restart_without_app(app).await;
    assert_eq!(app.get(&format!("/v1/threads/{thread}/messages")).await.status, 200, "it can be read");
    let events = app.follow(&format!("/v1/runs/{first}/events"), None).await;
    assert_eq!(app.post(&format!("/v1/runs/{first}/cancel"), &json!({})).await.status, 202);
    assert_eq!(end(&events.all().await)["status"], "cancelled");
    app.service.idle().await;
    assert_eq!(status(&app, &second).await, "running", "the next one waits in its place");
    let gone = app.request(Method::DELETE, &format!("/v1/threads/{thread}"));
    assert_eq!(app.send(gone).await.status, 204);
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM threads"), 0, "all its rows are gone");
    assert_eq!(app.get(&format!("/v1/runs/{second}")).await.status, 404);
}

#[tokio::test]
async fn an_app_that_is_missing_for_a_day_is_gone() {
    let app = TestApp::start().await;
    let (first, second, _) = two_runs(&app).await;
    let app = restart_without_app(app).await;
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM missing_apps"), 1);
    let earlier = |app: &TestApp, ms: i64| {
        app.database().execute("UPDATE missing_apps SET since = since - ?1", [ms]).unwrap();
    };
    earlier(&app, 24 * 60 * 60 * 1000 - 1);
    let app = app.restart().await;
    assert_eq!(status(&app, &first).await, "running");
    earlier(&app, 1);
    let app = app.restart().await;
    app.service.idle().await;
    for run in [first, second] {
        let view = app.get(&format!("/v1/runs/{run}")).await.body;
        assert_eq!((&view["status"], &view["error"]["code"]), (&json!("failed"), &json!("app_gone")));
    }
    assert_eq!(testkit::audit(&app.data()), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_waits_for_its_app_and_that_is_no_failed_attempt() {
    let setup = Setup { title: Some("Name it.".into()), ..Setup::default() };
    let app = TestApp::with(setup).await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hello.").wait(&gate), Reply::says("A name")]);
    let mut run = app.stream(RUNS, &json!({ "message": "One" })).await;
    run.read_until("text:delta").await;
    let thread = run.header("x-thread-id");
    app.service.remove_app(&AppId::new(APP));
    gate.open();
    run.all().await;
    app.service.idle().await;
    let jobs = "SELECT count(*) FROM jobs WHERE kind = 'name_thread' AND status = 'ready' AND attempts = 0";
    assert_eq!(app.count(jobs), 1, "it has not been tried");
    app.service.replace_app(on_disk(&app)).await.unwrap();
    app.database().execute("UPDATE jobs SET run_at = 0 WHERE kind = 'name_thread'", []).unwrap();
    let app = app.restart().await; // its time has come
    app.service.idle().await;
    assert_eq!(app.get(&format!("/v1/threads/{thread}")).await.body["title"], "A name");
}

/// A proposal that outlives its run is decided once, so a yes that nothing could follow is refused.
#[tokio::test]
async fn a_yes_is_not_spent_on_an_app_that_is_missing() {
    let app = TestApp::with(Setup::app("tools = [\"markdown\", \"proposals\"]")).await;
    let file = json!({ "path": "a.md", "content": "# One\n" });
    let input = json!({ "tool": "createMarkdownFile", "input": file });
    let propose = Reply::stream().call(ScriptedCall::new("createProposal", &input.to_string()));
    app.upstream.script([propose, Reply::says("It is proposed.")]);
    app.say("Propose it").await;
    let open = app.get("/v1/apps/test/proposals?open=true").await.body;
    let proposal = format!("/v1/proposals/{}", open["data"][0]["id"].as_str().unwrap());
    let confirm = format!("{proposal}/confirm");
    app.service.remove_app(&AppId::new(APP));
    assert_eq!(app.post(&confirm, &json!({})).await.status, 404);
    assert_eq!(app.get(&proposal).await.body["status"], "open");
    app.service.replace_app(on_disk(&app)).await.unwrap();
    assert_eq!(app.post(&confirm, &json!({})).await.body["status"], "confirmed");
    assert_eq!(app.get("/v1/apps/test/files/a.md").await.status, 200);
}
