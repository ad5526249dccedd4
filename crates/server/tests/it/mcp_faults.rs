//! Faults of MCP servers: each call has a true result, and the run goes on to its answer.

use serde_json::{Value, json};
use testkit::mcp::{McpReply, ScriptedMcpServer, tool};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Frame, Reach, Setup, TestApp};

use crate::support::{RUNS, good, status_of};

const KEY: &str = "dev.rondo/idempotency-key";
/// Most of what an endless answer may add to the process.
const MAX_GROWTH: u64 = 64 * 1024 * 1024;

/// An app with one server, whose tool `add` has an effect, and is allowed.
async fn start(server: &ScriptedMcpServer, effect: &str, more: &str) -> TestApp {
    let app = format!(
        "[mcp.math]\nurl = \"{}\"\nheaders = {{ Authorization = \"Bearer {{{{ secret.math }}}}\" }}\ntimeout_seconds = 2\n\
         [tool.math__add]\neffect = \"{effect}\"\npolicy = \"allow\"\n{more}",
        server.url()
    );
    let secrets = vec![("math".to_owned(), "hush-hush/1".to_owned())];
    let reach = Reach { allow: vec![server.host()], secrets, ..Reach::default() };
    let app = TestApp::with(Setup { app, reach, ..Setup::default() }).await;
    app.service.idle().await; // the server has been looked at
    app
}

fn add() -> Value {
    tool("add", "Adds two numbers.")
}

fn script(app: &TestApp) {
    let call = ScriptedCall::new("math__add", r#"{"a":1,"b":2}"#);
    app.upstream.script([Reply::stream().call(call), Reply::says("There you are.")]);
}

/// How the call of a run ended.
fn result(frames: &[Frame]) -> (String, Value) {
    let done = frames.iter().find(|frame| frame.event == "tool:complete").expect("the call has ended");
    (done.data["status"].as_str().unwrap().to_owned(), done.data["output"].clone())
}

/// Makes one call that the server answers so, and gives its result. The run must have its answer all the same.
async fn called(effect: &str, reply: McpReply) -> (String, Value, usize) {
    let server = ScriptedMcpServer::start([add()]).await;
    server.script("tools/call", [reply.clone(), reply]);
    let app = start(&server, effect, "").await;
    script(&app);
    let frames = app.say("Add them").await;
    assert_eq!(status_of(&frames), "completed");
    let (status, output) = result(&frames);
    (status, output, server.requests("tools/call").len())
}

#[tokio::test]
async fn what_breaks_off_is_unknown_and_is_not_asked_for_again() {
    for reply in [
        McpReply::breaks_off(),
        McpReply::breaks_off().after_progress(),
        McpReply::status(502),
        McpReply::garbage(),
    ] {
        let (status, _, calls) = called("irreversible", reply.clone()).await;
        assert_eq!((status.as_str(), calls), ("unknown", 1), "{reply:?}");
    }
}

#[tokio::test]
async fn what_can_be_repeated_is_once_under_the_same_key() {
    for effect in ["read", "idempotent"] {
        let server = ScriptedMcpServer::start([add()]).await;
        server.script("tools/call", [McpReply::breaks_off(), McpReply::text("3")]);
        let app = start(&server, effect, "").await;
        script(&app);
        let frames = app.say("Add them").await;
        assert_eq!(result(&frames), ("complete".into(), json!("3")), "{effect}");
        let calls = server.requests("tools/call");
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].meta(KEY), calls[1].meta(KEY));
        assert_eq!(calls[0].params()["arguments"], calls[1].params()["arguments"]);
    }
}

#[tokio::test]
async fn what_never_answers_ends_with_its_time() {
    let (status, _, calls) = called("irreversible", McpReply::no_answer()).await;
    assert_eq!((status.as_str(), calls), ("unknown", 1));
    let (status, output, _) = called("read", McpReply::no_answer()).await;
    assert_eq!((status.as_str(), &output["error"]), ("failed", &json!("timeout")));
}

#[tokio::test]
async fn what_was_not_asked_for_is_not_taken() {
    let stray = json!({ "jsonrpc": "2.0", "id": 4711, "result": { "content": [{ "type": "text", "text": "wrong" }] } });
    for reply in [
        McpReply::text("3").after_other_id(),
        McpReply::text("3").after_message(stray),
        McpReply::text("3").streamed().twice(),
        McpReply::text("3").after_progress(),
    ] {
        let (status, output, _) = called("irreversible", reply.clone()).await;
        assert_eq!((status.as_str(), &output), ("complete", &json!("3")), "{reply:?}");
    }
}

#[tokio::test]
async fn what_the_server_says_of_its_own_failure_is_told_without_secrets_and_without_tricks() {
    let echoed = "no, Bearer hush-hush/1 (aHVzaC1odXNoLzE=, hush%2Dhush%2F1) \u{1b}[31mis\u{1b}[0m ba\u{200b}d \u{202e}!";
    for reply in [McpReply::tool_error(echoed), McpReply::rpc_error(-32602, echoed)] {
        let (status, output, _) = called("irreversible", reply).await;
        let said = output["message"].as_str().unwrap();
        assert_eq!((status.as_str(), &output["error"]), ("failed", &json!("tool_error")));
        assert!(said.contains("is bad !") && said.contains("[math is hidden]"), "{said}");
        for spelling in ["hush-hush", "aHVzaC1odXNoLzE", "hush%2D"] {
            assert!(!said.contains(spelling), "{said}");
        }
    }
    let (status, ..) = called("irreversible", McpReply::rpc_error(-32603, "something broke")).await;
    assert_eq!(status, "unknown", "an inner error says nothing of what happened before it");
    let endless = "é".repeat(4 << 20);
    let (status, output, _) = called("irreversible", McpReply::rpc_error(-32603, &endless)).await;
    assert_eq!(status, "unknown");
    assert!(output.to_string().len() < 8 * 1024, "{} bytes", output.to_string().len());
}

#[tokio::test]
async fn an_endless_answer_is_left_alone_after_a_while() {
    let server = ScriptedMcpServer::start([add()]).await;
    server.script("tools/call", [McpReply::endless()]);
    let app = start(&server, "irreversible", "").await;
    let before = resident();
    script(&app);
    let frames = app.say("Add them").await;
    assert_eq!((status_of(&frames).as_str(), result(&frames).0.as_str()), ("completed", "unknown"));
    let grown = resident().saturating_sub(before);
    assert!(grown < MAX_GROWTH, "the process has grown by {grown} bytes");
    assert!(server.written_bytes() < MAX_GROWTH, "{} bytes were taken", server.written_bytes());
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells of its processes");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("with what they hold");
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number")
        * 1024
}

#[tokio::test]
async fn a_forgotten_session_is_opened_again_without_the_call_being_made_twice() {
    let server = ScriptedMcpServer::start([add()]).await;
    server.answer("add", McpReply::text("3"));
    let app = start(&server, "read", "").await;
    server.forget_sessions();
    script(&app);
    let frames = app.say("Add them").await;
    assert_eq!(status_of(&frames), "completed");
    script(&app);
    let frames = app.say("Add them again").await;
    assert_eq!(result(&frames), ("complete".into(), json!("3")));
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_left_alone() {
    let server = ScriptedMcpServer::start([add()]).await;
    let app = start(&server, "irreversible", "").await;
    server.script("tools/call", std::iter::repeat_n(McpReply::breaks_off(), 20));
    for _ in 0..8 {
        script(&app);
        assert_eq!(status_of(&app.say("Add them").await), "completed");
    }
    assert_eq!(server.requests("tools/call").len(), 5, "it was tried as often as makes sense");
    script(&app);
    let (status, output) = result(&app.say("Add them").await);
    assert_eq!((status.as_str(), &output["error"]), ("failed", &json!("unavailable")));
    let view = good(app.get("/v1/admin/mcp/test/math").await);
    assert_eq!(view["state"], "open");
    assert!(view["lastError"].as_str().unwrap().len() > 5);
}

#[tokio::test]
async fn a_cancelled_call_is_let_go_and_is_unknown() {
    let server = ScriptedMcpServer::start([add()]).await;
    let gate = Gate::new();
    server.answer("add", McpReply::text("3").wait(&gate));
    let app = start(&server, "irreversible", "").await;
    script(&app);
    let stream = app.stream(RUNS, &json!({ "message": "Add them" })).await;
    let run = stream.header("x-run-id");
    server.wait_for("tools/call", 1).await;
    app.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    let frames = stream.all().await;
    assert_eq!(status_of(&frames), "cancelled");
    assert_eq!(result(&frames).0, "unknown");
    gate.open();
}

/// A crash while the server has the request: it is not sent again, and no answer says that it did not happen.
#[tokio::test]
async fn a_restart_in_mid_call_sends_nothing_twice() {
    let server = ScriptedMcpServer::start([add()]).await;
    let gate = Gate::new();
    server.answer("add", McpReply::text("3").wait(&gate));
    let app = start(&server, "irreversible", "").await;
    script(&app);
    let stream = app.stream(RUNS, &json!({ "message": "Add them" })).await;
    let run = stream.header("x-run-id");
    server.wait_for("tools/call", 1).await;
    app.upstream.script([Reply::says("I do not know.")]);
    let app = app.restart().await;
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!((status_of(&frames).as_str(), result(&frames).0.as_str()), ("completed", "unknown"));
    assert_eq!(server.requests("tools/call").len(), 1);
    gate.open();
}

#[tokio::test]
async fn a_server_that_sends_elsewhere_is_not_followed() {
    let (inner, server) = (ScriptedMcpServer::start([add()]).await, ScriptedMcpServer::start([add()]).await);
    server.script("tools/call", [McpReply::status(307).header("location", &inner.url())]);
    let app = start(&server, "irreversible", "").await;
    script(&app);
    let (status, _) = result(&app.say("Add them").await);
    assert_eq!((status.as_str(), inner.connections()), ("unknown", 0));
}
