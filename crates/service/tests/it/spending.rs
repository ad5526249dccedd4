//! Calls side by side keep to what an app lets its users spend, and what a call held is given back however it ends.

use futures_util::future::join_all;
use model::Price;
use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::{Method, Setup, TestApp};

use crate::apps::version;

const RUNS: &str = "/v1/apps/test/runs";
/// A dollar for a million tokens, so that a token costs a millionth.
const DOLLAR: Option<Price> = Some(Price::flat(1.0, 1.0, 1.0));
const HELD: &str = "SELECT count(*) FROM reservations";
/// Messages that are sent at once, and tokens that each answer takes.
const AT_ONCE: usize = 10;
const TOKENS_EACH: u64 = 15;

fn asking(message: &str) -> Value {
    json!({ "message": message, "stream": false })
}

/// Waits until a query counts as many.
async fn until(app: &TestApp, sql: &str, wanted: i64) {
    while app.count(sql) != wanted {
        tokio::task::yield_now().await;
    }
}

/// Sends many messages at once to an app whose user has a hundred tokens for all of them, and gives what each came to.
async fn at_once(bound: &str) -> Vec<Value> {
    let toml = format!("{bound}\n[loop]\nrun_timeout_seconds = 3");
    let app = TestApp::with(Setup { price: DOLLAR, ..Setup::app(&toml) }).await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.").usage(10, 5)
    });
    let body = asking("Hi");
    let begun = async {
        // Every one of them is about to ask the model, or does.
        until(&app, "SELECT count(*) FROM events WHERE kind = 'step:start'", AT_ONCE as i64).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(join_all((0..AT_ONCE).map(|_| app.post(RUNS, &body))), begun);
    let spent = app.get("/v1/usage").await.body["total"].clone();
    let tokens = spent["inputTokens"].as_u64().unwrap() + spent["outputTokens"].as_u64().unwrap();
    let answered = answers.iter().filter(|answer| answer.body["status"] == "completed").count();
    assert!(tokens <= 100 && answered >= 1, "{bound}: {tokens} tokens, {answered} answers");
    assert_eq!(tokens, answered as u64 * TOKENS_EACH, "{bound}");
    assert_eq!((app.upstream.requests().len(), app.count(HELD)), (answered, 0), "{bound}");
    answers
        .into_iter()
        .map(|answer| answer.body["error"]["code"].clone())
        .filter(|code| !code.is_null())
        .collect()
}

#[tokio::test]
async fn messages_at_once_keep_to_a_bound_together() {
    for (bound, code) in [
        ("[limits]\nmax_running = 20\n[budget]\nday_tokens = 100", "budget_exceeded"),
        ("[limits]\nmax_running = 20\n[budget]\nday_usd = 0.0001", "budget_exceeded"),
        ("[limits]\nmax_running = 20\ntokens_per_day = 100", "rate_limited"),
        // It waits for the next minute, which does not come while the clock of the test stands.
        ("[limits]\nmax_running = 20\ntokens_per_minute = 100", "run_timeout"),
    ] {
        let codes = at_once(bound).await;
        assert!(!codes.is_empty() && codes.iter().all(|failed| failed == code), "{bound}: {codes:?}");
    }
}

#[tokio::test]
async fn calls_that_fit_together_are_made_together() {
    let app = TestApp::with(Setup::app("[settings]\nmax_tokens = 50\n[budget]\nday_tokens = 5000")).await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.")
    });
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
        stream.read_until("text:delta").await;
        streams.push(stream);
    }
    assert_eq!(app.count(HELD), 3);
    gate.open();
    for stream in streams {
        stream.all().await;
    }
    assert_eq!(app.count(HELD), 0);
}

#[tokio::test]
async fn a_small_budget_still_gives_an_answer_of_what_is_left() {
    let app = TestApp::with(Setup::app("[budget]\nday_tokens = 300")).await;
    app.upstream.program(|_| Reply::says("Hello.").usage(20, 5));
    let answer = app.post(RUNS, &asking("Hi")).await.body;
    let path = format!("/v1/runs/{}/prompt", answer["runId"].as_str().unwrap());
    let prompt = app.get(&path).await.body["ledger"]["tokens"].as_u64().unwrap();
    let asked = |index: usize| app.upstream.requests()[index].body["max_tokens"].as_u64().unwrap();
    assert_eq!(asked(0), 300 - prompt);
    app.post(RUNS, &asking("Hi")).await;
    assert_eq!(asked(1), 275 - prompt, "what was not used is there again");
    let plain = TestApp::start().await;
    plain.upstream.program(|_| Reply::says("Hello."));
    plain.say("Hi").await;
    assert_eq!(plain.upstream.requests()[0].body.get("max_tokens"), None, "without a budget nothing is cut");
}

#[tokio::test]
async fn a_prompt_that_no_budget_of_the_app_holds_is_told_so() {
    let app = TestApp::with(Setup::app("[budget]\nday_tokens = 100")).await;
    let answer = app.post(RUNS, &asking(&"word ".repeat(200))).await.body;
    assert_eq!((&answer["status"], &answer["error"]["code"]), (&json!("failed"), &json!("budget_exceeded")));
    let told = "this thread is too long for the app's daily budget for one user; begin a new thread";
    assert_eq!((&answer["error"]["message"], app.upstream.requests().len()), (&json!(told), 0));
}

#[tokio::test]
async fn what_a_process_held_that_died_is_given_back() {
    let app = TestApp::with(Setup::app("[budget]\nday_tokens = 300")).await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate).text("lo.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let run = stream.header("x-run-id");
    assert_eq!(app.count(HELD), 1);
    drop(stream);
    let app = app.restart().await;
    app.upstream.program(|_| Reply::says("Hello.").usage(20, 5));
    let frames = app.follow(&format!("/v1/runs/{run}/events"), None).await.all().await;
    assert_eq!(frames.last().unwrap().data["status"], "completed");
    assert_eq!(app.count(HELD), 0);
}

#[tokio::test]
async fn a_cancelled_call_and_one_that_failed_hold_nothing() {
    let toml = "[settings]\nmax_tokens = 100\n[budget]\nday_tokens = 300";
    let app = TestApp::with(Setup::app(toml)).await;
    let gate = Gate::new();
    app.upstream.script([Reply::stream().text("Hel").wait(&gate), Reply::status(401), Reply::says("Hello.")]);
    let mut stream = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    stream.read_until("text:delta").await;
    let cancel = format!("/v1/runs/{}/cancel", stream.header("x-run-id"));
    app.send(app.request(Method::POST, &cancel)).await;
    assert_eq!(stream.all().await.last().unwrap().data["status"], "cancelled");
    assert_eq!(app.count(HELD), 0);
    let failed = app.post(RUNS, &asking("Hi")).await.body;
    assert_eq!((&failed["error"]["code"], app.count(HELD)), (&json!("provider_auth"), 0));
    assert_eq!(app.post(RUNS, &asking("Hi")).await.body["reply"], "Hello.");
}

#[tokio::test]
async fn work_in_the_background_keeps_to_the_day_too() {
    let setup = Setup { title: Some("Name it.".into()), ..Setup::app("[budget]\nday_tokens = 300") };
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::says("Hello.").usage(200, 80)]);
    let answer = app.post(RUNS, &asking("Where do swallows sleep?")).await.body;
    app.service.idle().await;
    let thread = app.get(&format!("/v1/threads/{}", answer["threadId"].as_str().unwrap())).await.body;
    assert_eq!(thread["title"], "Where do swallows sleep?", "named by its first words");
    assert_eq!((app.upstream.requests().len(), app.count(HELD)), (1, 0));
}

#[tokio::test]
async fn a_title_is_paid_for_where_the_day_has_room() {
    let setup = Setup { title: Some("Name it.".into()), ..Setup::app("[budget]\nday_tokens = 1000") };
    let app = TestApp::with(setup).await;
    app.upstream.script([Reply::says("Hello.").usage(20, 8), Reply::says("Swallows").usage(30, 2)]);
    app.post(RUNS, &asking("Where do swallows sleep?")).await;
    app.service.idle().await;
    let total = app.get("/v1/usage").await.body["total"].clone();
    assert_eq!((&total["inputTokens"], &total["outputTokens"]), (&json!(50), &json!(10)));
    assert_eq!((app.upstream.requests()[1].body["max_tokens"].as_u64(), app.count(HELD)), (Some(64), 0));
}

#[tokio::test]
async fn a_run_accepted_before_the_budget_does_not_ask_a_model_without_a_price() {
    let setup = Setup { price: DOLLAR, ..Setup::app("tools = [\"echo\"]\nmodels = [\"*\"]") };
    let app = TestApp::with(setup).await;
    let gate = Gate::new();
    app.upstream.program({
        let gate = gate.clone();
        move |_| Reply::stream().text("Hel").wait(&gate).text("lo.")
    });
    let mut first = app.stream(RUNS, &json!({ "message": "Hi" })).await;
    first.read_until("text:delta").await;
    let thread = first.header("x-thread-id");
    let second = json!({ "message": "And?", "threadId": thread, "model": "house-model" });
    let second = app.stream(RUNS, &second).await;
    app.service.replace_app(version(&app, "[budget]\nday_usd = 5.0")).await.unwrap();
    gate.open();
    first.all().await;
    let frames = second.all().await;
    assert_eq!(frames.last().unwrap().data["error"]["code"], "model_without_price", "{frames:?}");
    assert_eq!(app.upstream.requests().len(), 1);
}

#[tokio::test]
async fn each_step_of_a_run_holds_what_it_needs_and_no_more() {
    let app =
        TestApp::with(Setup::app("tools = [\"echo\"]\n[budget]\nrun_tokens = 2000\nday_tokens = 5000")).await;
    let call = Reply::stream().call(ScriptedCall::new("echo", r#"{"text":"x"}"#)).usage(90, 10);
    app.upstream.script([call, Reply::says("Done.").usage(120, 5)]);
    let frames = app.say("Hi").await;
    assert_eq!(frames.last().unwrap().data["status"], "completed", "{frames:?}");
    let asked = |index: usize| app.upstream.requests()[index].body["max_tokens"].as_u64().unwrap();
    assert!(asked(0) < 2000 && asked(1) < 1900, "{} {}", asked(0), asked(1));
    assert_eq!(app.count(HELD), 0);
}
