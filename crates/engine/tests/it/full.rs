//! A full disk in the midst of work: everything waits for space, and goes on without a restart (D3).

use serde_json::{Value, json};
use testkit::upstream::{Call, Gate, Reply};
use testkit::{Frame, Fuse, Method, Setup, TestApp, audit};

async fn with(app: &str) -> (TestApp, Fuse) {
    let fuse = Fuse::never();
    let setup = Setup { fuse: Some(fuse.clone()), ..Setup::app(app) };
    (TestApp::with(setup).await, fuse)
}

fn of<'a>(frames: &'a [Frame], event: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

fn assert_sound(app: &TestApp) {
    assert_eq!(audit(&app.data()), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_tool_did_is_written_down_when_there_is_space() {
    let (app, fuse) = with("tools = [\"act_irreversible\"]").await;
    app.upstream.script([Reply::stream().call(Call::new("act_irreversible", "{}")), Reply::says("Paid.")]);
    let stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Pay" })).await;
    app.gate.reached().await;
    fuse.fill(true);
    app.gate.open();
    fuse.refused(2).await;
    fuse.fill(false);
    let frames = stream.all().await;
    assert_eq!(of(&frames, "tool:complete")[0]["status"], "complete", "nobody has to guess: {frames:?}");
    assert_eq!(of(&frames, "run:end")[0]["status"], "completed");
    assert_eq!(app.arrivals.all().len(), 1, "and it was done once");
    app.engine.idle().await;
    assert_sound(&app);
}

#[tokio::test]
async fn an_answer_that_lost_its_place_begins_again() {
    let (app, fuse) = with("").await;
    let gate = Gate::new();
    app.upstream
        .script([Reply::stream().text("One ").wait(&gate).text("two."), Reply::says("One two three.")]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Count" })).await;
    let mut frames = stream.until("text:delta").await;
    fuse.fill(true);
    gate.open();
    fuse.refused(2).await;
    fuse.fill(false);
    frames.extend(stream.all().await);
    assert_eq!(of(&frames, "step:reset").len(), 1, "{frames:?}");
    assert_eq!(of(&frames, "stream:complete")[0]["text"], "One two three.");
    app.engine.idle().await;
    assert_sound(&app);
}

#[tokio::test]
async fn a_job_whose_effect_found_no_space_runs_again() {
    let gate = Gate::new();
    let fuse = Fuse::never();
    let title = Some("Name the conversation.".to_owned());
    let app = TestApp::with(Setup { title, fuse: Some(fuse.clone()), ..Setup::default() }).await;
    app.upstream.script([Reply::says("High."), Reply::stream().wait(&gate).text("Tides")]);
    app.say("How high is the tide?").await;
    app.upstream.wait_for_requests(2).await;
    fuse.fill(true);
    gate.open();
    fuse.refused(2).await;
    fuse.fill(false);
    app.engine.idle().await;
    let ready =
        "SELECT count(*) FROM jobs WHERE kind = 'name_thread' AND status = 'ready' AND error IS NOT NULL";
    assert_eq!(app.count(ready), 1, "it is not left running until the next start");
}

#[tokio::test]
async fn an_undo_outside_is_written_down_when_there_is_space() {
    let (app, fuse) = with("tools = [\"act_undone_once\"]").await;
    app.upstream.script([Reply::stream().call(Call::new("act_undone_once", "{}")), Reply::says("Booked.")]);
    app.gate.open();
    app.say("Book").await;
    app.engine.idle().await;
    let action = app.get("/v1/apps/test/actions").await.body["data"][0]["id"].as_str().unwrap().to_owned();
    let app = app.restart().await; // with a gate that is closed
    let undo = app.send(app.request(Method::POST, &format!("/v1/actions/{action}/undo")));
    let full = async {
        app.gate.reached().await;
        fuse.fill(true);
        app.gate.open();
        fuse.refused(2).await;
        fuse.fill(false);
    };
    let (undone, ()) = tokio::join!(undo, full);
    assert_eq!(undone.status, 200, "{undone:?}");
    assert_eq!(app.arrivals.all().len(), 2, "done and undone, once each");
    assert_sound(&app);
}
