//! Rows that cannot be: written around the constraints, they never stop a thread.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::sql::{Connection, ToSql, params};
use testkit::upstream::{Call, Reply};
use testkit::{Method, TestApp};
use tracing_subscriber::fmt::MakeWriter;

/// What was logged on this thread.
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
    app.upstream
        .script([Reply::stream().call(Call::new("echo", r#"{"text":"a"}"#)), Reply::says("It is a.")]);
    let frames = app.say("What is a?").await;
    frames[1].data["threadId"].as_str().unwrap().to_owned()
}

/// Opens the database with nothing left to protect it.
fn unguarded(app: &TestApp) -> Connection {
    let conn = app.database();
    let mut names = conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
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
        let mut conn = unguarded(&app);
        let tx = conn.transaction().unwrap();
        let (run, body): (Vec<u8>, String) = tx
            .query_row("SELECT run, body FROM events WHERE kind = 'tool:complete'", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        for n in 0..37_129 {
            tx.execute(
                "INSERT INTO events (thread, seq, run, kind, at, body)
                    SELECT id, ?1, ?2, 'tool:complete', 0, ?3 FROM threads",
                params![1_000 + n, run, body.replace("\"a\"", "\"late\"")],
            )
            .unwrap();
        }
        tx.execute("UPDATE threads SET next_seq = 40000", []).unwrap();
        tx.commit().unwrap();
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
    let seqs: i64 = app.count("SELECT max(seq) FROM events");
    for seq in 1..=seqs {
        let conn = unguarded(&app);
        let (kind, body): (String, String) = conn
            .query_row("SELECT kind, body FROM events WHERE seq = ?1", [seq], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
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
