//! Calls that the client makes: offered, opened, answered once. Other users do not see them.

use std::time::Duration;

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::NewKey;
use testkit::upstream::{Reply, ScriptedCall};
use testkit::{Answer, Setup, TestApp};

use crate::support::{RUNS, good, keyed, problem, refused, send_as, token};

const CALLS: &str = "/v1/apps/test/calls";
const MISSING: &str = "call_ffffffffffffffffffffffffffffffff";

/// An app with a tool of the client, one of the server, and the question to the user.
const APP: &str = r#"
tools = ["echo", "ask_user"]
[tool.scan]
client = true
description = "Reads the barcode in front of the camera."
"#;

fn locate() -> Value {
    json!({
        "name": "locate",
        "description": "Tells where the user is.",
        "parameters": {
            "type": "object",
            "properties": { "precise": { "type": "boolean" } },
            "required": ["precise"],
        },
    })
}

fn calls(calls: &[(&str, &str)]) -> Reply {
    calls.iter().fold(Reply::stream(), |reply, (name, input)| reply.call(ScriptedCall::new(name, input)))
}

/// A run that waits for the client, as a client that does not stream sees it.
async fn waiting(app: &TestApp, body: Value, made: &[(&str, &str)]) -> Value {
    app.upstream.script([calls(made)]);
    let mut body = body;
    (body["message"], body["stream"]) = (json!("Go"), json!(false));
    let result = good(app.post(RUNS, &body).await);
    assert_eq!(result["status"], "waiting", "{result}");
    result
}

/// A run that waits for the place of the user.
async fn locating(app: &TestApp) -> Value {
    waiting(app, json!({ "tools": [locate()] }), &[("locate", r#"{"precise":true}"#)]).await
}

fn id(result: &Value) -> String {
    result["clientCalls"][0]["id"].as_str().unwrap().to_owned()
}

async fn answer(app: &TestApp, id: &str, body: &Value) -> Answer {
    app.post(&format!("/v1/calls/{id}/result"), body).await
}

async fn run_of(app: &TestApp, result: &Value) -> Value {
    app.service.idle().await;
    good(app.get(&format!("/v1/runs/{}", result["runId"].as_str().unwrap())).await)
}

/// The events of a run that has ended or waits, by name.
fn events(app: &TestApp, result: &Value) -> Vec<String> {
    let run = result["runId"].as_str().unwrap();
    let of_run =
        app.stored_log().into_iter().filter(|event| event.run.is_some_and(|id| id.to_string() == run));
    let facts = of_run.filter(|event| !event.kind.ends_with(":delta") && event.kind != "tool:input");
    facts.map(|event| event.kind.to_string()).collect()
}

fn body_of(app: &TestApp, kind: &str) -> Value {
    let log = app.stored_log();
    let event = log.iter().rev().find(|event| event.kind == kind).expect(kind);
    serde_json::from_str(&event.body).unwrap()
}

#[tokio::test]
async fn a_tool_of_a_request_is_run_by_the_client_and_the_run_goes_on_with_its_result() {
    let app = TestApp::with(Setup::app(APP)).await;
    let result = locating(&app).await;
    let offered = app.upstream.requests()[0].body["tools"].clone();
    let names: Vec<&str> =
        offered.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "ask_user", "scan", "locate"]);
    let call = &result["clientCalls"][0];
    assert_eq!((&call["name"], &call["input"]), (&json!("locate"), &json!({ "precise": true })));
    assert_eq!((&call["status"], &call["runId"]), (&json!("open"), &result["runId"]));
    let call = id(&result);
    assert_eq!(good(app.get(&format!("/v1/calls/{call}")).await), result["clientCalls"][0]);
    assert_eq!(good(app.get(&format!("{CALLS}?open=true")).await)["data"], result["clientCalls"]);
    assert_eq!(body_of(&app, "run:start")["tools"][0]["name"], "locate");
    assert_eq!(body_of(&app, "run:start")["clientTools"], json!(["ask_user", "scan"]));

    app.upstream.script([Reply::says("You are in Oslo.")]);
    let answered = good(answer(&app, &call, &json!({ "result": { "city": "Os\u{200b}lo" } })).await);
    assert_eq!(answered["status"], "answered");
    assert!(answered["answeredAt"].is_string());
    assert_eq!(run_of(&app, &result).await["status"], "completed");
    assert_eq!(
        events(&app, &result),
        [
            "message:user",
            "run:start",
            "context:loaded",
            "step:start",
            "step:end",
            "call:open",
            "tool:complete",
            "step:start",
            "step:end",
            "stream:complete",
            "run:end"
        ]
    );
    let complete = body_of(&app, "tool:complete");
    assert_eq!(
        (&complete["output"], &complete["outside"], &complete["status"]),
        (&json!({ "city": "Oslo" }), &json!(true), &json!("complete"))
    );
    let told = app.upstream.requests()[1].body.to_string();
    assert!(told.contains("Oslo") && told.contains("data"), "the result is marked as data: {told}");
    let action = good(app.get(&format!("/v1/actions/{}", call.replace("call_", "act_"))).await);
    assert_eq!((&action["tool"], &action["status"]), (&json!("locate"), &json!("complete")));
    assert_eq!((&action["effect"], &action["undoable"]), (&json!("read"), &json!(false)));
    assert_eq!(good(app.get(&format!("{CALLS}?open=true")).await)["data"], json!([]));
}

#[tokio::test]
async fn a_client_may_say_why_there_is_no_result() {
    let app = TestApp::with(Setup::app(APP)).await;
    let result = waiting(&app, json!({}), &[("scan", "{}")]).await;
    app.upstream.script([Reply::says("Then type it.")]);
    good(answer(&app, &id(&result), &json!({ "error": "there is no camera" })).await);
    assert_eq!(run_of(&app, &result).await["status"], "completed");
    let complete = body_of(&app, "tool:complete");
    assert_eq!(complete["status"], "failed");
    assert_eq!(complete["output"], json!({ "error": "client_error", "message": "there is no camera" }));
}

#[tokio::test]
async fn a_tool_that_cannot_be_offered_is_refused_and_nothing_is_stored() {
    let app = TestApp::with(Setup::app(APP)).await;
    let named = |name: &str| json!({ "name": name, "description": "d" });
    let with = |parameters: Value| json!({ "name": "a", "description": "d", "parameters": parameters });
    let many: Vec<Value> = (0..33).map(|number| named(&format!("t{number}"))).collect();
    for (tools, reason) in [
        (json!([named("echo")]), "\"echo\" is the name of a tool of the server"),
        (json!([named("scan")]), "\"scan\" is the name of a tool of the server"),
        (json!([named("ask_user")]), "\"ask_user\" is the name of a tool of the server"),
        (json!([named("a"), named("a")]), "there are two tools named \"a\""),
        (json!(many), "must be at most 32 tools"),
        (json!([named("a b")]), "letters, digits, underscores or dashes"),
        (json!([{ "name": "a", "description": " " }]), "a description of 1 to 4096 bytes"),
        (json!([with(json!("no"))]), "not of type object"),
        (json!([with(json!({ "type": "object", "properties": 3 }))]), "is not JSON Schema"),
        (json!([with(json!({ "type": "object", "title": "x".repeat(20_000) }))]), "at most 16384 bytes"),
    ] {
        let detail = refused(
            app.post(RUNS, &json!({ "message": "Go", "tools": tools })).await,
            422,
            "invalid_request",
        );
        assert!(detail.starts_with("tools: ") && detail.contains(reason), "{detail}");
    }
    let unknown = json!([{ "name": "a", "description": "d", "run": true }]);
    refused(app.post(RUNS, &json!({ "message": "Go", "tools": unknown })).await, 422, "invalid_request");
    assert_eq!(app.count("SELECT count(*) FROM runs"), 0);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model_and_open_no_call() {
    let app = TestApp::with(Setup::app(APP)).await;
    app.upstream.script([calls(&[("locate", r#"{"precise":"very"}"#)]), Reply::says("I cannot.")]);
    let body = json!({ "message": "Go", "tools": [locate()], "stream": false });
    let result = good(app.post(RUNS, &body).await);
    assert_eq!(result["status"], "completed", "{result}");
    assert_eq!(result["toolResults"][0]["result"]["error"], "invalid_arguments");
    assert_eq!(app.count("SELECT count(*) FROM client_calls"), 0);
}

#[tokio::test]
async fn a_result_that_is_refused_leaves_the_call_open() {
    let app = TestApp::with(Setup::app(APP)).await;
    let result = locating(&app).await;
    let call = id(&result);
    let huge = json!({ "result": "x".repeat(10 * 1024 * 1024) });
    refused(answer(&app, &call, &huge).await, 413, "body_too_large");
    let large = json!({ "result": "x".repeat(300 * 1024) });
    let detail = refused(answer(&app, &call, &large).await, 413, "too_large");
    assert!(detail.contains("result") && detail.contains("262144"), "{detail}");
    for wrong in [
        json!({}),
        json!({ "result": 1, "error": "both" }),
        json!({ "error": "" }),
        json!({ "error": 3 }),
        json!({ "result": 1, "more": 2 }),
        json!({ "error": "x".repeat(9000) }),
    ] {
        let status = answer(&app, &call, &wrong).await.status;
        assert!(status == 422 || status == 413, "{wrong}: {status}");
    }
    assert_eq!(good(app.get(&format!("/v1/calls/{call}")).await)["status"], "open");
    app.upstream.script([Reply::says("Nowhere.")]);
    good(answer(&app, &call, &json!({ "result": null })).await);
    assert_eq!(run_of(&app, &result).await["status"], "completed");
}

#[tokio::test]
async fn a_call_is_answered_once_whoever_is_first() {
    let app = TestApp::with(Setup::app(APP)).await;
    let result = locating(&app).await;
    let call = id(&result);
    app.upstream.script([Reply::says("There.")]);
    let (first, second) = (json!({ "result": 1 }), json!({ "result": 2 }));
    let answers = join_all([&first, &second].map(|body| answer(&app, &call, body))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(run_of(&app, &result).await["status"], "completed");
    assert_eq!(app.count("SELECT count(*) FROM events WHERE kind = 'tool:complete'"), 1);
    refused(answer(&app, &call, &first).await, 409, "call_answered");
    // Under its key, an answer may be sent again.
    let result = locating(&app).await;
    let path = format!("/v1/calls/{}/result", id(&result));
    app.upstream.script([Reply::says("Here.")]);
    let kept = good(keyed(&app, Some("k"), Method::POST, (&path, &first)).await);
    assert_eq!(good(keyed(&app, Some("k"), Method::POST, (&path, &first)).await), kept);
    refused(keyed(&app, Some("k"), Method::POST, (&path, &second)).await, 422, "idempotency_key_reused");
    assert_eq!(run_of(&app, &result).await["status"], "completed");
}

#[tokio::test]
async fn a_run_waits_until_all_calls_of_the_client_have_results() {
    let app = TestApp::with(Setup::app(APP)).await;
    let made = [("scan", "{}"), ("echo", r#"{"text":"x"}"#), ("locate", r#"{"precise":false}"#)];
    let result = waiting(&app, json!({ "tools": [locate()] }), &made).await;
    assert_eq!(result["toolResults"].as_array().unwrap().len(), 1, "the server's own tool has run: {result}");
    let open: Vec<String> = result["clientCalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(open.len(), 2);
    good(answer(&app, &open[0], &json!({ "result": "one" })).await);
    assert_eq!(run_of(&app, &result).await["status"], "waiting");
    app.upstream.script([Reply::says("Both.")]);
    good(answer(&app, &open[1], &json!({ "result": "two" })).await);
    assert_eq!(run_of(&app, &result).await["status"], "completed");
}

#[tokio::test]
async fn what_no_client_waits_for_any_more_cannot_be_answered() {
    let app = TestApp::with(Setup::app(APP)).await;
    let late = json!({ "result": "late" });
    // A run that is cancelled.
    let result = locating(&app).await;
    good(app.post(&format!("/v1/runs/{}/cancel", result["runId"].as_str().unwrap()), &json!({})).await);
    assert_eq!(run_of(&app, &result).await["status"], "cancelled");
    let detail = refused(answer(&app, &id(&result), &late).await, 409, "call_closed");
    assert!(detail.contains("cancelled"), "{detail}");
    // A message in place of the result.
    let result = locating(&app).await;
    app.upstream.script([Reply::says("As you wish."), Reply::says("Hello.")]);
    let next = json!({ "message": "Never mind", "threadId": result["threadId"], "stream": false });
    assert_eq!(good(app.post(RUNS, &next).await)["status"], "completed");
    assert_eq!(run_of(&app, &result).await["status"], "completed");
    let detail = refused(answer(&app, &id(&result), &late).await, 409, "call_closed");
    assert!(detail.contains("superseded"), "{detail}");
    assert_eq!(body_of(&app, "tool:complete")["output"]["error"], "superseded");
    // A thread that is deleted.
    let result = locating(&app).await;
    let thread = format!("/v1/threads/{}", result["threadId"].as_str().unwrap());
    assert_eq!(app.send(app.request(Method::DELETE, &thread)).await.status, 204);
    refused(answer(&app, &id(&result), &late).await, 404, "not_found");
    // No result in time.
    let result = locating(&app).await;
    // The sweep may be quicker than the answer; then the run goes on.
    app.upstream.program(|_| Reply::says("Too late."));
    app.setup().clock.advance(Duration::from_secs(24 * 60 * 60));
    let detail = refused(answer(&app, &id(&result), &late).await, 409, "call_closed");
    assert!(detail.contains("expired"), "{detail}");
}

#[tokio::test]
async fn a_call_is_nobody_else_s_and_a_call_of_the_server_is_none() {
    let app = TestApp::with(Setup::app(APP)).await;
    app.upstream.script([calls(&[("echo", r#"{"text":"x"}"#)]), Reply::says("Echoed.")]);
    let echoed = good(app.post(RUNS, &json!({ "message": "Go", "stream": false })).await);
    let of_server = echoed["toolCalls"][0]["id"].as_str().unwrap();
    let body = json!({ "result": 1 });
    refused(answer(&app, of_server, &body).await, 404, "not_found");
    let result = locating(&app).await;
    let call = id(&result);
    let bob = token(&app, "bob").await;
    for (method, what) in [(Method::GET, ""), (Method::POST, "/result")] {
        let sent = |id: &str| format!("/v1/calls/{id}{what}");
        let body = if what.is_empty() { Value::Null } else { body.clone() };
        let expected = problem(send_as(&app, &bob, method.clone(), (&sent(MISSING), &body)).await);
        assert_eq!(expected["detail"], "there is no such call, or it is not yours");
        assert_eq!(problem(send_as(&app, &bob, method, (&sent(&call), &body)).await), expected);
    }
    assert_eq!(good(send_as(&app, &bob, Method::GET, (CALLS, &Value::Null)).await)["data"], json!([]));
    for missing in [MISSING, "call_1", "act_ffffffffffffffffffffffffffffffff"] {
        let status =
            send_as(&app, &bob, Method::POST, (&format!("/v1/calls/{missing}/result"), &body)).await.status;
        assert_eq!(status, 404);
    }
}

#[tokio::test]
async fn who_answers_for_the_user_is_in_the_log() {
    let app = TestApp::with(Setup::app(APP)).await;
    let key = json!({ "user": "shop", "actsFor": "any" });
    let key: NewKey = serde_json::from_value(key).unwrap();
    let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
    let post = async |path: &str, body: &Value| {
        let request = app.request(Method::POST, path).bearer_auth(&token).header("x-rondo-user", "ann");
        good(app.send(request.json(body)).await)
    };
    app.upstream.script([calls(&[("scan", "{}")]), Reply::says("Milk.")]);
    let result = post(RUNS, &json!({ "message": "Go", "stream": false })).await;
    post(&format!("/v1/calls/{}/result", id(&result)), &json!({ "result": "4006381333931" })).await;
    app.service.idle().await;
    assert_eq!(body_of(&app, "tool:complete")["by"], "shop for ann");
}

#[tokio::test]
async fn a_call_is_answered_after_a_restart_and_when_the_app_has_no_such_tool_any_more() {
    let app = TestApp::with(Setup::app(APP)).await;
    let (first, second) = (locating(&app).await, waiting(&app, json!({}), &[("scan", "{}")]).await);
    let app = app.restart_with(|setup| setup.app = "tools = [\"echo\"]".into()).await;
    app.upstream.script([Reply::says("There."), Reply::says("Here.")]);
    for result in [&first, &second] {
        good(answer(&app, &id(result), &json!({ "result": "x" })).await);
        assert_eq!(run_of(&app, result).await["status"], "completed");
    }
    let offered = app.upstream.requests().iter().rev().nth(1).unwrap().body["tools"].to_string();
    assert!(offered.contains("locate"), "the run still has the tool of its request: {offered}");
}

#[tokio::test]
async fn an_app_can_have_the_user_asked_before_the_client_runs_a_tool() {
    let toml = "[tool.unlock]\nclient = true\ndescription = \"Opens the door.\"\neffect = \"irreversible\"";
    let app = TestApp::with(Setup::app(toml)).await;
    app.upstream.script([calls(&[("unlock", "{}")])]);
    let result = good(app.post(RUNS, &json!({ "message": "Go", "stream": false })).await);
    assert_eq!((&result["status"], &result["clientCalls"]), (&json!("waiting"), &Value::Null));
    let proposal = result["proposals"][0]["id"].as_str().unwrap();
    good(app.post(&format!("/v1/proposals/{proposal}/confirm"), &json!({})).await);
    app.service.idle().await;
    let open = good(app.get(&format!("{CALLS}?open=true")).await)["data"][0].clone();
    assert_eq!(open["name"], "unlock");
    // The server does not know what the client has done by then.
    good(app.post(&format!("/v1/runs/{}/cancel", result["runId"].as_str().unwrap()), &json!({})).await);
    app.service.idle().await;
    assert_eq!(body_of(&app, "tool:complete")["status"], "unknown");
    let call = good(app.get(&format!("/v1/calls/{}", open["id"].as_str().unwrap())).await);
    assert_eq!(call["status"], "cancelled");
}

#[tokio::test]
async fn the_user_is_asked_and_the_answer_is_checked() {
    let app = TestApp::with(Setup::app(APP)).await;
    let question = r#"{"question":"Which colour?","choices":["red","blue"]}"#;
    let result = waiting(&app, json!({}), &[("ask_user", question)]).await;
    let call = id(&result);
    for (wrong, reason) in [
        (json!("red"), "must be {\"answer\": TEXT} or {\"choices\": [TEXT]}"),
        (json!({ "choices": ["green"] }), "must be among the offered ones: red, blue"),
        (json!({ "choices": ["red", "blue"] }), "must name one choice only"),
        (json!({ "answer": "x".repeat(9000) }), "at most 8192 bytes"),
    ] {
        let detail = refused(answer(&app, &call, &json!({ "result": wrong })).await, 422, "invalid_request");
        assert!(detail.contains(reason), "{detail}");
    }
    app.upstream.script([Reply::says("Red it is.")]);
    good(answer(&app, &call, &json!({ "result": { "choices": ["red"] } })).await);
    assert_eq!(run_of(&app, &result).await["status"], "completed");
    let complete = body_of(&app, "tool:complete");
    assert_eq!((&complete["output"], &complete["outside"]), (&json!({ "choices": ["red"] }), &Value::Null));

    // A question that cannot be shown is told to the model.
    let long = format!(r#"{{"question":"{}"}}"#, "x".repeat(2001));
    let blank = r#"{"question":" "}"#;
    app.upstream.script([calls(&[("ask_user", &long), ("ask_user", blank)]), Reply::says("Never mind.")]);
    let result = good(app.post(RUNS, &json!({ "message": "Go", "stream": false })).await);
    let told = |at: usize| result["toolResults"][at]["result"]["error"].clone();
    assert_eq!((told(0), told(1)), (json!("invalid_arguments"), json!("invalid_arguments")));
}

#[tokio::test]
async fn followers_of_the_thread_and_of_the_run_see_the_call() {
    let app = TestApp::with(Setup::app(APP)).await;
    let result = locating(&app).await;
    let (run, thread) = (result["runId"].as_str().unwrap(), result["threadId"].as_str().unwrap());
    app.upstream.script([Reply::says("There.")]);
    good(answer(&app, &id(&result), &json!({ "result": "x" })).await);
    let of_run = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    let open = of_run.iter().find(|frame| frame.event == "call:open").expect("the call is told");
    assert_eq!((&open.data["callId"], &open.data["name"]), (&json!(id(&result)), &json!("locate")));
    assert!(open.data["expiresAt"].is_string());
    let mut channel = app.follow(&format!("/v1/threads/{thread}/events"), Some(0)).await;
    loop {
        let frame = channel.next().await.expect("the call is told here, too");
        if frame.event == "call:open" {
            assert_eq!((frame.id, &frame.data), (open.id, &open.data));
            break;
        }
    }
}
