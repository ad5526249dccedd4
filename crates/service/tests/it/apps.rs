//! Apps that are replaced while the service runs.

use std::fs;
use std::sync::Arc;

use protocol::{AppId, AppView};
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

/// The app `test` with this `app.toml`, beside the one that is served.
pub(crate) fn version(app: &TestApp, toml: &str) -> Arc<app::App> {
    let dir = app.data().join("versions/test");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("app.toml"), toml).unwrap();
    fs::write(dir.join("instructions.md"), "You are new.").unwrap();
    Arc::new(app::load(&dir).unwrap())
}

fn only(app: &TestApp) -> AppView {
    app.service.apps().pop().unwrap()
}

#[tokio::test]
async fn a_good_version_takes_the_place_of_the_one_before() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Hello."));
    let new = version(&app, "name = 'New'\ntools = ['echo']");
    app.service.note_problem(&new.id, Some("broken".into()));
    assert_eq!(only(&app).problem.as_deref(), Some("broken"));
    app.service.replace_app(Arc::clone(&new)).await.unwrap();
    let shown = only(&app);
    assert_eq!((shown.name.as_str(), shown.problem), ("New", None));
    assert_eq!(app.service.revision(&new.id).unwrap(), new.revision);
    app.say("Hi").await;
    let request = app.upstream.requests().pop().unwrap();
    let told = request.body["messages"][0]["content"].as_str().unwrap();
    assert!(told.starts_with("You are new."), "{told}");
}

#[tokio::test]
async fn a_version_with_a_tool_that_does_not_exist_changes_nothing() {
    let app = TestApp::start().await;
    let before = only(&app);
    let wrong = version(&app, "tools = ['absent']");
    let problem = app.service.replace_app(wrong).await.unwrap_err();
    assert!(problem.message.contains("there is no tool named"), "{problem}");
    assert_eq!(only(&app), before);
}

#[tokio::test]
async fn an_app_that_is_gone_is_not_found_and_can_come_back() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Hello."));
    app.service.remove_app(&AppId::new("test"));
    app.service.note_problem(&AppId::new("test"), Some("nobody hears this".into()));
    let answer = app.post("/v1/apps/test/runs", &serde_json::json!({ "message": "Hi" })).await;
    assert_eq!((answer.status, app.service.apps().len()), (404, 0));
    app.service.replace_app(version(&app, "")).await.unwrap();
    assert_eq!(app.say("Hi").await.last().unwrap().data["status"], "completed");
}

fn keeps_revisions() -> Setup {
    Setup { keeps_revisions: true, ..Setup::app("tools = ['echo']") }
}

/// Starts a run that is cut off, gives the app another folder, and lets the run go on after a restart.
async fn restarted_with_another_version(app: TestApp) -> (TestApp, String) {
    app.upstream.script([Reply::stream().text("Half").stall(), Reply::says("Whole."), Reply::says("Next.")]);
    let mut stream = app.stream("/v1/apps/test/runs", &serde_json::json!({ "message": "Hi" })).await;
    let run = stream.header("x-run-id");
    stream.read_until("text:delta").await;
    drop(stream);
    let folder = app.data().with_file_name("apps").join("test");
    fs::write(folder.join("app.toml"), "tools = ['gated']").unwrap();
    fs::write(folder.join("instructions.md"), "You are another.").unwrap();
    let app = app.restart().await;
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed");
    (app, run)
}

/// The tool that each request offers to the model.
fn offered_tools(app: &TestApp) -> Vec<String> {
    let offered =
        |body: &serde_json::Value| body["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    app.upstream.requests().iter().map(|request| offered(&request.body)).collect()
}

#[tokio::test]
async fn a_run_continues_after_a_restart_with_the_version_that_it_began_with() {
    let app = TestApp::with(keeps_revisions()).await;
    app.service.idle().await; // the files of the app are stored
    let (app, run) = restarted_with_another_version(app).await;
    app.say("And now?").await;
    assert_eq!(
        offered_tools(&app),
        ["echo", "echo", "gated"],
        "the run has its own version, a new run the new one"
    );
    let shown = app.get(&format!("/v1/runs/{run}/prompt")).await.body.to_string();
    assert!(shown.contains("echo") && !shown.contains("You are another."), "as it was: {shown}");
    app.service.idle().await;
    assert_eq!(app.count("SELECT count(*) FROM app_revisions"), 2);
}

#[tokio::test]
async fn a_run_whose_version_is_not_kept_continues_with_the_current_one() {
    let app = TestApp::with(keeps_revisions()).await;
    app.service.idle().await;
    app.database().execute("UPDATE app_revisions SET revision = 'another'", []).unwrap();
    let (app, _) = restarted_with_another_version(app).await;
    assert_eq!(offered_tools(&app), ["echo", "gated"]);
}
