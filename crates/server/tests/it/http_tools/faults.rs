//! When the server is slow, busy or gone, when the run is cancelled and when we are: what happened once is not done
//! twice, and an outcome that cannot be known is `unknown` (E1, E2, C1).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::upstream::{Gate, Reply, ScriptedCall};
use testkit::web::{self, Web};
use testkit::{Method, TestApp, audit};

use super::{call, failure, setup, status, tool};
use crate::support::{Names, RUNS, good, status_of};

/// One tool of each effect at the path of its name. None has an undo, so the third is declared with one.
fn tools(more: &str) -> String {
    let http = |method: &str, path: &str| format!("method = '{method}'\nurl = 'WEB/{path}'\n{more}");
    let undo = "[tool.reversible.undo]\nurl = 'WEB/undo'\n";
    tool("read", "read", &http("GET", "read"))
        + &tool("idempotent", "idempotent", &http("PUT", "idempotent"))
        + &tool("reversible", "reversible", &http("POST", "reversible"))
        + undo
        + &tool("irreversible", "irreversible", &http("POST", "irreversible"))
}

const EFFECTS: [(&str, &str); 4] =
    [("read", "GET"), ("idempotent", "PUT"), ("reversible", "POST"), ("irreversible", "POST")];

fn path(effect: &str) -> String {
    format!("/{effect}")
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_let_go_and_what_it_may_have_done_is_unknown() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools("timeout_seconds = 1"))).await;
    for (index, (effect, method)) in EFFECTS.into_iter().enumerate() {
        web.on(method, &path(effect), [web::WebReply::text("late").wait(&Gate::new())]);
        let result = call(&app, effect, &json!({})).await;
        if effect == "read" {
            assert_eq!(failure(&result), ("timeout", "the tool gave no answer within 1 s"));
        } else {
            assert_eq!(status(&result), "unknown", "{effect}");
        }
        web.closed(index).await;
    }
    assert_eq!(web.arrivals().len(), 4, "nothing was tried again");
}

#[tokio::test]
async fn the_time_of_the_app_bounds_every_tool() {
    let web = Web::start().await;
    let toml = tools("timeout_seconds = 600") + "[loop]\ntool_timeout_seconds = 1\n";
    let app = TestApp::with(setup(&web, &toml)).await;
    web.on("GET", "/read", [web::WebReply::text("late").wait(&Gate::new())]);
    assert_eq!(failure(&call(&app, "read", &json!({})).await).0, "timeout");
    web.closed(0).await;
}

#[tokio::test]
async fn what_breaks_off_is_made_again_once_where_that_does_no_harm() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools(""))).await;
    for broken in [web::WebReply::broken(), web::WebReply::text("half of it").half()] {
        for (effect, method) in EFFECTS {
            let before = web.arrivals().len();
            let again = matches!(effect, "read" | "idempotent");
            web.on(method, &path(effect), [broken.clone()]);
            if again {
                web.on(method, &path(effect), [web::WebReply::text("now")]);
            }
            let result = call(&app, effect, &json!({})).await;
            let arrivals = web.arrivals().split_off(before);
            if again {
                assert_eq!((status(&result), arrivals.len()), ("complete", 2), "{effect}");
                let key = |index: usize| arrivals[index].header("idempotency-key").unwrap();
                assert_eq!((key(0), arrivals[0].text()), (key(1), arrivals[1].text()), "{effect}");
            } else {
                assert_eq!((status(&result), arrivals.len()), ("unknown", 1), "{effect}");
            }
        }
    }
    web.on("GET", "/read", [web::WebReply::broken(), web::WebReply::broken()]);
    let result = call(&app, "read", &json!({})).await;
    assert_eq!(failure(&result).0, "unreachable", "twice is enough");
    web.on("PUT", "/idempotent", [web::WebReply::broken(), web::WebReply::broken()]);
    assert_eq!(status(&call(&app, "idempotent", &json!({})).await), "unknown");
    web.on("PUT", "/idempotent", [web::WebReply::broken(), web::WebReply::status(409)]);
    let result = call(&app, "idempotent", &json!({})).await;
    assert_eq!(status(&result), "unknown", "a refusal of the second says nothing of the first");
}

#[tokio::test]
async fn a_tool_that_is_not_to_be_tried_again_is_not() {
    let web = Web::start().await;
    let http = "url = 'WEB/read'\nretry = false";
    let app = TestApp::with(setup(&web, &tool("read", "read", http))).await;
    for reply in [web::WebReply::broken(), web::WebReply::status(503).header("retry-after", "0")] {
        web.on("GET", "/read", [reply]);
        assert_eq!(status(&call(&app, "read", &json!({})).await), "failed");
    }
    assert_eq!(web.arrivals().len(), 2);
}

#[tokio::test]
async fn a_busy_server_is_asked_once_more_where_that_does_no_harm() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools(""))).await;
    for busy in [429, 503] {
        for (effect, method) in EFFECTS {
            let before = web.arrivals().len();
            let reply = web::WebReply::text("too many").with_status(busy).header("retry-after", "0");
            web.on(method, &path(effect), [reply]);
            let again = matches!(effect, "read" | "idempotent");
            if again {
                web.on(method, &path(effect), [web::WebReply::text("now")]);
            }
            let result = call(&app, effect, &json!({})).await;
            let expected = match (again, busy) {
                (true, _) => ("complete", 2),
                (false, 429) => ("failed", 1),
                (false, _) => ("unknown", 1),
            };
            assert_eq!((status(&result), web.arrivals().len() - before), expected, "{busy} {effect}");
        }
    }
    let before = web.arrivals().len();
    web.on("GET", "/read", [web::WebReply::status(503).header("retry-after", "60")]);
    let result = call(&app, "read", &json!({})).await;
    assert_eq!(failure(&result).1, "the server answered with the status 503");
    assert_eq!(web.arrivals().len(), before + 1, "nobody waits for a minute");
}

#[tokio::test]
async fn what_a_server_may_have_done_before_it_failed_is_unknown_and_not_failed() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools("retry = false"))).await;
    for broken in [500, 501, 502, 503, 504, 520] {
        for (effect, method) in EFFECTS {
            let reply = web::WebReply::text("it is done, but the receipt is lost").with_status(broken);
            web.on(method, &path(effect), [reply]);
            let result = call(&app, effect, &json!({})).await;
            let expected = if effect == "read" { "failed" } else { "unknown" };
            assert_eq!(status(&result), expected, "{broken} {effect}");
            let said = result["output"]["message"].as_str().unwrap();
            assert!(said.contains("the receipt is lost"), "what the server says is told: {said}");
        }
    }
    for refused in [400, 404, 409, 422] {
        for (effect, method) in EFFECTS {
            web.on(method, &path(effect), [web::WebReply::status(refused)]);
            assert_eq!(status(&call(&app, effect, &json!({})).await), "failed", "{refused} {effect}");
        }
    }
    assert_eq!(web.arrivals().len(), 10 * EFFECTS.len(), "nothing was tried again");
}

/// Starts a run whose call stands at the server, which holds the answer back.
async fn held(app: &TestApp, web: &Web, (effect, method): (&str, &str)) -> (testkit::Frames, Names) {
    let gate = Gate::new();
    web.on(method, &path(effect), [web::WebReply::text("late").wait(&gate)]);
    app.upstream.script([Reply::stream().call(ScriptedCall::new(effect, "{}"))]);
    let stream = app.stream(RUNS, &json!({ "message": "Do it" })).await;
    gate.reached().await;
    let names = Names::of(&stream);
    (stream, names)
}

async fn action(app: &TestApp, names: &Names) -> Value {
    good(app.get(&format!("/v1/apps/test/actions?run={}", names.run)).await)["data"][0].clone()
}

#[tokio::test]
async fn c1_cancelling_lets_go_of_the_server_and_says_what_is_not_known() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools(""))).await;
    for (index, effect) in EFFECTS.into_iter().enumerate() {
        let (stream, names) = held(&app, &web, effect).await;
        let asked = Instant::now();
        let cancelled = app.send(app.request(Method::POST, &format!("{}/cancel", names.run_path()))).await;
        assert_eq!(cancelled.status, 202);
        let closed = web.closed(index).await.saturating_duration_since(asked);
        println!("from cancel to a closed socket of the tool's server: {closed:?}");
        assert!(closed < Duration::from_millis(250), "{closed:?}");
        assert_eq!(status_of(&stream.all().await), "cancelled");
        assert!(asked.elapsed() < Duration::from_secs(6));
        let action = action(&app, &names).await;
        let expected = if effect.0 == "read" { "cancelled" } else { "unknown" };
        assert_eq!(action["status"], expected, "{action}");
        assert_eq!(action["undoable"], false);
    }
    assert_eq!(web.arrivals().len(), 4, "nothing was tried again");
    assert_eq!(audit(&app.data()), [""; 0]);
}

#[tokio::test]
async fn c1_a_call_that_was_to_be_tried_again_is_not_once_the_run_is_cancelled() {
    let web = Web::start().await;
    let app = TestApp::with(setup(&web, &tools(""))).await;
    web.on("GET", "/read", [web::WebReply::status(503).header("retry-after", "1")]);
    app.upstream.script([Reply::stream().call(ScriptedCall::new("read", "{}"))]);
    let stream = app.stream(RUNS, &json!({ "message": "Do it" })).await;
    let names = Names::of(&stream);
    web.wait_for(1).await;
    let asked = Instant::now();
    app.send(app.request(Method::POST, &format!("{}/cancel", names.run_path()))).await;
    assert_eq!(status_of(&stream.all().await), "cancelled");
    assert!(asked.elapsed() < Duration::from_secs(6));
    assert_eq!(web.arrivals().len(), 1);
}

#[tokio::test]
async fn e2_after_a_crash_what_cannot_be_repeated_is_unknown_and_arrived_once() {
    for effect in [("reversible", "POST"), ("irreversible", "POST")] {
        let web = Web::start().await;
        let app = TestApp::with(setup(&web, &tools(""))).await;
        let (stream, names) = held(&app, &web, effect).await;
        app.upstream.script([Reply::says("I do not know.")]);
        drop(stream);
        let app = app.restart().await;
        app.service.idle().await;
        assert_eq!(good(app.get(&names.run_path()).await)["status"], "completed");
        assert_eq!(action(&app, &names).await["status"], "unknown");
        assert_eq!(web.arrivals().len(), 1);
        assert_eq!(audit(&app.data()), [""; 0]);
    }
}

#[tokio::test]
async fn e2_after_a_crash_what_can_be_repeated_is_made_again_under_the_same_key() {
    for (effect, method) in [("read", "GET"), ("idempotent", "PUT")] {
        let web = Web::start().await;
        let app = TestApp::with(setup(&web, &tools(""))).await;
        let (stream, names) = held(&app, &web, (effect, method)).await;
        web.on(method, &path(effect), [web::WebReply::text("done")]);
        app.upstream.script([Reply::says("Done.")]);
        drop(stream);
        let app = app.restart().await;
        app.service.idle().await;
        assert_eq!(good(app.get(&names.run_path()).await)["status"], "completed");
        let action = action(&app, &names).await;
        assert_eq!((&action["status"], &action["output"]), (&json!("complete"), &json!("done")));
        let arrivals = web.arrivals();
        let keys: Vec<_> =
            arrivals.iter().map(|arrival| arrival.header("idempotency-key").unwrap()).collect();
        assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
        assert_eq!(audit(&app.data()), [""; 0]);
    }
}

#[tokio::test]
async fn e2_after_a_crash_a_second_try_that_fails_says_nothing_of_the_first() {
    for (effect, method, expected) in [("read", "GET", "failed"), ("idempotent", "PUT", "unknown")] {
        let web = Web::start().await;
        let app = TestApp::with(setup(&web, &tools(""))).await;
        let (stream, names) = held(&app, &web, (effect, method)).await;
        web.on(method, &path(effect), [web::WebReply::status(404)]);
        app.upstream.script([Reply::says("I do not know.")]);
        drop(stream);
        let app = app.restart().await;
        app.service.idle().await;
        let action = action(&app, &names).await;
        assert_eq!(action["status"], expected, "{action}");
        assert_eq!(web.arrivals().len(), 2);
        assert_eq!(audit(&app.data()), [""; 0]);
    }
}
