//! Webhooks, received on a real socket: what is sent, how it is signed, and what becomes of what is not taken.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::upstream::{Reply, ScriptedCall};
use testkit::web::{Web, WebArrival, WebReply};
use testkit::{Reach, Setup, TestApp};

use crate::support::{RUNS, good, say};

/// The key is thirty-two bytes of `k`.
const SECRET: &str = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=";

/// An app that tells the receiver of these events.
fn setup(web: &Web, events: &str) -> Setup {
    let reach = Reach {
        allow: vec![web.host()],
        secrets: vec![("orders".into(), SECRET.into())],
        ..Reach::default()
    };
    let app = format!(
        "tools = [\"risky\"]\n[[webhook]]\nname = \"orders\"\nurl = \"{}/hook\"\nevents = {events}\nsecret = \"orders\"\n",
        web.url()
    );
    Setup { reach, ..Setup::app(&app) }
}

/// HMAC-SHA-256 by its definition, so that nothing of the server is used to check the server.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// The body of a message, whose signature has been checked.
fn verified(arrival: &WebArrival) -> Value {
    let header = |name: &str| arrival.header(name).expect(name).to_owned();
    let (id, at, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let signed = format!("{id}.{at}.{}", arrival.text());
    let digest = hmac(&[b'k'; 32], signed.as_bytes());
    assert_eq!(signature, format!("v1,{}", base64(&digest)));
    assert_eq!(header("content-type"), "application/json");
    arrival.json()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

async fn jobs(app: &TestApp) -> Vec<Value> {
    let page = good(app.get("/v1/admin/jobs").await);
    let all = page["data"].as_array().unwrap().clone();
    all.into_iter().filter(|job| job["kind"] == "webhook").collect()
}

#[tokio::test]
async fn a_run_that_ended_is_told_once_with_ids_and_without_words() {
    let web = Web::start().await;
    web.on("POST", "/hook", [WebReply::status(204)]);
    let app = TestApp::with(setup(&web, "[\"run.ended\"]")).await;
    app.upstream.script([Reply::says("A secret answer.")]);
    let names = say(&app, "A secret question").await;
    let arrivals = web.wait_for(1).await;
    let body = verified(&arrivals[0]);
    assert_eq!(body["type"], "run.ended");
    assert_eq!(
        body["data"],
        json!({ "app": "test", "user": "local", "threadId": names.thread, "runId": names.run, "status": "completed" })
    );
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(!arrivals[0].text().contains("secret"));
    app.service.idle().await;
    assert_eq!(jobs(&app).await[0]["status"], "done");
    assert_eq!((web.arrivals().len(), app.count("SELECT count(*) FROM webhook_messages")), (1, 1));
}

#[tokio::test]
async fn an_approval_and_a_memory_are_told() {
    let web = Web::start().await;
    web.on("POST", "/hook", (0..3).map(|_| WebReply::status(200)));
    let app = TestApp::with(setup(&web, "[\"approval.open\", \"memory.changed\"]")).await;
    app.upstream.script([Reply::stream().call(ScriptedCall::new("risky", r#"{"n":1}"#))]);
    let run = good(app.post(RUNS, &json!({ "message": "Do it", "stream": false })).await);
    let body = verified(&web.wait_for(1).await[0]);
    assert_eq!(
        (&body["type"], &body["data"]),
        (
            &json!("approval.open"),
            &json!({
                "app": "test", "user": "local", "threadId": run["threadId"], "runId": run["runId"],
                "approvalId": run["proposals"][0]["id"], "tool": "risky",
            })
        )
    );
    let memory = good(app.post("/v1/apps/test/memories", &json!({ "text": "The user sails." })).await);
    let body = verified(&web.wait_for(2).await[1]);
    assert_eq!(
        (&body["type"], &body["data"]["memoryIds"]),
        (&json!("memory.changed"), &json!([memory["id"]]))
    );
    assert_eq!(body["data"]["change"], "created");
    let text = web.arrivals().iter().map(WebArrival::text).collect::<String>();
    assert!(!text.contains("sails"), "{text}");
}

/// The server stops between the end of the run and the delivery, and the receiver fails at first. The message has the
/// same id and the same body each time.
#[tokio::test]
async fn a_message_outlives_failures_and_the_server() {
    let web = Web::start().await;
    web.on("POST", "/hook", [WebReply::status(500), WebReply::status(503), WebReply::status(200)]);
    let app = TestApp::with(setup(&web, "[\"run.ended\"]")).await;
    app.upstream.script([Reply::says("Well.")]);
    say(&app, "Go").await;
    web.wait_for(1).await;
    app.service.idle().await;
    let job = jobs(&app).await[0].clone();
    assert_eq!((&job["status"], &job["attempts"]), (&json!("ready"), &json!(1)));
    assert_eq!(job["error"], "the receiver answered with the status 500");
    let app = app.restart_with(|setup| setup.clock.advance(Duration::from_secs(10))).await;
    web.wait_for(2).await;
    app.service.idle().await;
    let app = app.restart_with(|setup| setup.clock.advance(Duration::from_secs(120))).await;
    let arrivals = web.wait_for(3).await;
    app.service.idle().await;
    let job = jobs(&app).await[0].clone();
    assert_eq!(job["status"], "done");
    // An attempt that a stop has cut off counts, too.
    assert!(job["attempts"].as_u64().unwrap() >= 3, "{job}");
    for arrival in &arrivals {
        verified(arrival);
        assert_eq!(arrival.text(), arrivals[0].text());
        assert_eq!(arrival.header("webhook-id"), job["id"].as_str());
    }
    assert_ne!(arrivals[0].header("webhook-timestamp"), arrivals[2].header("webhook-timestamp"));
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_not_asked_again_until_an_admin_says_so() {
    let web = Web::start().await;
    web.on("POST", "/hook", [WebReply::status(410), WebReply::status(200)]);
    let app = TestApp::with(setup(&web, "[\"run.ended\"]")).await;
    app.upstream.script([Reply::says("Well.")]);
    say(&app, "Go").await;
    web.wait_for(1).await;
    app.service.idle().await;
    let job = jobs(&app).await[0].clone();
    assert_eq!((&job["status"], &job["attempts"]), (&json!("dead"), &json!(1)));
    let path = format!("/v1/admin/jobs/{}/retry", job["id"].as_str().unwrap());
    good(app.post(&path, &json!({})).await);
    web.wait_for(2).await;
    app.service.idle().await;
    assert_eq!(jobs(&app).await[0]["status"], "done");
}

/// A redirect is not followed, and an address that is not open is not reached.
#[tokio::test]
async fn the_egress_rules_hold_for_webhooks() {
    let (web, other) = (Web::start().await, Web::start().await);
    web.on("POST", "/hook", [WebReply::redirect(307, &format!("{}/hook", other.url()))]);
    let app = TestApp::with(setup(&web, "[\"run.ended\"]")).await;
    app.upstream.script([Reply::says("Well.")]);
    say(&app, "Go").await;
    web.wait_for(1).await;
    app.service.idle().await;
    assert_eq!(jobs(&app).await[0]["error"], "the receiver answered with the status 307");
    let closed = Setup {
        reach: Reach { secrets: vec![("orders".into(), SECRET.into())], ..Reach::default() },
        ..setup(&web, "[\"run.ended\"]")
    };
    let app = TestApp::with(closed).await;
    app.upstream.script([Reply::says("Well.")]);
    say(&app, "Go").await;
    app.service.idle().await;
    let error = jobs(&app).await[0]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the egress rules block"), "{error}");
    assert_eq!((web.arrivals().len(), other.arrivals().len()), (1, 0));
}

#[tokio::test]
async fn an_app_without_a_webhook_stores_no_message() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Well.")]);
    say(&app, "Go").await;
    assert_eq!(app.count("SELECT count(*) FROM webhook_messages"), 0);
    assert_eq!(jobs(&app).await, [Value::Null; 0]);
}
