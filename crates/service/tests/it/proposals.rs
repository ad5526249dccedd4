//! Calls that need approval: the run waits without a task, and only its user can let it continue.

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Frames, Setup, TestApp};

const RISKY: &str = "tools = [\"risky\", \"echo\", \"gated\"]";

async fn start() -> TestApp {
    TestApp::with(Setup::app(RISKY)).await
}

fn risky(n: u32) -> ScriptedCall {
    ScriptedCall::new("risky", &format!("{{\"n\":{n}}}"))
}

fn of<'a>(frames: &'a [Frame], event: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

fn text(frames: &[Frame]) -> String {
    of(frames, "text:delta").iter().map(|data| data["delta"].as_str().unwrap()).collect()
}

/// Asks, up to the moment the run waits. Gives the stream, what it held, and the proposal.
async fn asked(app: &TestApp, calls: Reply) -> (Frames, Vec<Frame>, String) {
    app.upstream.script([calls]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Do it" })).await;
    let frames = stream.read_until("proposal:open").await;
    let proposal = frames.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
    (stream, frames, proposal)
}

async fn decide(app: &TestApp, proposal: &str, word: &str) -> testkit::Answer {
    app.post(&format!("/v1/proposals/{proposal}/{word}"), &json!({})).await
}

async fn status(app: &TestApp, frames: &[Frame]) -> Value {
    let run = of(frames, "run:start")[0]["runId"].as_str().unwrap();
    app.get(&format!("/v1/runs/{run}")).await.body["status"].clone()
}

#[tokio::test]
async fn a_yes_runs_exactly_what_was_shown() {
    let app = start().await;
    let (stream, frames, proposal) = asked(&app, Reply::stream().call(risky(7))).await;
    assert_eq!(status(&app, &frames).await, "waiting");
    assert_eq!(of(&frames, "tool:start"), Vec::<&Value>::new(), "nothing has begun");
    app.upstream.script([Reply::says("Done.")]);
    let decided = decide(&app, &proposal, "confirm").await;
    assert_eq!((decided.status, &decided.body["status"]), (200, &json!("confirmed")), "{decided:?}");
    let rest = stream.all().await;
    assert_eq!(of(&rest, "proposal:closed")[0]["decision"], "confirmed");
    assert_eq!(of(&rest, "tool:complete")[0]["output"], json!({ "did": { "n": 7 } }));
    assert_eq!(text(&rest), "Done.");
    assert_eq!(rest.last().unwrap().data["status"], "completed");
    let again = decide(&app, &proposal, "confirm").await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("proposal_decided")), "a yes counts once");
}

#[tokio::test]
async fn a_no_is_a_result_and_the_run_goes_on() {
    let app = start().await;
    let (stream, _, proposal) = asked(&app, Reply::stream().call(risky(1))).await;
    app.upstream.script([Reply::says("As you wish.")]);
    assert_eq!(decide(&app, &proposal, "reject").await.status, 200);
    let rest = stream.all().await;
    assert_eq!(of(&rest, "tool:complete")[0]["status"], "denied");
    assert_eq!((text(&rest).as_str(), of(&rest, "tool:start").len()), ("As you wish.", 0));
}

#[tokio::test]
async fn siblings_run_and_the_model_waits_for_all() {
    let app = start().await;
    let calls =
        Reply::stream().call(risky(1)).call(ScriptedCall::new("echo", r#"{"text":"x"}"#)).call(risky(2));
    app.upstream.script([calls]);
    let body = json!({ "message": "Do it", "stream": false });
    let waiting = app.post("/v1/apps/test/runs", &body).await.body;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let run = waiting["runId"].as_str().unwrap();
    let events = app.follow(&format!("/v1/runs/{run}/events"), None).await;
    let open = app.get("/v1/apps/test/proposals?open=true").await.body;
    let ids: Vec<String> =
        open["data"].as_array().unwrap().iter().map(|p| p["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(decide(&app, &ids[0], "confirm").await.status, 200);
    assert_eq!(app.upstream.requests().len(), 1, "one is still open");
    app.upstream.script([Reply::says("Both decided.")]);
    assert_eq!(decide(&app, &ids[1], "reject").await.status, 200);
    let frames = events.all().await;
    assert_eq!(of(&frames, "tool:complete").len(), 3);
    assert_eq!(text(&frames), "Both decided.");
}

#[tokio::test]
async fn a_proposal_survives_a_restart() {
    let app = start().await;
    let (stream, frames, proposal) = asked(&app, Reply::stream().call(risky(3))).await;
    drop(stream);
    let app = app.restart().await;
    assert_eq!(status(&app, &frames).await, "waiting");
    app.upstream.script([Reply::says("After all.")]);
    assert_eq!(decide(&app, &proposal, "confirm").await.status, 200);
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap();
    let all = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!(text(&all), "After all.");
}

#[tokio::test]
async fn a_new_message_goes_first_and_denies_what_waited() {
    let app = start().await;
    let (stream, frames, proposal) = asked(&app, Reply::stream().call(risky(1))).await;
    let thread = &of(&frames, "run:start")[0]["threadId"];
    let refused = json!({ "message": "Never mind", "threadId": thread, "onBusy": "reject" });
    assert_eq!(app.post("/v1/apps/test/runs", &refused).await.status, 409);
    app.upstream.script([Reply::says("Left alone."), Reply::says("Something else.")]);
    let next = json!({ "message": "Never mind", "threadId": thread });
    let second = app.stream("/v1/apps/test/runs", &next).await;
    let rest = stream.all().await;
    assert_eq!(of(&rest, "proposal:closed")[0]["decision"], "superseded");
    assert_eq!(
        (of(&rest, "tool:complete")[0]["status"].as_str(), text(&rest).as_str()),
        (Some("denied"), "Left alone.")
    );
    assert_eq!(text(&second.all().await), "Something else.");
    assert_eq!(decide(&app, &proposal, "confirm").await.status, 409);
}

#[tokio::test]
async fn nobody_is_asked_after_the_user_has_gone_on_already() {
    let app = start().await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("One moment.").wait(&gate).call(risky(1)),
        Reply::says("Left alone."),
        Reply::says("Something else."),
    ]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Do it" })).await;
    let frames = stream.read_until("text:delta").await;
    let next = json!({ "message": "Never mind", "threadId": of(&frames, "run:start")[0]["threadId"] });
    let second = app.stream("/v1/apps/test/runs", &next).await;
    gate.open();
    let rest = stream.all().await;
    assert_eq!(of(&rest, "proposal:closed")[0]["decision"], "superseded");
    assert_eq!(of(&rest, "tool:complete")[0]["status"], "denied");
    assert_eq!(text(&rest), "Left alone.");
    assert_eq!(text(&second.all().await), "Something else.");
}

#[tokio::test]
async fn a_waiting_run_can_be_cancelled() {
    let app = start().await;
    let (stream, frames, proposal) = asked(&app, Reply::stream().call(risky(1))).await;
    let run = of(&frames, "run:start")[0]["runId"].as_str().unwrap();
    assert_eq!(app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.status, 202);
    let rest = stream.all().await;
    assert_eq!(rest.last().unwrap().data["status"], "cancelled");
    assert_eq!(decide(&app, &proposal, "confirm").await.status, 409, "what its run left behind is closed");
}

#[tokio::test]
async fn a_waiting_run_can_be_interrupted() {
    let app = start().await;
    let (stream, frames, _) = asked(&app, Reply::stream().call(risky(1))).await;
    let thread = &of(&frames, "run:start")[0]["threadId"];
    app.upstream.script([Reply::says("Instead.")]);
    let next = json!({ "message": "Instead", "threadId": thread, "onBusy": "interrupt" });
    let second = app.stream("/v1/apps/test/runs", &next).await;
    assert_eq!(stream.all().await.last().unwrap().data["status"], "interrupted");
    assert_eq!(text(&second.all().await), "Instead.");
}

#[tokio::test]
async fn deciding_twice_at_once_counts_once() {
    let app = start().await;
    let (stream, _, proposal) = asked(&app, Reply::stream().call(risky(1))).await;
    app.upstream.script([Reply::says("Once.")]);
    let (yes, no) = tokio::join!(decide(&app, &proposal, "confirm"), decide(&app, &proposal, "reject"));
    let mut statuses = [yes.status, no.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(of(&stream.all().await, "tool:complete").len(), 1);
}

#[tokio::test]
async fn the_app_decides_who_is_asked() {
    let app = TestApp::with(Setup::app(
        "tools = [\"risky\", \"echo\"]\n[tool.risky]\npolicy = \"allow\"\n[tool.echo]\npolicy = \"deny\"",
    ))
    .await;
    let calls = Reply::stream().call(risky(1)).call(ScriptedCall::new("echo", r#"{"text":"x"}"#));
    app.upstream.script([calls, Reply::says("Ok.")]);
    let frames = app.say("Do it").await;
    let statuses: Vec<_> = of(&frames, "tool:complete")
        .iter()
        .map(|data| (data["name"].clone(), data["status"].clone()))
        .collect();
    assert!(statuses.contains(&(json!("risky"), json!("complete"))), "{statuses:?}");
    assert!(statuses.contains(&(json!("echo"), json!("denied"))), "{statuses:?}");
}
