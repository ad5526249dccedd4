//! What stands in a run's way for good ends it, and its user is told: no run waits for ever.

use serde_json::{Value, json};
use testkit::sql::params;
use testkit::upstream::{Call, Reply};
use testkit::{Setup, TestApp};

/// How the run of a message ends.
async fn end(app: &TestApp, message: &str) -> Value {
    let frames = app.say(message).await;
    app.engine.idle().await;
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
async fn more_memories_than_one_event_can_name_are_left_out_oldest_first() {
    let app = TestApp::with(Setup::app(
        "[memory]\ninject = \"all\"\nlimit = 1000\n[context]\npin_tokens = 4000\n[history]\nbudget = 64000",
    ))
    .await;
    for n in 0..560 {
        let made = app.post("/v1/apps/test/memories", &json!({ "text": format!("Likes number {n}.") })).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    app.upstream.script([Reply::says("You like many numbers.")]);
    assert_eq!(end(&app, "What do I like?").await["status"], "completed");
    let sent = app.upstream.requests().last().unwrap().body.to_string();
    assert!(sent.contains("Likes number 559.") && sent.contains("Likes number 0."), "all of them fit");
}

#[tokio::test]
async fn a_panic_in_a_run_ends_it_and_leaves_the_thread_free() {
    let app = TestApp::with(Setup::app("tools = [\"panic_early\", \"echo\"]")).await;
    app.upstream.script([Reply::stream().call(Call::new("panic_early", "{}"))]);
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
