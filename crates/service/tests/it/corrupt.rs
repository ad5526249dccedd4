//! Rows that cannot be: written around the constraints, they never stop a thread.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::sql::{Connection, ToSql, params};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Method, TestApp};
use tracing_subscriber::fmt::MakeWriter;

/// The lines that were logged on this thread.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Logged {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A thread with one answered message that used a tool.
async fn thread(app: &TestApp) -> String {
    app.upstream.script([
        Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"a"}"#)),
        Reply::says("It is a."),
    ]);
    let frames = app.say("What is a?").await;
    frames[1].data["threadId"].as_str().unwrap().to_owned()
}

/// Opens the database with nothing left to protect it.
fn unguarded(app: &TestApp) -> Connection {
    let conn = app.database();
    let mut names = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '%RAISE(%'")
        .unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for name in names {
        conn.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    app.database()
}

/// Asks the thread something, and expects it to answer as if nothing were wrong.
async fn still_answers(app: &TestApp, thread: &str) {
    app.upstream.script([Reply::says("Still here.")]);
    let body = json!({ "message": "Are you there?", "threadId": thread });
    let frames = app.stream("/v1/apps/test/runs", &body).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed", "{:?}", frames.last());
    for path in ["", "/messages"] {
        assert_eq!(app.get(&format!("/v1/threads/{thread}{path}")).await.status, 200);
    }
}

#[tokio::test]
async fn thirty_seven_thousand_results_for_one_call() {
    let app = TestApp::start().await;
    let logged = Logged::default();
    let subscriber = tracing_subscriber::fmt().with_writer(logged.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let thread = thread(&app).await;
    {
        let conn = unguarded(&app);
        // Waits for the server, which may still write about the run that has ended.
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (run, body): (Vec<u8>, String) = conn
            .query_row("SELECT run, body FROM events WHERE kind = 'tool:complete'", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        for n in 0..37_129 {
            conn.execute(
                "INSERT INTO events (thread, seq, run, kind, at, body)
                    SELECT id, ?1, ?2, 'tool:complete', 0, ?3 FROM threads",
                params![1_000 + n, run, body.replace("\"a\"", "\"late\"")],
            )
            .unwrap();
        }
        conn.execute("UPDATE threads SET next_seq = 40000", []).unwrap();
        conn.execute_batch("COMMIT").unwrap();
    }
    still_answers(&app, &thread).await;
    let messages = app.get(&format!("/v1/threads/{thread}/messages")).await.body;
    assert_eq!(messages["data"][1]["toolResults"].as_array().unwrap().len(), 1);
    let sent = app.upstream.requests().last().unwrap().body["messages"].to_string();
    assert!(sent.contains(r#"{\"text\":\"a\"}"#) && !sent.contains("late"), "{sent}");
    let logged = logged.text();
    let warning =
        logged.lines().find(|line| line.contains("more tool results than calls allow")).expect(&logged);
    assert!(
        warning.contains(&thread) && warning.contains("found=37130") && warning.contains("allowed=2"),
        "{warning}"
    );
}

#[tokio::test]
async fn every_row_of_the_log_garbled() {
    let app = TestApp::start().await;
    let thread = thread(&app).await;
    let garbage: [(&str, &dyn ToSql); 6] = [
        ("body", &"{"),
        ("body", &""),
        ("body", &"[1,2,3]"),
        ("body", &"{\"messageId\":\"msg_zzz\",\"callId\":7,\"step\":-1}"),
        ("body", &"\u{0}\u{ffff}"),
        ("kind", &"no:such:kind"),
    ];
    let conn = unguarded(&app);
    for body in [&b""[..], b"\xff\xff\xff", b"\x07\x01", b"no deltas at all"] {
        conn.execute("UPDATE packed_deltas SET body = ?1", [body]).unwrap();
        still_answers(&app, &thread).await;
    }
    let seqs: i64 = app.count("SELECT max(seq) FROM events");
    for seq in 1..=seqs {
        let conn = unguarded(&app);
        let row = conn.query_row("SELECT kind, body FROM events WHERE seq = ?1", [seq], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        let Ok((kind, body)): Result<(String, String), _> = row else { continue }; // it is a delta
        for (column, value) in &garbage {
            conn.execute(&format!("UPDATE events SET {column} = ?1 WHERE seq = ?2"), params![value, seq])
                .unwrap();
            still_answers(&app, &thread).await;
        }
        conn.execute("UPDATE events SET kind = ?1, body = ?2 WHERE seq = ?3", params![kind, body, seq])
            .unwrap();
    }
}

#[tokio::test]
async fn results_without_calls_calls_without_results_and_rings_of_parents() {
    let app = TestApp::start().await;
    let thread = thread(&app).await;
    let conn = unguarded(&app);
    for damage in [
        "DELETE FROM tool_calls",
        "DELETE FROM tool_results",
        "DELETE FROM events WHERE kind = 'tool:complete'",
        "UPDATE events SET body = replace(body, '\"calls\":[{', '\"calls\":[null,{') WHERE kind = 'step:end'",
        "DELETE FROM events WHERE kind = 'step:end'",
        "UPDATE messages SET parent = (SELECT head FROM threads) WHERE parent IS NULL",
        "DELETE FROM events WHERE kind = 'stream:complete'",
    ] {
        conn.execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}")).unwrap();
        still_answers(&app, &thread).await;
    }
}

#[tokio::test]
async fn a_stream_of_garbled_rows_keeps_its_framing() {
    let app = TestApp::start().await;
    let thread = thread(&app).await;
    let conn = unguarded(&app);
    conn.execute("UPDATE events SET body = ?1 WHERE seq = 3", ["{\"a\":\r\n1}\n\nevent: fake\ndata: 1"])
        .unwrap();
    let request = app.request(Method::GET, &format!("/v1/threads/{thread}/events"));
    let mut response = request.send().await.unwrap();
    let mut text = String::new();
    while !text.contains("event: run:end") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(!text.contains("\nevent: fake"), "a row cannot pretend to be another event: {text}");
    let ids: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
}

/// A thread whose run has made one call and waits for a yes to another.
async fn waiting(app: &TestApp) -> Names {
    let calls = Reply::stream()
        .call(ScriptedCall::new("echo", r#"{"text":"a"}"#))
        .call(ScriptedCall::new("risky", "{}"));
    app.upstream.script([calls]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Do both" })).await;
    let (run, thread) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    let mut frames = stream.read_until("proposal:open").await;
    if !frames.iter().any(|frame| frame.event == "tool:complete") {
        frames.extend(stream.read_until("tool:complete").await);
    }
    let open = frames.iter().find(|frame| frame.event == "proposal:open").unwrap();
    let proposal = open.data["proposalId"].as_str().unwrap().to_owned();
    app.service.idle().await;
    Names { run, thread, proposal }
}

struct Names {
    run: String,
    thread: String,
    proposal: String,
}

impl Names {
    async fn run(&self, app: &TestApp) -> serde_json::Value {
        app.get(&format!("/v1/runs/{}", self.run)).await.body
    }

    fn bytes(&self) -> String {
        self.thread.trim_start_matches("thr_").replace('-', "")
    }

    /// Writes garbage over the fact of this number.
    fn garble(&self, app: &TestApp, fact: usize, (column, value): (&str, &str)) -> bool {
        let changed = unguarded(app).execute(
            &format!(
                "UPDATE events SET {column} = ?1 WHERE lower(hex(thread)) = ?2 AND seq = (SELECT seq FROM events
                    WHERE lower(hex(thread)) = ?2 AND kind NOT LIKE '%delta' AND kind <> 'tool:input'
                    ORDER BY seq LIMIT 1 OFFSET ?3)"
            ),
            params![value, self.bytes(), fact as i64],
        );
        changed.unwrap() == 1
    }
}

/// Runs that wait, each with another fact garbled in another way.
async fn damaged(app: &TestApp) -> Vec<Names> {
    let deep = format!("{{\"step\":1,\"x\":{}}}", testkit::nested_text(200));
    let garbage =
        [("body", "{"), ("body", "[1]"), ("body", deep.as_str()), ("kind", "no:such:kind"), ("body", "{}")];
    let mut damaged = Vec::new();
    for garbage in garbage {
        for fact in 0.. {
            let names = waiting(app).await;
            if !names.garble(app, fact, garbage) {
                break;
            }
            damaged.push(names);
        }
    }
    assert!(damaged.len() > 30, "{}", damaged.len());
    damaged
}

async fn with_risky() -> TestApp {
    TestApp::with(testkit::Setup::app("tools = [\"risky\", \"echo\"]")).await
}

#[tokio::test]
async fn a_waiting_run_of_which_any_fact_is_garbled_can_be_cancelled() {
    let app = with_risky().await;
    for names in damaged(&app).await {
        assert_eq!(app.post(&format!("/v1/runs/{}/cancel", names.run), &json!({})).await.status, 202);
        app.service.idle().await;
        assert_eq!(names.run(&app).await["status"], "cancelled");
        still_answers(&app, &names.thread).await;
    }
}

#[tokio::test]
async fn a_waiting_run_of_which_any_fact_is_garbled_goes_with_its_thread() {
    let app = with_risky().await;
    for names in damaged(&app).await {
        let delete = app.request(Method::DELETE, &format!("/v1/threads/{}", names.thread));
        assert_eq!(app.send(delete).await.status, 204);
        app.service.idle().await;
        for table in ["events", "runs", "messages"] {
            let left = format!("SELECT count(*) FROM {table} WHERE lower(hex(thread)) = '{}'", names.bytes());
            assert_eq!(app.count(&left), 0, "{table}");
        }
    }
}

#[tokio::test]
async fn a_start_ends_a_run_of_which_any_fact_is_garbled() {
    let app = with_risky().await;
    let damaged = damaged(&app).await;
    let app = app.restart().await;
    app.service.idle().await;
    for names in damaged {
        let run = names.run(&app).await;
        assert_eq!(
            (&run["status"], &run["error"]["code"]),
            (&json!("failed"), &json!("log_unreadable")),
            "{run}"
        );
        still_answers(&app, &names.thread).await;
    }
}

#[tokio::test]
async fn a_yes_to_a_run_of_which_any_fact_is_garbled_ends_it_and_repeats_nothing() {
    let app = with_risky().await;
    for names in damaged(&app).await {
        let asked = app.upstream.requests().len();
        let decided = app.post(&format!("/v1/proposals/{}/confirm", names.proposal), &json!({})).await;
        assert_eq!(decided.status, 200, "{decided:?}");
        app.service.idle().await;
        assert_eq!(names.run(&app).await["status"], "failed");
        assert_eq!(app.upstream.requests().len(), asked, "the model is not asked again");
        still_answers(&app, &names.thread).await;
    }
}

#[tokio::test]
async fn arguments_and_results_that_nest_too_deep_are_read_back() {
    let app = TestApp::with(testkit::Setup::app("tools = [\"risky\", \"deep\", \"act_read\"]")).await;
    app.gate.open();
    for levels in [60, 63, 64, 100, 123, 124, 126, 127, 128, 1_000, 100_000] {
        let input = format!("{{\"a\":{}}}", testkit::nested_text(levels - 1));
        let calls = [
            ScriptedCall::new("act_read", &input),
            ScriptedCall::new("deep", "{}"),
            ScriptedCall::new("risky", "{}"),
        ];
        app.upstream.script([calls.into_iter().fold(Reply::stream(), Reply::call)]);
        let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Do it" })).await;
        let frames = stream.read_until("proposal:open").await;
        let proposal = frames.last().unwrap().data["proposalId"].as_str().unwrap().to_owned();
        let results = app.arrivals.all().len();
        app.upstream.script([Reply::says("Done.")]);
        app.post(&format!("/v1/proposals/{proposal}/confirm"), &json!({})).await;
        let rest = stream.all().await;
        assert_eq!(rest.last().unwrap().data["status"], "completed", "{levels} levels: {:?}", rest.last());
        assert!(app.arrivals.all().len() <= results + 1, "{levels} levels: no call is repeated");
        app.service.idle().await;
        assert_eq!(testkit::audit(&app.data()), Vec::<String>::new());
    }
    let reached = app.arrivals.list();
    assert_eq!(reached.len(), 3, "what nests deeper than 64 levels is not run");
}

#[tokio::test]
async fn a_sequence_that_lags_behind_its_events_does_not_keep_a_run_alive() {
    let app = with_risky().await;
    let names = waiting(&app).await;
    unguarded(&app).execute("UPDATE threads SET next_seq = 2", []).unwrap();
    let app = app.restart().await;
    app.service.idle().await;
    assert_eq!(app.post(&format!("/v1/runs/{}/cancel", names.run), &json!({})).await.status, 202);
    app.service.idle().await;
    assert_eq!(names.run(&app).await["status"], "cancelled");
    still_answers(&app, &names.thread).await;
}

#[tokio::test]
async fn a_queued_message_that_cannot_begin_does_not_keep_the_run_before_it_alive() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::stream().text("Well").stall()]);
    let mut stream = app.stream("/v1/apps/test/runs", &json!({ "message": "Go" })).await;
    let (run, thread) = (stream.header("x-run-id"), stream.header("x-thread-id"));
    stream.read_until("text:delta").await;
    let body = json!({ "message": "And then?", "threadId": thread });
    drop(app.stream("/v1/apps/test/runs", &body).await);
    let changed = unguarded(&app).execute(
        "UPDATE queue SET submission = replace(submission, '\"parent\":null', '\"parent\":\"msg_ffffffffffffffffffffffffffffffff\"')",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    assert_eq!(app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.status, 202);
    app.service.idle().await;
    assert_eq!(app.get(&format!("/v1/runs/{run}")).await.body["status"], "cancelled");
    assert_eq!(app.count("SELECT count(*) FROM runs WHERE status = 'failed'"), 1, "it could not begin");
    still_answers(&app, &thread).await;
}
