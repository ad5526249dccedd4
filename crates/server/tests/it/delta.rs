//! `?format=delta`: the stream of a front end that adds texts together and knows no events.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use server::ServerLimits;
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Reach, Setup, TestApp};

use crate::support::{RUNS, good, keyed, problem, refused, said};

const DELTAS: &str = "/v1/apps/test/runs?format=delta";

/// A stream to its end, exactly as it was sent, and its thread.
async fn sent(app: &TestApp, body: &Value) -> (String, String) {
    let response = app.request(Method::POST, DELTAS).json(body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let thread = response.headers()["x-thread-id"].to_str().unwrap().to_owned();
    (response.text().await.unwrap(), thread)
}

/// The chunks of a stream; comments are none.
fn chunks(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn text(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_answer_is_its_deltas_and_a_last_one_with_the_tokens() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Hello.").usage(40, 5)]);
    let (text, thread) = sent(&app, &json!({ "message": "Hi" })).await;
    let expected =
        "data: {\"delta\":\"Hello.\"}\n\ndata: {\"delta\":\"\",\"done\":true,\"tokenUsage\":45}\n\n";
    assert_eq!(text, expected);
    assert_eq!(said(&app, &thread).await, ["user: Hi", "assistant: Hello."]);
}

/// Seed 003: the marker comes when the search begins, and the answer after it, as without streaming.
#[tokio::test]
async fn a_search_is_marked_once_before_its_answer() {
    let web = Web::start().await;
    let reach = Reach { tavily: Some(web.url()), ..Reach::default() };
    let app = TestApp::with(Setup { reach, ..Setup::app("tools = ['web_search']") }).await;
    let found = || web::WebReply::tavily(None, &[("Moss", "https://a.example.com/", "Shade.")]);
    web.on("POST", "/search", [found(), found(), found(), found()]);
    let search = |query: &str| ScriptedCall::new("tavily_search", &json!({ "query": query }).to_string());
    let script = || [Reply::stream().call(search("moss")).call(search("fern")), Reply::says("In shade.")];
    app.upstream.script(script());
    let (streamed, _) = sent(&app, &json!({ "message": "Where?" })).await;
    let expected = [
        json!({ "delta": "[SEARCHING_ONLINE]\n\n" }),
        json!({ "delta": "In shade." }),
        json!({ "delta": "", "done": true, "tokenUsage": 30 }),
    ];
    assert_eq!(chunks(&streamed), expected);

    app.upstream.script(script());
    let whole = good(app.post(DELTAS, &json!({ "message": "Where?", "stream": false })).await);
    assert_eq!(whole["reply"], text(&expected));
    assert_eq!(whole["tokenUsage"], 30);
}

#[tokio::test]
async fn texts_of_several_steps_are_paragraphs() {
    let app = TestApp::start().await;
    let echo = |n: u32| ScriptedCall::new("echo", &json!({ "text": "hi", "n": n }).to_string());
    app.upstream.script([
        Reply::stream().reasoning("Hm.").text("Let me see.").call(echo(1)).call(echo(2)),
        Reply::says("It says hi."),
    ]);
    let (streamed, _) = sent(&app, &json!({ "message": "Say hi" })).await;
    assert_eq!(text(&chunks(&streamed)), "Let me see.\n\nIt says hi.");
}

#[tokio::test]
async fn a_structured_answer_streams_its_text_alone() {
    let app = TestApp::with(Setup::app("answer = \"structured\"\n[memory]\ninject = \"all\"")).await;
    let object = json!({ "response": "Hello.", "memoriesReferenced": [] });
    app.upstream.script([Reply::says(&object.to_string())]);
    let (streamed, _) = sent(&app, &json!({ "message": "Hi" })).await;
    assert_eq!(text(&chunks(&streamed)), "Hello.");
}

/// Text that was sent cannot be removed, so the stream ends. The run goes on, and the stored answer has no such text.
#[tokio::test]
async fn a_step_that_begins_again_ends_the_stream_and_not_the_run() {
    let app = TestApp::start().await;
    let gate = Gate::new();
    app.upstream.script([
        Reply::stream().text("The ca").wait(&gate).text("t").without_end(),
        Reply::says("The city."),
    ]);
    let response = app.request(Method::POST, DELTAS).json(&json!({ "message": "What?" })).send();
    let mut response = response.await.unwrap();
    let thread = response.headers()["x-thread-id"].to_str().unwrap().to_owned();
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(first, "data: {\"delta\":\"The ca\"}\n\n");
    gate.open();
    let last = chunks(&response.text().await.unwrap()).pop().unwrap();
    assert_eq!((&last["delta"], &last["done"]), (&json!(""), &json!(true)));
    assert_eq!(last["error"]["code"], "step_reset");
    app.service.idle().await;
    assert_eq!(said(&app, &thread).await, ["user: What?", "assistant: The city."]);
}

#[tokio::test]
async fn a_run_that_fails_or_is_cancelled_ends_with_its_error() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::status(401).error("invalid_request_error", None, "sk-canary")]);
    let (failed, _) = sent(&app, &json!({ "message": "Hi" })).await;
    let last = chunks(&failed).pop().unwrap();
    assert_eq!((&last["delta"], &last["done"]), (&json!(""), &json!(true)));
    assert!(last["error"]["code"].as_str().unwrap().starts_with("provider_"), "{last}");
    assert!(!failed.contains("canary"));

    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let response = app.request(Method::POST, DELTAS).json(&json!({ "message": "Hi" })).send();
    let response = response.await.unwrap();
    let run = response.headers()["x-run-id"].to_str().unwrap().to_owned();
    gate.reached().await;
    app.post(&format!("/v1/runs/{run}/cancel"), &Value::Null).await;
    let last = chunks(&response.text().await.unwrap()).pop().unwrap();
    assert_eq!((&last["done"], &last["error"]["code"]), (&json!(true), &json!("cancelled")));
    gate.open();
}

#[tokio::test]
async fn a_key_gives_the_same_stream_again() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Once.")]);
    let send =
        || app.request(Method::POST, DELTAS).header("idempotency-key", "k").json(&json!({ "message": "Hi" }));
    let first = send().send().await.unwrap().text().await.unwrap();
    assert_eq!(send().send().await.unwrap().text().await.unwrap(), first);
    assert_eq!(app.upstream.requests().len(), 1);
    let other = json!({ "message": "Other" });
    refused(keyed(&app, Some("k"), Method::POST, (DELTAS, &other)).await, 422, "idempotency_key_reused");
}

#[tokio::test]
async fn a_silent_stream_says_that_it_is_alive() {
    let limits = ServerLimits { heartbeat: Duration::from_millis(20), ..ServerLimits::default() };
    let app = TestApp::with(Setup { limits, ..Setup::default() }).await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().wait(&gate).text("Hi.")]);
    let response = app.request(Method::POST, DELTAS).json(&json!({ "message": "Hi" })).send();
    let mut response = response.await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), ": keep-alive\n\n");
    gate.open();
    assert_eq!(text(&chunks(&response.text().await.unwrap())), "Hi.");
}

#[tokio::test]
async fn what_is_wrong_is_refused_as_in_the_usual_format() {
    let app = TestApp::start().await;
    let hi = json!({ "message": "Hi" });
    refused(app.post(&format!("{RUNS}?format=xml"), &hi).await, 422, "invalid_request");
    refused(app.post("/v1/apps/none/runs?format=delta", &hi).await, 404, "not_found");
    let empty = problem(app.post(DELTAS, &json!({ "message": " " })).await);
    assert_eq!(empty["errors"][0]["field"], "message");
    assert_eq!(app.count("SELECT count(*) FROM runs"), 0);
}
