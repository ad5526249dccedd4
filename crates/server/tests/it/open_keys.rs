//! The first key ends access without one, and says so; a command with access to the data folder can remove all keys
//! again.

use axum::http::Method;
use serde_json::{Value, json};
use testkit::TestApp;

use crate::support::{good, refused, send_as};

const KEYS: &str = "/v1/admin/keys";
const CONTROL: &str = "/control/keys";
const APPS: &str = "/v1/apps";

async fn token(app: &TestApp, key: Option<&str>, user: &str) -> (String, Option<String>) {
    let body = json!({ "user": user, "admin": true });
    let made = match key {
        Some(key) => good(send_as(app, key, Method::POST, (KEYS, &body)).await),
        None => good(app.post(KEYS, &body).await),
    };
    let notice = made.get("notice").map(|notice| notice.as_str().unwrap().to_owned());
    (made["token"].as_str().unwrap().to_owned(), notice)
}

#[tokio::test]
async fn the_first_key_says_what_it_changes_and_the_second_does_not() {
    let app = TestApp::start().await;
    let (ann, notice) = token(&app, None, "ann").await;
    let notice = notice.expect("the first key has a notice");
    for part in ["access without a key ends now", "Authorization: Bearer", "`rondo keys open`"] {
        assert!(notice.contains(part), "{notice}");
    }
    refused(app.get(APPS).await, 401, "unauthorized");
    assert_eq!(token(&app, Some(&ann), "bob").await.1, None);
}

#[tokio::test]
async fn who_has_the_data_folder_opens_the_server_again() {
    let app = TestApp::start().await;
    let control = app.service.control_token().unwrap();
    let (ann, _) = token(&app, None, "ann").await;
    token(&app, Some(&ann), "bob").await;
    let removed = good(send_as(&app, &control, Method::DELETE, (CONTROL, &Value::Null)).await);
    assert_eq!(removed, json!({ "removed": 2 }));
    good(app.get(APPS).await);
    assert_eq!(good(app.get(KEYS).await)["data"], json!([]));
    assert_eq!(app.count("SELECT count(*) FROM keys"), 0);
    assert!(app.service.key_grant(&ann).await.unwrap().is_none(), "the old key is good for nothing");

    let app = app.restart().await;
    good(app.get(APPS).await);
    let (carl, notice) = token(&app, None, "carl").await;
    assert!(notice.is_some(), "it is the first one again");
    refused(app.get(APPS).await, 401, "unauthorized");
    good(send_as(&app, &carl, Method::GET, (APPS, &Value::Null)).await);
}

#[tokio::test]
async fn no_key_and_nobody_else_removes_all_keys() {
    let app = TestApp::start().await;
    let delete = || app.send(app.request(Method::DELETE, CONTROL));
    refused(delete().await, 403, "forbidden");
    let (ann, _) = token(&app, None, "ann").await;
    refused(delete().await, 403, "forbidden");
    for wrong in [ann.as_str(), "rondo_00", ""] {
        let detail =
            refused(send_as(&app, wrong, Method::DELETE, (CONTROL, &Value::Null)).await, 403, "forbidden");
        assert!(detail.contains("rondo keys open"), "{detail}");
    }
    refused(app.get(APPS).await, 401, "unauthorized");
    assert_eq!(app.count("SELECT count(*) FROM keys"), 1);
}

/// Without keys, each request may learn the names of all apps. With keys, no request does.
#[tokio::test]
async fn an_unknown_app_is_answered_with_the_apps_that_there_are() {
    let app = TestApp::start().await;
    let body = json!({ "message": "Hi" });
    let detail = refused(app.post("/v1/apps/none/runs", &body).await, 404, "not_found");
    assert_eq!(detail, "there is no such app; there is test");
    let (ann, _) = token(&app, None, "ann").await;
    let answer = send_as(&app, &ann, Method::POST, ("/v1/apps/none/runs", &body)).await;
    assert_eq!(refused(answer, 404, "not_found"), "there is no such app, or it is not yours");
}
