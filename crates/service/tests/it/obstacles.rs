//! A lasting obstacle ends its run, and its user is told: no run waits for ever.

use serde_json::{Value, json};
use testkit::sql::params;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Setup, TestApp};

/// How the run of a message ends.
async fn end(app: &TestApp, message: &str) -> Value {
    let frames = app.say(message).await;
    app.service.idle().await;
    frames.last().unwrap().data.clone()
}

async fn answers(app: &TestApp) {
    app.upstream.script([Reply::says("Here.")]);
    assert_eq!(end(app, "Are you there?").await["status"], "completed");
}

#[tokio::test]
async fn what_the_store_refuses_for_good_ends_the_run_as_failed() {
    let app = TestApp::start().await;
    for kind in ["context:loaded", "step:start", "step:end", "stream:complete"] {
        let refuse = format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.kind = '{kind}'
                BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        );
        app.database().execute_batch(&refuse).unwrap();
        app.upstream.script([Reply::says("Unheard.")]);
        let end = end(&app, "Hello").await;
        assert_eq!(
            (&end["status"], &end["error"]["code"]),
            (&json!("failed"), &json!("store_failed")),
            "{kind}: {end}"
        );
        app.database().execute_batch("DROP TRIGGER refuse").unwrap();
    }
    let app = app.restart().await;
    answers(&app).await;
}

#[tokio::test]
async fn hundreds_of_memories_and_pins_fit_into_one_prompt() {
    let app = TestApp::with(Setup::app(
        "[memory]\ninject = \"all\"\nlimit = 1000\n[context]\npin_tokens = 4000\n[history]\nbudget = 64000",
    ))
    .await;
    for n in 0..560 {
        let made = app.post("/v1/apps/test/memories", &json!({ "text": format!("Likes number {n}.") })).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    for n in 0..40 {
        let made = app.post("/v1/apps/test/pins", &json!({ "text": format!("Pin {n}.") })).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    app.upstream.script([Reply::says("You like many numbers.")]);
    assert_eq!(end(&app, "What do I like?").await["status"], "completed");
    let sent = app.upstream.requests().last().unwrap().body.to_string();
    assert!(sent.contains("Likes number 559.") && sent.contains("Likes number 0."), "all of them fit");
}

/// The store fails one of two calls while the other is under way.
#[tokio::test]
async fn what_a_call_did_is_written_down_though_the_store_fails_its_sibling() {
    let app = TestApp::with(Setup::app("tools = [\"act_irreversible\", \"echo\"]")).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON events
        WHEN NEW.kind = 'tool:complete' AND NEW.body LIKE '%unheard%'
        BEGIN SELECT RAISE(ABORT, 'not this one'); END";
    app.database().execute_batch(refuse).unwrap();
    let both = Reply::stream()
        .call(ScriptedCall::new("act_irreversible", "{}"))
        .call(ScriptedCall::new("echo", "{\"text\":\"unheard\"}"));
    app.upstream.script([both]);
    let stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Pay" })).await;
    app.gate.reached().await;
    app.gate.open();
    let frames = stream.all().await;
    app.service.idle().await;
    assert_eq!(frames.last().unwrap().data["error"]["code"], "store_failed");
    let paid = "SELECT count(*) FROM actions WHERE tool = 'act_irreversible' AND status = 'complete'";
    assert_eq!((app.count(paid), app.arrivals.all().len()), (1, 1), "it was done, and nobody has to guess");
}

#[tokio::test]
async fn a_panic_in_a_run_ends_it_and_leaves_the_thread_free() {
    let app = TestApp::with(Setup::app("tools = [\"panic_early\", \"echo\"]")).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("panic_early", "{}"))]);
    let end = end(&app, "Go").await;
    assert_eq!(
        (&end["status"], &end["error"]["code"]),
        (&json!("failed"), &json!("internal_error")),
        "{end}"
    );
    let thread: Vec<u8> = app.database().query_row("SELECT id FROM threads", [], |row| row.get(0)).unwrap();
    let open = "SELECT count(*) FROM runs WHERE thread = ?1 AND ended_at IS NULL";
    let open: i64 = app.database().query_row(open, params![thread], |row| row.get(0)).unwrap();
    assert_eq!(open, 0);
    answers(&app).await;
}
