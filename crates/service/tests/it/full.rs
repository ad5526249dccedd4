//! A full disk in the midst of work: everything waits for space, and goes on without a restart (D3).

use protocol::Kind;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Fuse, Method, Setup, TestApp, audit};

async fn with(app: &str) -> (TestApp, Fuse) {
    let fuse = Fuse::never_blowing();
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
    app.upstream
        .script([Reply::stream().call(ScriptedCall::new("act_irreversible", "{}")), Reply::says("Paid.")]);
    let stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Pay" })).await;
    app.gate.reached().await;
    fuse.fill(true);
    app.gate.open();
    fuse.wait_for_refusals(2).await;
    fuse.fill(false);
    let frames = stream.all().await;
    assert_eq!(of(&frames, "tool:complete")[0]["status"], "complete", "nobody has to guess: {frames:?}");
    assert_eq!(of(&frames, "run:end")[0]["status"], "completed");
    assert_eq!(app.arrivals.all().len(), 1, "and it was done once");
    app.service.idle().await;
    assert_sound(&app);
}

#[tokio::test]
async fn an_answer_goes_on_where_it_was_when_there_is_space_again() {
    let (app, fuse) = with("").await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("One ").wait(&gate).text("two.")]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Count" })).await;
    let mut frames = stream.read_until("text:delta").await;
    fuse.fill(true);
    gate.open();
    fuse.wait_for_refusals(2).await;
    fuse.fill(false);
    frames.extend(stream.all().await);
    assert!(of(&frames, "step:reset").is_empty(), "nothing of it was lost: {frames:?}");
    let deltas: String = of(&frames, "text:delta").iter().filter_map(|data| data["delta"].as_str()).collect();
    assert_eq!(
        (deltas.as_str(), &of(&frames, "stream:complete")[0]["text"]),
        ("One two.", &json!("One two."))
    );
    assert_eq!(app.upstream.requests().len(), 1, "and the model was asked once");
    app.service.idle().await;
    assert_sound(&app);
}

#[tokio::test]
async fn a_job_whose_effect_found_no_space_runs_again() {
    let gate = Gate::new();
    let fuse = Fuse::never_blowing();
    let title = Some("Name the conversation.".to_owned());
    let app = TestApp::with(Setup { title, fuse: Some(fuse.clone()), ..Setup::default() }).await;
    app.upstream.script([Reply::says("High."), Reply::stream().wait(&gate).text("Tides")]);
    app.say("How high is the tide?").await;
    app.upstream.wait_for_requests(2).await;
    fuse.fill(true);
    gate.open();
    fuse.wait_for_refusals(2).await;
    fuse.fill(false);
    app.service.idle().await;
    let ready =
        "SELECT count(*) FROM jobs WHERE kind = 'name_thread' AND status = 'ready' AND error IS NOT NULL";
    assert_eq!(app.count(ready), 1, "it is not left running until the next start");
}

#[tokio::test]
async fn an_undo_outside_is_written_down_when_there_is_space() {
    let (app, fuse) = with("tools = [\"act_undone_once\"]").await;
    app.upstream
        .script([Reply::stream().call(ScriptedCall::new("act_undone_once", "{}")), Reply::says("Booked.")]);
    app.gate.open();
    app.say("Book").await;
    app.service.idle().await;
    let action = app.get("/v1/apps/test/actions").await.body["data"][0]["id"].as_str().unwrap().to_owned();
    let app = app.restart().await; // with a gate that is closed
    let undo = app.send(app.request(Method::POST, &format!("/v1/actions/{action}/undo")));
    let full = async {
        app.gate.reached().await;
        fuse.fill(true);
        app.gate.open();
        fuse.wait_for_refusals(2).await;
        fuse.fill(false);
    };
    let (undone, ()) = tokio::join!(undo, full);
    assert_eq!(undone.status, 200, "{undone:?}");
    assert_eq!(app.arrivals.all().len(), 2, "done and undone, once each");
    assert_sound(&app);
}

/// Sends a message, waits until there is no space for an event of this kind, lets `meanwhile` happen, and makes space.
async fn while_it_waits(
    (app, fuse): &(TestApp, Fuse),
    kind: Kind,
    message: &str,
    meanwhile: impl AsyncFn(&str, &str),
) -> Vec<Frame> {
    fuse.refuse_kind(Some(kind));
    let stream = app.stream("/v1/apps/test/runs", &json!({ "message": message })).await;
    let (run, thread) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    fuse.wait_for_refusals(1).await;
    meanwhile(&run, &thread).await;
    fuse.refuse_kind(None);
    let frames = stream.all().await;
    app.service.idle().await;
    assert_sound(app);
    frames
}

async fn cancel(app: &TestApp, run: &str) {
    let mut cancelled = app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    while cancelled.status == 507 {
        // It shared a commit with what finds no space.
        cancelled = app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    }
    assert_eq!((cancelled.status, &cancelled.body["status"]), (202, &json!("running")), "{cancelled:?}");
}

fn status(frames: &[Frame]) -> &Value {
    &of(frames, "run:end")[0]["status"]
}

#[tokio::test]
async fn a_cancel_outweighs_an_answer_whose_end_waits_for_space() {
    let ((app, fuse), gate) = (with("").await, Gate::new());
    app.upstream.script([Reply::stream().text("Two.").wait(&gate)]);
    fuse.refuse_kind(Some(Kind::RunEnd));
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "One and one?" })).await;
    let run = stream.header("x-run-id");
    // The text is stored before the end, which finds no space.
    let mut frames = stream.read_until("text:delta").await;
    gate.open();
    fuse.wait_for_refusals(1).await;
    cancel(&app, &run).await;
    fuse.refuse_kind(None);
    frames.extend(stream.all().await);
    app.service.idle().await;
    assert_sound(&app);
    assert_eq!(status(&frames), "cancelled");
    let thread = of(&frames, "run:start")[0]["threadId"].as_str().unwrap().to_owned();
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert_eq!(messages["data"][1]["text"], "Two.", "what was said stays");
}

#[tokio::test]
async fn a_failure_whose_end_waits_for_space_is_a_cancel_once_that_is_accepted() {
    let app = with("").await;
    app.0.upstream.script([Reply::status(401).error("invalid_request_error", Some("invalid_api_key"), "no")]);
    let frames = while_it_waits(&app, Kind::RunEnd, "Hello?", async |run, _| cancel(&app.0, run).await).await;
    assert_eq!((status(&frames), &of(&frames, "run:end")[0]["error"]), (&json!("cancelled"), &Value::Null));
}

#[tokio::test]
async fn a_message_that_interrupts_outweighs_an_answer_whose_end_waits_for_space() {
    let app = with("").await;
    app.0.upstream.script([Reply::says("Two."), Reply::says("Three.")]);
    let frames = while_it_waits(&app, Kind::RunEnd, "One and one?", async |_, thread| {
        let body = json!({ "message": "One and two?", "threadId": thread, "onBusy": "interrupt" });
        drop(app.0.stream("/v1/apps/test/runs", &body).await);
    })
    .await;
    assert_eq!(status(&frames), "interrupted");
    let ended = "SELECT count(*) FROM runs WHERE status = 'completed' AND stop IS NULL";
    assert_eq!(app.0.count(ended), 1, "and the newer message is answered");
}

#[tokio::test]
async fn a_cancel_outweighs_an_interruption_that_came_before_it() {
    let app = with("").await;
    app.0.upstream.script([Reply::says("Two."), Reply::says("Three.")]);
    let frames = while_it_waits(&app, Kind::RunEnd, "One and one?", async |run, thread| {
        let body = json!({ "message": "One and two?", "threadId": thread, "onBusy": "interrupt" });
        drop(app.0.stream("/v1/apps/test/runs", &body).await);
        cancel(&app.0, run).await;
    })
    .await;
    assert_eq!(status(&frames), "cancelled");
}

#[tokio::test]
async fn a_call_whose_intent_waits_for_space_is_not_made_after_a_cancel() {
    let app = with("tools = [\"act_irreversible\", \"echo\"]").await;
    app.0.gate.open();
    app.0.upstream.script([Reply::stream().call(ScriptedCall::new("act_irreversible", "{}"))]);
    let frames = while_it_waits(&app, Kind::ToolStart, "Pay", async |run, _| cancel(&app.0, run).await).await;
    assert_eq!(status(&frames), "cancelled");
    assert_eq!(of(&frames, "tool:complete")[0]["status"], "cancelled");
    assert_eq!(app.0.arrivals.all().len(), 0, "nothing was paid");
}

#[tokio::test]
async fn the_model_is_not_asked_after_a_cancel_by_a_step_that_waits_for_space() {
    let app = with("").await;
    app.0.upstream.script([Reply::says("Two.")]);
    let frames =
        while_it_waits(&app, Kind::StepStart, "One and one?", async |run, _| cancel(&app.0, run).await).await;
    assert_eq!(status(&frames), "cancelled");
    assert_eq!(app.0.upstream.requests().len(), 0);
}

#[tokio::test]
async fn a_proposal_that_waits_for_space_is_not_made_after_a_cancel() {
    let app = with("tools = [\"risky\"]").await;
    app.0.upstream.script([Reply::stream().call(ScriptedCall::new("risky", "{\"n\":1}"))]);
    let frames =
        while_it_waits(&app, Kind::ProposalOpen, "Do it", async |run, _| cancel(&app.0, run).await).await;
    assert_eq!(status(&frames), "cancelled");
    assert_eq!(app.0.count("SELECT count(*) FROM proposals"), 0);
}

#[tokio::test]
async fn a_yes_that_found_no_space_is_not_given_later() {
    let (app, fuse) = with("tools = [\"risky\"]").await;
    app.upstream
        .script([Reply::stream().call(ScriptedCall::new("risky", "{\"n\":1}")), Reply::says("Left alone.")]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Do it" })).await;
    let seen = stream.read_until("proposal:open").await;
    let proposal = seen.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
    let decide = async |decision: &str| {
        app.post(&format!("/v1/proposals/{proposal}/{decision}"), &json!({})).await.status
    };
    fuse.refuse_kind(Some(Kind::ProposalClosed));
    assert_eq!(decide("confirm").await, 507);
    fuse.refuse_kind(None);
    assert_eq!(decide("reject").await, 200);
    let rest = stream.all().await;
    assert_eq!(of(&rest, "tool:complete")[0]["output"]["error"], "rejected", "{rest:?}");
    assert_eq!((status(&rest), app.arrivals.all().len()), (&json!("completed"), 0));
    app.service.idle().await;
    assert_sound(&app);
}

#[tokio::test]
async fn nothing_is_remembered_after_a_cancel_by_a_run_that_waits_for_space() {
    let app = with("[memory]\ninject = \"all\"").await;
    let frames = while_it_waits(&app, Kind::ContextLoaded, "Remember that I like tea", async |run, _| {
        cancel(&app.0, run).await;
    })
    .await;
    assert_eq!(status(&frames), "cancelled");
    assert_eq!(app.0.count("SELECT count(*) FROM memories"), 0);
}
