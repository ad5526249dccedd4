//! An admin key for one app manages that app, and nothing beyond it.

use axum::http::Method;
use serde_json::{Value, json};
use service::NewKey;
use testkit::{Setup, TestApp};

use crate::support::{good, refused, repeating, say, send_as};

const KEYS: &str = "/v1/admin/keys";
const JOBS: &str = "/v1/admin/jobs";

/// A server with the apps `test` and `other`.
async fn with_two_apps() -> TestApp {
    let files =
        [("../other/app.toml", "name = \"Other\"\n"), ("../other/instructions.md", "You are another.\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    TestApp::with(Setup { files, title: Some("Name it.\n".into()), ..Setup::default() }).await
}

async fn key(app: &TestApp, user: &str, only: Option<&str>, admin: bool) -> (String, String) {
    let key = NewKey { user: user.into(), app: only.map(Into::into), admin, ..NewKey::default() };
    let made = app.service.add_key(key, None).await.unwrap();
    (made.id.to_string(), made.token.unwrap())
}

async fn users(app: &TestApp, token: &str) -> Vec<String> {
    let list = good(send_as(app, token, Method::GET, (KEYS, &Value::Null)).await);
    let user = |key: &Value| key["user"].as_str().unwrap().to_owned();
    list["data"].as_array().unwrap().iter().map(user).collect()
}

#[tokio::test]
async fn an_admin_of_one_app_makes_keys_for_that_app_alone() {
    let app = with_two_apps().await;
    let (_, warden) = key(&app, "warden", Some("test"), true).await;
    for wider in [
        json!({ "user": "eve" }),
        json!({ "user": "eve", "admin": true }),
        json!({ "user": "eve", "app": null }),
        json!({ "user": "eve", "app": "other" }),
        json!({ "user": "eve", "app": "none" }),
    ] {
        let detail = refused(send_as(&app, &warden, Method::POST, (KEYS, &wider)).await, 403, "forbidden");
        assert!(detail.contains(r#""app": "test""#), "{detail}");
    }
    assert_eq!(app.count("SELECT count(*) FROM keys"), 1);

    let deputy = json!({ "user": "deputy", "app": "test", "admin": true });
    let deputy = good(send_as(&app, &warden, Method::POST, (KEYS, &deputy)).await);
    let deputy = deputy["token"].as_str().unwrap();
    assert_eq!(users(&app, deputy).await, ["warden", "deputy"]);
    let wider = json!({ "user": "deputy", "admin": true });
    refused(send_as(&app, deputy, Method::POST, (KEYS, &wider)).await, 403, "forbidden");

    // An admin of all apps makes any key, and who made which is noted.
    let (_, root) = key(&app, "root", None, true).await;
    for body in [json!({ "user": "ann" }), json!({ "user": "bob", "app": "other", "admin": true })] {
        good(send_as(&app, &root, Method::POST, (KEYS, &body)).await);
    }
    let list = good(send_as(&app, &root, Method::GET, (KEYS, &Value::Null)).await);
    let made: Vec<_> = list["data"].as_array().unwrap().iter().map(|key| &key["madeBy"]).collect();
    assert_eq!(made, ["local", "warden", "local", "root", "root"]);
}

#[tokio::test]
async fn an_admin_of_one_app_sees_and_revokes_the_keys_of_that_app_alone() {
    let app = with_two_apps().await;
    let (root_key, root) = key(&app, "root", None, true).await;
    let (_, warden) = key(&app, "warden", Some("test"), true).await;
    let (ann_key, ann) = key(&app, "ann", Some("test"), false).await;
    let (bob_key, bob) = key(&app, "bob", Some("other"), false).await;
    assert_eq!(users(&app, &warden).await, ["warden", "ann"]);
    assert_eq!(users(&app, &root).await, ["root", "warden", "ann", "bob"]);

    let revoke = async |token: &str, key: &str| {
        send_as(&app, token, Method::DELETE, (&format!("{KEYS}/{key}"), &Value::Null)).await
    };
    for foreign in [&root_key, &bob_key] {
        refused(revoke(&warden, foreign).await, 404, "not_found");
    }
    for token in [&root, &bob] {
        good(send_as(&app, token, Method::GET, ("/v1/apps", &Value::Null)).await);
    }
    assert_eq!(revoke(&warden, &ann_key).await.status, 204);
    assert_eq!(revoke(&root, &ann_key).await.status, 204, "revoking twice is revoking once");
    refused(send_as(&app, &ann, Method::GET, ("/v1/apps", &Value::Null)).await, 401, "unauthorized");
    let list = good(send_as(&app, &root, Method::GET, (KEYS, &Value::Null)).await);
    let revoked: Vec<_> = list["data"].as_array().unwrap().iter().map(|key| &key["revokedBy"]).collect();
    assert_eq!(revoked, [&Value::Null, &Value::Null, &json!("warden"), &Value::Null]);
}

#[tokio::test]
async fn an_admin_of_one_app_sees_the_work_of_that_app_alone() {
    let app = with_two_apps().await;
    app.upstream.program(repeating);
    say(&app, "Hi").await;
    let (_, root) = key(&app, "root", None, true).await;
    let (_, here) = key(&app, "warden", Some("test"), true).await;
    let (_, there) = key(&app, "warden", Some("other"), true).await;
    let apps = async |token: &str| -> Vec<String> {
        let list = good(send_as(&app, token, Method::GET, (JOBS, &Value::Null)).await);
        let app = |job: &Value| job["appId"].as_str().unwrap_or_default().to_owned();
        let mut apps: Vec<_> = list["data"].as_array().unwrap().iter().map(app).collect();
        apps.dedup();
        apps
    };
    assert!(apps(&root).await.contains(&"test".to_owned()));
    assert_eq!(apps(&here).await, ["test"]);
    assert_eq!(apps(&there).await, [""; 0]);

    // The ledger is checked as a whole, so that is for an admin of all apps.
    good(send_as(&app, &root, Method::GET, ("/v1/admin/ledger", &Value::Null)).await);
    let refusal = send_as(&app, &here, Method::GET, ("/v1/admin/ledger", &Value::Null)).await;
    let detail = refused(refusal, 403, "forbidden");
    assert!(detail.contains("--app"), "{detail}");
}
