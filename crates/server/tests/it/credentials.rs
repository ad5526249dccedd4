//! Credentials: given, listed by name and deleted by their user only. No answer has a credential.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Answer, Setup, TestApp};

use crate::support::{delete, good, keyed, problem, refused, send_as, token};

const CREDENTIALS: &str = "/v1/apps/test/credentials";
const CALENDAR: &str = "/v1/apps/test/credentials/calendar";
const VALUE: &str = "hunter2-\u{e9}-\"quoted\"";

async fn put(app: &TestApp, path: &str, value: &str) -> Answer {
    app.send(app.request(Method::PUT, path).json(&json!({ "value": value }))).await
}

/// The names, once it is sure that nothing else is told.
async fn names(app: &TestApp) -> Vec<String> {
    listed(&good(app.get(CREDENTIALS).await))
}

fn listed(page: &Value) -> Vec<String> {
    assert_eq!(page["next"], Value::Null);
    let name = |view: &Value| {
        let fields: Vec<&str> = view.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["name", "updatedAt"]);
        view["name"].as_str().unwrap().to_owned()
    };
    page["data"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn a_credential_is_given_replaced_listed_and_deleted() {
    let app = TestApp::start().await;
    assert_eq!(names(&app).await, [""; 0]);
    let given = put(&app, CALENDAR, VALUE).await;
    assert_eq!(given.status, 200);
    assert_eq!(good(given.clone())["name"], "calendar");
    assert_eq!(given.body.as_object().unwrap().len(), 2, "{given:?}");
    good(put(&app, CALENDAR, "another").await);
    good(put(&app, "/v1/apps/test/credentials/A_1", "x").await);
    assert_eq!(names(&app).await, ["A_1", "calendar"]);
    assert_eq!(delete(&app, CALENDAR).await.status, 204);
    refused(delete(&app, CALENDAR).await, 404, "not_found");
    assert_eq!(names(&app).await, ["A_1"]);
}

#[tokio::test]
async fn q3_what_is_sent_again_under_its_key_happens_once() {
    let app = TestApp::start().await;
    let (old, new) = (json!({ "value": "old" }), json!({ "value": "new" }));
    let first = good(keyed(&app, Some("a"), Method::PUT, (CALENDAR, &old)).await);
    good(keyed(&app, Some("b"), Method::PUT, (CALENDAR, &new)).await);
    let sealed = "SELECT count(*) FROM credentials WHERE sealed = (SELECT sealed FROM kept)";
    app.database().execute_batch("CREATE TABLE kept AS SELECT sealed FROM credentials").unwrap();
    assert_eq!(good(keyed(&app, Some("a"), Method::PUT, (CALENDAR, &old)).await), first);
    assert_eq!(app.count(sealed), 1, "the newer value stays");
    refused(keyed(&app, Some("a"), Method::PUT, (CALENDAR, &new)).await, 422, "idempotency_key_reused");
    for _ in 0..2 {
        assert_eq!(keyed(&app, Some("c"), Method::DELETE, (CALENDAR, &Value::Null)).await.status, 204);
    }
    refused(keyed(&app, Some("d"), Method::DELETE, (CALENDAR, &Value::Null)).await, 404, "not_found");
    refused(
        keyed(&app, Some("a"), Method::DELETE, (CALENDAR, &Value::Null)).await,
        422,
        "idempotency_key_reused",
    );
}

#[tokio::test]
async fn a_value_is_in_no_answer_and_in_no_file() {
    let app = TestApp::start().await;
    good(put(&app, CALENDAR, VALUE).await);
    let wrong =
        app.send(app.request(Method::PUT, CALENDAR).json(&json!({ "value": VALUE, "x": VALUE }))).await;
    for answer in [put(&app, CALENDAR, VALUE).await, app.get(CREDENTIALS).await, wrong] {
        assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
    }
    refused(app.get(CALENDAR).await, 405, "method_not_allowed");
    for entry in std::fs::read_dir(app.data()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "{}", path.display());
    }
}

#[tokio::test]
async fn m1_nobody_sees_or_takes_what_somebody_else_has_given() {
    let other =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = other.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let app = TestApp::with(Setup { files, ..Setup::default() }).await;
    let (ann, bob) = (token(&app, "ann").await, token(&app, "bob").await);
    let anywhere = NewKey { user: "ann".into(), app: None, admin: false, ..NewKey::default() };
    let anywhere = app.service.add_key(anywhere, None).await.unwrap().token.unwrap();
    let value = json!({ "value": VALUE });
    good(send_as(&app, &ann, Method::PUT, (CALENDAR, &value)).await);

    let page = good(send_as(&app, &bob, Method::GET, (CREDENTIALS, &Value::Null)).await);
    assert_eq!(listed(&page), [""; 0]);
    refused(send_as(&app, &bob, Method::DELETE, (CALENDAR, &Value::Null)).await, 404, "not_found");
    let elsewhere =
        good(send_as(&app, &anywhere, Method::GET, ("/v1/apps/other/credentials", &Value::Null)).await);
    assert_eq!(listed(&elsewhere), [""; 0], "what is given to one app is not given to another");

    let foreign = "/v1/apps/other/credentials/calendar";
    let missing = "/v1/apps/nobody/credentials/calendar";
    for (method, body) in [(Method::PUT, &value), (Method::DELETE, &Value::Null)] {
        let there = problem(send_as(&app, &ann, method.clone(), (foreign, body)).await);
        let nowhere = problem(send_as(&app, &ann, method, (missing, body)).await);
        assert_eq!((&there["status"], &there), (&json!(404), &nowhere));
    }
    assert_eq!(app.count("SELECT count(*) FROM credentials WHERE user = 'ann' AND app = 'test'"), 1);
    assert_eq!(app.count("SELECT count(*) FROM credentials"), 1);
}

#[tokio::test]
async fn a_credential_that_cannot_be_is_refused_and_changes_nothing() {
    let app = TestApp::start().await;
    let long = "x".repeat(8 * 1024 + 1);
    for value in ["", "a\nb", "a\u{0}", "a\u{85}", long.as_str()] {
        let problem = problem(put(&app, CALENDAR, value).await);
        assert_eq!((&problem["status"], &problem["errors"][0]["field"]), (&json!(422), &json!("value")));
    }
    let long_name = "n".repeat(65);
    for name in ["a-b", "a.b", "a%20b", "%C3%A9", "a%2Fb", long_name.as_str()] {
        let problem = problem(put(&app, &format!("{CREDENTIALS}/{name}"), "x").await);
        assert_eq!(
            (&problem["status"], &problem["errors"][0]["field"]),
            (&json!(422), &json!("name")),
            "{name}"
        );
        refused(delete(&app, &format!("{CREDENTIALS}/{name}")).await, 404, "not_found");
    }
    for body in
        [json!({}), json!({ "value": 1 }), json!({ "value": null }), json!({ "value": "x", "name": "y" })]
    {
        refused(app.send(app.request(Method::PUT, CALENDAR).json(&body)).await, 422, "invalid_request");
    }
    refused(app.send(app.request(Method::PUT, CALENDAR)).await, 400, "invalid_json");
    refused(
        keyed(&app, Some(" "), Method::DELETE, (CALENDAR, &Value::Null)).await,
        400,
        "invalid_idempotency_key",
    );
    assert_eq!(names(&app).await, [""; 0]);
    good(put(&app, &format!("{CREDENTIALS}/{}", "n".repeat(64)), &"x".repeat(8 * 1024)).await);
}

#[tokio::test]
async fn there_is_an_end_to_how_many_there_are() {
    let app = TestApp::start().await;
    for number in 0..64 {
        good(put(&app, &format!("{CREDENTIALS}/c{number}"), "x").await);
    }
    refused(put(&app, CALENDAR, "x").await, 409, "credentials_full");
    good(put(&app, &format!("{CREDENTIALS}/c0"), "y").await);
    assert_eq!(delete(&app, &format!("{CREDENTIALS}/c0")).await.status, 204);
    good(put(&app, CALENDAR, "x").await);
}
