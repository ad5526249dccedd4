//! The off switch: nothing new is remembered, and what is there stays the user's.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;

use super::{MEMORIES, add, key, path, texts};
use crate::support::{delete, good, refused};

const SETTINGS: &str = "/v1/apps/test/memories/settings";

async fn set(app: &TestApp, enabled: bool) -> Value {
    good(app.send(app.request(Method::PUT, SETTINGS).json(&json!({ "enabled": enabled }))).await)
}

#[tokio::test]
async fn memory_is_on_until_it_is_switched_off() {
    let app = TestApp::start().await;
    assert_eq!(good(app.get(SETTINGS).await), json!({ "enabled": true }));
    for enabled in [false, false, true, true] {
        assert_eq!(set(&app, enabled).await, json!({ "enabled": enabled }));
        assert_eq!(good(app.get(SETTINGS).await), json!({ "enabled": enabled }));
    }
}

#[tokio::test]
async fn while_it_is_off_nothing_is_added_and_what_is_there_stays() {
    let app = TestApp::start().await;
    let made = add(&app, "Has a dog.").await;
    set(&app, false).await;
    refused(app.post(MEMORIES, &json!({ "text": "Has a cat." })).await, 409, "memory_off");
    let import = app.request(Method::POST, &format!("{MEMORIES}/import")).body("- Has a cat.");
    refused(app.send(import).await, 409, "memory_off");
    assert_eq!(texts(&good(app.get(MEMORIES).await)), ["Has a dog."]);
    good(app.get(&format!("{MEMORIES}/export")).await);
    assert_eq!(delete(&app, &path(&made)).await.status, 204);
    set(&app, true).await;
    add(&app, "Has a cat.").await;
}

#[tokio::test]
async fn a_setting_sent_badly_is_refused() {
    let app = TestApp::start().await;
    for wrong in
        [json!({}), json!({ "enabled": "no" }), json!({ "enabled": true, "more": 1 }), json!([false])]
    {
        let answer = app.send(app.request(Method::PUT, SETTINGS).json(&wrong)).await;
        refused(answer, 422, "invalid_request");
    }
    let nowhere = "/v1/apps/nobody/memories/settings";
    refused(app.get(nowhere).await, 404, "not_found");
    let answer = app.send(app.request(Method::PUT, nowhere).json(&json!({ "enabled": false }))).await;
    refused(answer, 404, "not_found");
    assert_eq!(good(app.get(SETTINGS).await), json!({ "enabled": true }));
}

#[tokio::test]
async fn under_a_key_it_is_switched_once() {
    let app = TestApp::start().await;
    let keyed = async |enabled: bool| {
        let request = app.request(Method::PUT, SETTINGS).header("idempotency-key", "k");
        app.send(request.json(&json!({ "enabled": enabled }))).await
    };
    assert_eq!(good(keyed(false).await), json!({ "enabled": false }));
    set(&app, true).await;
    assert_eq!(good(keyed(false).await), json!({ "enabled": true }), "as it is now");
    refused(keyed(true).await, 422, "idempotency_key_reused");
}

#[tokio::test]
async fn each_user_has_a_switch_of_their_own() {
    let app = TestApp::start().await;
    let (ann, bob) = (key(&app, "ann").await, key(&app, "bob").await);
    let off = app.request(Method::PUT, SETTINGS).json(&json!({ "enabled": false })).bearer_auth(&ann);
    assert_eq!(good(app.send(off).await), json!({ "enabled": false }));
    for (token, enabled) in [(&ann, false), (&bob, true)] {
        let settings = app.send(app.request(Method::GET, SETTINGS).bearer_auth(token)).await;
        assert_eq!(good(settings), json!({ "enabled": enabled }));
    }
}
