//! Usage by day, and the models there are.

use serde_json::json;
use service::NewKey;
use testkit::upstream::Reply;
use testkit::{Setup, TestApp};

use crate::support::{good, refused, say, told};

/// One run of each of two models.
async fn used() -> TestApp {
    let app = TestApp::with(Setup::app("models = [\"backup-model\"]")).await;
    app.upstream.script([Reply::says("One.").usage(100, 10), Reply::says("Two.").usage(200, 20)]);
    app.backup.script([Reply::says("Three.").usage(1000, 5)]);
    say(&app, "One?").await;
    say(&app, "Two?").await;
    told(&app, json!({ "message": "Three?", "model": "backup-model" })).await;
    app
}

#[tokio::test]
async fn c4_a_day_adds_up_what_its_runs_have_used() {
    let app = used().await;
    insta::assert_json_snapshot!("what_three_runs_have_used", good(app.get("/v1/usage").await));
    let report = good(app.get("/v1/usage?from=2026-03-01&to=2026-03-01").await);
    assert_eq!(report["total"]["inputTokens"], 1300, "{report}");
    let none = json!({ "data": [], "next": null, "total": { "inputTokens": 0, "outputTokens": 0 } });
    assert_eq!(good(app.get("/v1/usage?to=2026-02-28").await), none);
    let app = app.restart().await;
    assert_eq!(good(app.get("/v1/usage?to=2026-03-01").await), report);
}

#[tokio::test]
async fn a_report_asked_for_badly_is_refused() {
    let app = TestApp::start().await;
    for (query, field) in [
        ("from=yesterday", "from"),
        ("from=2026-02-29", "from"),
        ("from=2026-3-1", "from"),
        ("to=20260301", "to"),
        ("to=", "to"),
        ("from=2026-03-02", "from"),
        ("from=2026-03-02&to=2026-03-01", "from"),
        ("from=2025-02-28&to=2026-03-01", "from"),
    ] {
        let detail = refused(app.get(&format!("/v1/usage?{query}")).await, 422, "invalid_request");
        assert!(detail.starts_with(&format!("{field}: ")), "{query}: {detail}");
    }
    refused(app.get("/v1/usage?from=2026-03-01&from=2026-03-01").await, 422, "invalid_request");
    good(app.get("/v1/usage?from=2025-03-01&to=2026-03-01").await);
}

#[tokio::test]
async fn a_user_sees_what_they_have_used_where_their_key_is_good() {
    let app = TestApp::start().await;
    let row = |user: &str, app: &str| {
        format!("INSERT INTO usage VALUES ('{user}', '{app}', '2026-03-01', 'm', 1, 5, 5, 0, 0, 0, 0)")
    };
    for (user, of) in [("ann", "test"), ("ann", "other"), ("bob", "test")] {
        app.database().execute(&row(user, of), []).unwrap();
    }
    let usage = async |only: Option<&str>| {
        let key = NewKey { user: "ann".into(), app: only.map(Into::into), admin: false, ..NewKey::default() };
        let token = app.service.add_key(key, None).await.unwrap().token.unwrap();
        let request = app.request(testkit::Method::GET, "/v1/usage").bearer_auth(token);
        let report = good(app.send(request).await);
        let apps: Vec<String> = report["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["appId"].as_str().unwrap().into())
            .collect();
        (apps, report["total"]["inputTokens"].clone())
    };
    assert_eq!(usage(None).await, (vec!["other".into(), "test".into()], json!(10)));
    assert_eq!(usage(Some("test")).await, (vec!["test".into()], json!(5)));
}

#[tokio::test]
async fn the_models_are_listed_with_what_they_can_do() {
    let app = TestApp::start().await;
    insta::assert_json_snapshot!("the_models_are_listed", good(app.get("/v1/models").await));
    let none = TestApp::with(Setup { model: false, ..Setup::default() }).await;
    assert_eq!(good(none.get("/v1/models").await), json!({ "data": [], "next": null }));
}

#[tokio::test]
async fn costs_are_billionths_inside_and_dollars_outside() {
    let app = TestApp::start().await;
    app.upstream.script([Reply::says("Yes.").usage(1000, 10)]);
    let names = say(&app, "Hi").await;
    let usage = async || good(app.get("/v1/usage").await)["total"].clone();
    assert_eq!(usage().await, json!({ "inputTokens": 1000, "outputTokens": 10 }), "no price, no cost");
    let sql = "DROP TRIGGER runs_absorb; UPDATE runs SET cost = 1500000000; UPDATE usage SET cost = 2500001";
    app.database().execute_batch(sql).unwrap();
    let run = good(app.get(&names.run_path()).await);
    assert_eq!(run["usage"]["costUsd"], 1.5);
    assert_eq!(usage().await["costUsd"], 0.002_500_001);
}
