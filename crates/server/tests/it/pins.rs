//! Pins: for one thread or for all, in the prompt until they are removed. Other users do not see them.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use crate::support::{delete, good, keyed, refused, say_in, send_as, thread, token};

const PINS: &str = "/v1/apps/test/pins";
const KIB: usize = 1024;
const CARD: &str = "My card is 4111 1111 1111 1111.";

fn of(thread: &str) -> String {
    format!("/v1/threads/{thread}/pins")
}

fn path(pin: &Value) -> String {
    format!("/v1/pins/{}", pin["id"].as_str().unwrap())
}

async fn pin(app: &TestApp, path: &str, text: &str) -> Value {
    let made = app.post(path, &json!({ "text": text })).await;
    assert_eq!(made.status, 201, "{made:?}");
    good(made)
}

async fn texts(app: &TestApp, path: &str) -> Vec<String> {
    let page = good(app.get(path).await);
    assert_eq!(page["next"], Value::Null);
    page["data"].as_array().unwrap().iter().map(|pin| pin["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_pin_is_for_one_thread_or_for_all() {
    let app = TestApp::start().await;
    let (one, two) = (thread(&app).await, thread(&app).await);
    let here = pin(&app, &of(&one), "  Speak of Oslo.\n").await;
    assert_eq!((&here["text"], &here["threadId"]), (&json!("Speak of Oslo."), &json!(one)));
    let everywhere = pin(&app, PINS, "Use metres.").await;
    assert_eq!(everywhere["threadId"], Value::Null);
    assert_eq!(texts(&app, &of(&one)).await, ["Speak of Oslo.", "Use metres."]);
    assert_eq!(texts(&app, &of(&two)).await, ["Use metres."]);
    assert_eq!(texts(&app, PINS).await, ["Use metres."]);
    assert_eq!(delete(&app, &path(&everywhere)).await.status, 204);
    refused(delete(&app, &path(&everywhere)).await, 404, "not_found");
    assert_eq!(texts(&app, &of(&one)).await, ["Speak of Oslo."]);
    assert_eq!(texts(&app, &of(&two)).await, [""; 0]);
}

#[tokio::test]
async fn a_pin_described_badly_is_refused() {
    let app = TestApp::with(Setup::app("[context]\npin_tokens = 5000\n[history]\nbudget = 100000")).await;
    let thread = thread(&app).await;
    let longest = "x".repeat(4 * KIB);
    for place in [PINS, &of(&thread)] {
        pin(&app, place, &longest).await;
        for (body, status, code) in [
            (json!({}), 422, "invalid_request"),
            (json!({ "text": " \n\t" }), 422, "invalid_request"),
            (json!({ "text": 5 }), 422, "invalid_request"),
            (json!({ "text": "x", "threadId": thread }), 422, "invalid_request"),
            (json!({ "text": format!("{longest}x") }), 413, "too_large"),
            (json!({ "text": CARD }), 422, "secret"),
        ] {
            refused(app.post(place, &body).await, status, code);
        }
    }
    refused(app.post("/v1/apps/nobody/pins", &json!({ "text": "x" })).await, 404, "not_found");
    for nowhere in ["thr_ffffffffffffffffffffffffffffffff", "thr_1", "x"] {
        refused(app.post(&of(nowhere), &json!({ "text": "x" })).await, 404, "not_found");
        refused(app.get(&of(nowhere)).await, 404, "not_found");
    }
    for nothing in ["pin_ffffffffffffffffffffffffffffffff", "pin_1", "x"] {
        refused(delete(&app, &format!("/v1/pins/{nothing}")).await, 404, "not_found");
    }
    assert_eq!(app.count("SELECT count(*) FROM pins"), 2);
}

#[tokio::test]
async fn under_a_key_a_pin_is_made_and_removed_once() {
    let app = TestApp::start().await;
    let body = json!({ "text": "Use metres." });
    let first = good(keyed(&app, Some("a"), Method::POST, (PINS, &body)).await);
    assert_eq!(good(keyed(&app, Some("a"), Method::POST, (PINS, &body)).await), first);
    assert_eq!(texts(&app, PINS).await, ["Use metres."]);
    let other = json!({ "text": "Use feet." });
    refused(keyed(&app, Some("a"), Method::POST, (PINS, &other)).await, 422, "idempotency_key_reused");
    for _ in 0..2 {
        let gone = keyed(&app, Some("b"), Method::DELETE, (&path(&first), &Value::Null)).await;
        assert_eq!(gone.status, 204);
    }
    refused(keyed(&app, Some("c"), Method::DELETE, (&path(&first), &Value::Null)).await, 404, "not_found");
}

#[tokio::test]
async fn there_is_room_for_two_thousand_pins() {
    let app = TestApp::start().await;
    let first = pin(&app, PINS, "x").await;
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1999)
        INSERT INTO pins SELECT randomblob(16), app, user, NULL, text, 0 FROM pins, n";
    app.database().execute(fill, []).unwrap();
    refused(app.post(PINS, &json!({ "text": "x" })).await, 409, "pins_full");
    assert_eq!(delete(&app, &path(&first)).await.status, 204);
    pin(&app, PINS, "x").await;
}

#[tokio::test]
async fn the_pins_of_others_do_not_exist() {
    let app = TestApp::start().await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let body = json!({ "text": "Ann's." });
    let anns = good(send_as(&app, &ann, Method::POST, (PINS, &body)).await);
    let threads = "/v1/apps/test/threads";
    let made = good(send_as(&app, &ann, Method::POST, (threads, &json!({}))).await);
    let place = of(made["id"].as_str().unwrap());
    refused(send_as(&app, &bob, Method::DELETE, (&path(&anns), &Value::Null)).await, 404, "not_found");
    refused(send_as(&app, &bob, Method::GET, (&place, &Value::Null)).await, 404, "not_found");
    refused(send_as(&app, &bob, Method::POST, (&place, &body)).await, 404, "not_found");
    let none = json!({ "data": [], "next": null });
    assert_eq!(good(send_as(&app, &bob, Method::GET, (PINS, &Value::Null)).await), none);
    assert_eq!(app.count("SELECT count(*) FROM pins"), 1);
}

#[tokio::test]
async fn a_pin_is_in_the_prompt_until_it_is_removed() {
    let app = TestApp::start().await;
    app.upstream.program(|_| Reply::says("Yes."));
    let (one, two) = (thread(&app).await, thread(&app).await);
    let here = pin(&app, &of(&one), "Speak of Oslo.").await;
    pin(&app, PINS, "Use metres.").await;
    let seen = async |thread: &str| {
        say_in(&app, thread, "Hi").await;
        let body = app.upstream.requests().last().unwrap().body.to_string();
        (body.contains("Speak of Oslo."), body.contains("Use metres."))
    };
    assert_eq!(seen(&one).await, (true, true));
    assert_eq!(seen(&two).await, (false, true));
    assert_eq!(delete(&app, &path(&here)).await.status, 204);
    assert_eq!(seen(&one).await, (false, true));
}
