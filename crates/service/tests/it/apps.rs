//! Apps that are replaced while the service runs.

use std::fs;
use std::sync::Arc;

use protocol::{AppId, AppView};
use testkit::TestApp;
use testkit::upstream::Reply;

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
